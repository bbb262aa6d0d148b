// The server's end points: from a request that has been read to its response.
#include "server/api.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <utility>

#include "server/access.h"
#include "server/answer_sender.h"
#include "server/turn_store.h"
#include "server/web_page.h"

namespace kimi_k3::server {
namespace {

constexpr std::string_view kModels = "/v1/models";
constexpr std::string_view kModelPrefix = "/v1/models/";

// Turns in memory that are known again when they come back.
constexpr size_t kMostTurns = 1000;
constexpr const char* kTurnFolder = "turns";

struct EndPoint {
  std::string_view path;
  bool post;  // else GET and HEAD
  bool open;  // no key needed
};

constexpr std::array kEndPoints = {EndPoint{"/", false, true},
                                   EndPoint{"/health", false, true},
                                   EndPoint{"/status", false, false},
                                   EndPoint{"/metrics", false, false},
                                   EndPoint{kModels, false, false},
                                   EndPoint{"/v1/chat/completions", true, false},
                                   EndPoint{"/v1/completions", true, false}};

// The end point of a path; null where there is none.
const EndPoint* FindEndPoint(const std::string& path) {
  const std::string_view wanted = path.starts_with(kModelPrefix) ? kModels : std::string_view(path);
  const auto found = std::ranges::find(kEndPoints, wanted, &EndPoint::path);
  return found == kEndPoints.end() ? nullptr : &*found;
}

bool IsJson(const RequestHead& head) {
  std::string type(head.Find("content-type").value_or(""));
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.pop_back();
  std::ranges::transform(type, type.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return type == kJsonType;
}

// Counts one while it lives.
class Counted {
 public:
  explicit Counted(std::atomic<size_t>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<size_t>& count_;
};

// Beside the states of conversations, where those are kept.
std::unique_ptr<TurnStore> MakeTurnStore(const Tokenizer& tokenizer, const ServerOptions& options,
                                         const ServerLog& log) {
  if (options.cache_dir.empty()) return nullptr;
  return std::make_unique<TurnStore>(options.cache_dir / kTurnFolder,
                                     TurnBytesOf(options.most_cache_bytes), tokenizer, log.problem);
}

[[noreturn]] void RefuseAsBusy(int status, const char* code, const char* message) {
  throw ApiError(status, code, "", message);
}

}  // namespace

Api::Api(const Tokenizer& tokenizer, size_t context, Scheduler& scheduler, Metrics& metrics,
         const ServerOptions& options, const ServerLog& log)
    : tokenizer_(tokenizer),
      context_(context),
      scheduler_(scheduler),
      metrics_(metrics),
      options_(options),
      created_(std::time(nullptr)),
      log_(log.note, options.progress_time),
      turns_(kMostTurns, MakeTurnStore(tokenizer, options, log)),
      constraints_(tokenizer) {}

std::string Api::MetricPath(const std::string& path) {
  const EndPoint* end_point = FindEndPoint(path);
  return end_point == nullptr ? "other" : std::string(end_point->path);
}

void Api::CheckHead(const RequestHead& head) const {
  CheckHost(head, options_);
  const EndPoint* end_point = FindEndPoint(head.path);
  if (end_point == nullptr) {
    throw ApiError(404, "not_found", "",
                   fmt::format("there is nothing at {}", head.path.substr(0, 200)));
  }
  if (head.method == "OPTIONS") return;
  const bool known =
      end_point->post ? head.method == "POST" : head.method == "GET" || head.method == "HEAD";
  if (!known) {
    throw ApiError(405, "method_not_allowed", "",
                   fmt::format("{} takes {} only", end_point->path,
                               end_point->post ? "POST" : "GET and HEAD"));
  }
  if (!end_point->open) CheckApiKey(head, options_);
  if (!end_point->post) return;
  CheckOrigin(head, options_);
  if (!IsJson(head)) {
    throw ApiError(415, "unsupported_media_type", "",
                   "the body must be JSON, and the request say so: Content-Type: application/json");
  }
  const std::string_view encoding = head.Find("content-encoding").value_or("identity");
  if (encoding != "identity") {
    throw ApiError(415, "unsupported_media_type", "", "compressed bodies are not taken");
  }
}

void Api::AddCommonHeaders(const RequestHead& head, ResponseWriter& response) const {
  if (const auto origin = AllowedOrigin(head, options_)) {
    response.AddHeader("Access-Control-Allow-Origin", *origin);
    response.AddHeader("Vary", "Origin");
  }
}

void Api::Respond(const RequestHead& head, RequestBody body, ResponseWriter& response) {
  if (head.method == "OPTIONS") {
    Preflight(head, response);
  } else if (head.path == "/") {
    Page(response);
  } else if (head.path == "/health") {
    if (stopping_) RefuseAsBusy(503, "shutting_down", "the server is shutting down");
    response.Send(200, kJsonType, "{\"status\":\"ok\"}");
  } else if (head.path == "/status") {
    response.Send(200, kJsonType, metrics_.StatusJson(scheduler_.status(), options_.model_name));
  } else if (head.path == "/metrics") {
    response.Send(200, "text/plain; version=0.0.4", metrics_.Prometheus(scheduler_.status()));
  } else if (head.path == kModels) {
    response.Send(200, kJsonType, ModelListJson(options_.model_name, created_));
  } else if (head.path.starts_with(kModelPrefix)) {
    if (head.path.substr(kModelPrefix.size()) != options_.model_name) {
      throw ApiError(404, "model_not_found", "model",
                     fmt::format("there is no such model here, only \"{}\"", options_.model_name));
    }
    response.Send(200, kJsonType, ModelJson(options_.model_name, created_));
  } else {
    if (stopping_) RefuseAsBusy(503, "shutting_down", "the server is shutting down");
    const Counted counted(answering_);
    const bool is_chat = head.path != "/v1/completions";
    PreparedAnswer prepared = is_chat ? PrepareChat(body.text) : PrepareText(body.text);
    body = {};
    Generate(std::move(prepared), is_chat ? "chat" : "text", response);
  }
}

std::string Api::MethodsOf(const std::string& path) {
  const EndPoint* end_point = FindEndPoint(path);
  if (end_point == nullptr) return {};
  return end_point->post ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
}

void Api::Preflight(const RequestHead& head, ResponseWriter& response) const {
  const std::string methods = MethodsOf(head.path);
  response.AddHeader("Allow", methods);
  if (AllowedOrigin(head, options_)) {
    response.AddHeader("Access-Control-Allow-Methods", methods);
    const std::optional<std::string_view> wanted = head.Find("access-control-request-headers");
    response.AddHeader("Access-Control-Allow-Headers",
                       wanted ? std::string(*wanted) : "authorization, content-type");
    response.AddHeader("Access-Control-Max-Age", "600");
  }
  response.Send(204, "", "");
}

void Api::Page(ResponseWriter& response) const {
  // The page brings everything along and talks to this server alone.
  response.AddHeader("Content-Security-Policy",
                     "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                     "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                     "frame-ancestors 'none'");
  response.AddHeader("Referrer-Policy", "no-referrer");
  response.Send(200, "text/html; charset=utf-8", WebPage());
}

AnswerOrigin Api::OriginOf(const char* id_prefix) const {
  const size_t most = options_.most_prompt_tokens;
  return {.id = RandomId(id_prefix),
          .model = options_.model_name,
          .approximations = options_.approximations,
          .created = std::time(nullptr),
          .most_prompt_tokens = most == 0 ? context_ : std::min(context_, most)};
}

PreparedAnswer Api::PrepareChat(const std::string& body) {
  const std::lock_guard lock(parsing_);
  ChatCompletionRequest parsed = ParseChatCompletion(body, options_);
  turns_.Restore(parsed.chat);
  const TurnKey key = TurnMemory::KeyOf(parsed.chat);
  // What continues a beginning that the client wrote is no turn of its own.
  std::function<void(GeneratedTurn)> remember;
  if (!parsed.chat.messages.back().partial) {
    remember = [this, key](GeneratedTurn turn) { turns_.Remember(key, std::move(turn)); };
  }
  return PrepareChatAnswer(tokenizer_, constraints_, parsed, OriginOf("chatcmpl-"),
                           std::move(remember));
}

PreparedAnswer Api::PrepareText(const std::string& body) {
  const std::lock_guard lock(parsing_);
  return PrepareTextAnswer(tokenizer_, ParseTextCompletion(body, options_), OriginOf("cmpl-"));
}

void Api::Generate(PreparedAnswer prepared, const char* kind, ResponseWriter& response) {
  RequestLog::Entry entry(log_, kind);
  response.set_log_name(entry.Name());
  std::optional<Scheduler::Ticket> ticket;
  try {
    ticket = scheduler_.Submit(std::move(prepared.request), prepared.answer);
  } catch (const ApiError&) {
    throw;
  } catch (const Error& error) {
    throw ApiError(400, "invalid_value", "prompt", error.what());
  }
  if (!ticket) {
    RefuseAsBusy(429, "queue_full", "too many requests are waiting already; try again later");
  }
  SendAnswer(*ticket, prepared.answer->queue(), *prepared.writer, prepared.stream,
             options_.sign_of_life, entry, response);
  turns_.Store();
}

}  // namespace kimi_k3::server

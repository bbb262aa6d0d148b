// HTTP as a download needs it: ranges, redirects that keep secrets at home, stalls noticed.
#include "fetch/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace kimi_k3 {
namespace {

constexpr int kMostRedirects = 10;
constexpr size_t kMostHeaderLines = 1000;  // of a response
constexpr long kBytesASecondThatStall = 1000;
constexpr const char* kAgent = "kimi_k3";

std::optional<uint64_t> Number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "bytes 0-99/1000".
std::optional<HttpReply::ContentRange> ParseContentRange(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || slash < dash) {
    return std::nullopt;
  }
  const auto first = Number(text.substr(0, dash));
  const auto last = Number(text.substr(dash + 1, slash - dash - 1));
  const auto total = Number(text.substr(slash + 1));
  if (!first || !last || !total || *first > *last || *last >= *total) return std::nullopt;
  return HttpReply::ContentRange{*first, *last, *total};
}

struct ListFree {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct UrlFree {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

std::string PartOf(CURLU* url, CURLUPart part, unsigned flags) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  std::string copy(text);
  curl_free(text);
  return copy;
}

// Where a redirect leads; empty where it is no URL that may be followed.
std::string Resolve(const std::string& base, const std::string& location) {
  const std::unique_ptr<CURLU, UrlFree> url(curl_url());
  if (curl_url_set(url.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK ||
      curl_url_set(url.get(), CURLUPART_URL, location.c_str(), 0) != CURLUE_OK) {
    return {};
  }
  return PartOf(url.get(), CURLUPART_URL, 0);
}

// A file of certificate authorities in place of the system's; empty: the system's.
std::string AuthorityFile() {
  for (const char* name : {"SSL_CERT_FILE", "CURL_CA_BUNDLE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

// What to do about a server whose identity cannot be proved; empty for other failures.
std::string CertificateAdvice(CURLcode code) {
  if (code == CURLE_SSL_CACERT_BADFILE) {
    const std::string file = AuthorityFile();
    if (file.empty()) return "install the package ca-certificates";
    return fmt::format("SSL_CERT_FILE or CURL_CA_BUNDLE names {}, which cannot be used", file);
  }
  if (code != CURLE_PEER_FAILED_VERIFICATION) return {};
  return "the server cannot prove who it is, so nothing is fetched from it: is the clock right, "
         "the "
         "address, the package ca-certificates installed? A private authority is trusted where "
         "SSL_CERT_FILE names the file of its certificate";
}

bool IsRedirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

std::string HttpReply::Header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

struct HttpClient::State {
  explicit State(HttpOptions given) : options(given) {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    curl = curl_easy_init();
    if (curl == nullptr) Fail(ErrorKind::kRun, "the HTTP library cannot be started");
  }
  ~State() { curl_easy_cleanup(curl); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  HttpOptions options;
  CURL* curl = nullptr;
  // Of the request in progress.
  HttpReply* reply = nullptr;
  FunctionRef<bool(const HttpReply&)>* begin = nullptr;
  FunctionRef<bool(std::span<const std::byte>)>* body = nullptr;
  bool begun = false;
  size_t header_lines = 0;
  std::exception_ptr thrown;

  static size_t OnHeader(char* data, size_t size, size_t count, void* self) {
    auto& state = *static_cast<State*>(self);
    if (++state.header_lines > kMostHeaderLines) return 0;
    std::string_view line(data, size * count);
    while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {  // a response begins; an interim one may come before it
      state.reply->content_range.reset();
      state.reply->content_length.reset();
      for (const char* name : {"location", "retry-after"}) state.reply->headers.erase(name);
      return size * count;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return size * count;
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    if (name == "content-range") state.reply->content_range = ParseContentRange(value);
    if (name == "content-length") state.reply->content_length = Number(value);
    state.reply->headers[std::move(name)] = std::string(value);
    return size * count;
  }

  static size_t OnBody(char* data, size_t size, size_t count, void* self) {
    auto& state = *static_cast<State*>(self);
    const size_t bytes = size * count;
    try {
      if (!state.begun) {
        state.begun = true;
        curl_easy_getinfo(state.curl, CURLINFO_RESPONSE_CODE, &state.reply->status);
        if (state.reply->status != 200 && state.reply->status != 206) return bytes;  // not wanted
        if (!(*state.begin)(*state.reply)) {
          state.reply->stopped = true;
          return 0;
        }
      }
      if (state.reply->status != 200 && state.reply->status != 206) return bytes;
      if ((*state.body)(std::as_bytes(std::span(data, bytes)))) return bytes;
      state.reply->stopped = true;
    } catch (...) {
      state.thrown = std::current_exception();
    }
    return 0;
  }

  static int OnProgress(void* self, curl_off_t /*total*/, curl_off_t /*now*/, curl_off_t /*up*/,
                        curl_off_t /*sent*/) {
    const auto& state = *static_cast<State*>(self);
    return state.options.stop != nullptr && state.options.stop->load() ? 1 : 0;
  }

  // One request without following redirects.
  void Send(const std::string& url, const HttpRequest& request, bool with_token) {
    begun = false;
    header_lines = 0;
    reply->error.clear();
    reply->status = 0;
    curl_easy_reset(curl);
    std::array<char, CURL_ERROR_SIZE> text{};
    std::unique_ptr<curl_slist, ListFree> list;
    const auto add = [&list](const std::string& line) {
      curl_slist* longer = curl_slist_append(list.get(), line.c_str());
      if (longer == nullptr) throw std::bad_alloc();
      static_cast<void>(list.release());
      list.reset(longer);
    };
    add("Accept-Encoding: identity");
    if (with_token) add("Authorization: Bearer " + request.token);
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list.get());
    curl_easy_setopt(curl, CURLOPT_USERAGENT, kAgent);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, text.data());
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, this);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, this);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     static_cast<long>(options.connect_time.count()));
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kBytesASecondThatStall);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_time.count()));
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L * 1024);
    const std::string authorities = AuthorityFile();
    if (!authorities.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, authorities.c_str());
    std::string range;
    if (request.range) {
      range = fmt::format("{}-{}", request.range->first, request.range->last);
      curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
    }
    const CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &reply->status);
    if (thrown != nullptr) std::rethrow_exception(std::exchange(thrown, nullptr));
    if (code == CURLE_ABORTED_BY_CALLBACK) reply->stopped = true;
    if (code == CURLE_OK) return;
    reply->error = code == CURLE_OPERATION_TIMEDOUT && reply->status != 0
                       ? fmt::format("hardly anything came for {} s", options.stall_time.count())
                       : std::string(text[0] != '\0' ? text.data() : curl_easy_strerror(code));
    if (const std::string advice = CertificateAdvice(code); !advice.empty()) {
      reply->error += "; " + advice;
      reply->hopeless = true;
    }
  }
};

HttpClient::HttpClient(HttpOptions options) : state_(std::make_unique<State>(options)) {}
HttpClient::~HttpClient() = default;

HttpReply HttpClient::Get(const HttpRequest& request, FunctionRef<bool(const HttpReply&)> begin,
                          FunctionRef<bool(std::span<const std::byte>)> body) {
  HttpReply reply;
  state_->reply = &reply;
  state_->begin = &begin;
  state_->body = &body;
  const std::string home = OriginOf(request.url);
  std::string url = request.url;
  if (home.empty()) {
    reply.error = "not an http or https address";
    reply.hopeless = true;
    return reply;
  }
  for (int redirects = 0;; ++redirects) {
    state_->Send(url, request, !request.token.empty() && OriginOf(url) == home);
    if (!IsRedirect(reply.status) || reply.stopped) return reply;
    const std::string target = Resolve(url, reply.Header("location"));
    const std::string origin = OriginOf(target);
    if (redirects == kMostRedirects || origin.empty() ||
        (url.starts_with("https:") && !origin.starts_with("https:"))) {
      reply.hopeless = true;
      reply.error = redirects == kMostRedirects ? "redirected too often"
                    : origin.empty()            ? "redirected to something that is no web address"
                                                : "redirected from https to http";
      return reply;
    }
    url = target;
  }
}

std::string OriginOf(const std::string& text) {
  const std::unique_ptr<CURLU, UrlFree> url(curl_url());
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return {};
  const std::string scheme = PartOf(url.get(), CURLUPART_SCHEME, 0);
  if (scheme != "http" && scheme != "https") return {};
  std::string host = PartOf(url.get(), CURLUPART_HOST, 0);
  std::ranges::transform(host, host.begin(), [](unsigned char c) { return std::tolower(c); });
  return fmt::format("{}://{}:{}", scheme, host,
                     PartOf(url.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

std::string UrlEscape(std::string_view text, bool keep_slashes) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~' ||
                       (keep_slashes && c == '/');
    if (plain && byte < 0x80) {
      escaped += c;
    } else {
      escaped += fmt::format("%{:02X}", byte);
    }
  }
  return escaped;
}

std::optional<std::chrono::seconds> RetryAfter(const std::string& header) {
  if (header.empty()) return std::nullopt;
  if (const auto seconds = Number(header)) {
    return std::chrono::seconds(std::min<uint64_t>(*seconds, 86400));
  }
  const std::time_t when = curl_getdate(header.c_str(), nullptr);
  if (when < 0) return std::nullopt;
  return std::chrono::seconds(std::max<std::time_t>(0, when - std::time(nullptr)));
}

}  // namespace kimi_k3

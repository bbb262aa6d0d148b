// The requests of a batch: a file of JSON lines as OpenAI's batch interface has them.
#include "cli/batch_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "cli/line_scanner.h"
#include "text/json_text.h"
#include "text/json_value.h"

namespace kimi_k3 {
namespace {

using text::JsonValue;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr size_t kMostCustomIdBytes = 512;

struct Url {
  std::string_view path;
  BatchKind kind;
};
constexpr std::array kUrls = {Url{"/v1/chat/completions", BatchKind::kChat},
                              Url{"/v1/completions", BatchKind::kText},
                              Url{"/v1/score", BatchKind::kScore}};

// What editors and other systems put around a line.
std::string_view Trimmed(std::string_view line, bool first) {
  if (first && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) {
    line.remove_suffix(1);
  }
  return line;
}

std::string_view StringOf(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.Find(name);
  return value != nullptr && value->is_string() ? std::string_view(value->string())
                                                : std::string_view();
}

BatchId CustomIdKey(std::string_view custom_id) { return BatchId::Of({custom_id}); }

}  // namespace

std::variant<BatchRequest, BatchProblem> ParseBatchLine(std::string_view line) {
  const text::JsonParseResult parsed = text::ParseJson(line);
  if (!parsed.value) return BatchProblem{"invalid_json", "is " + parsed.error};
  if (!parsed.value->is_object()) {
    return BatchProblem{"invalid_type",
                        fmt::format("must be a JSON object, not {}", parsed.value->TypeName())};
  }
  const std::string custom_id(StringOf(*parsed.value, "custom_id"));
  if (custom_id.empty()) {
    return BatchProblem{"missing_custom_id", "custom_id: must be a string that is not empty"};
  }
  if (custom_id.size() > kMostCustomIdBytes) {
    return BatchProblem{"invalid_custom_id",
                        fmt::format("custom_id: is longer than {} bytes", kMostCustomIdBytes)};
  }
  if (StringOf(*parsed.value, "method") != "POST") {
    return BatchProblem{"invalid_method", "method: must be \"POST\"", custom_id};
  }
  const std::string_view path = StringOf(*parsed.value, "url");
  const auto url = std::ranges::find(kUrls, path, &Url::path);
  if (url == kUrls.end()) {
    return BatchProblem{"invalid_url",
                        fmt::format("url: must be one of {}, {} and {}", kUrls[0].path,
                                    kUrls[1].path, kUrls[2].path),
                        custom_id};
  }
  const JsonValue* body = parsed.value->Find("body");
  if (body == nullptr || !body->is_object()) {
    return BatchProblem{"invalid_body", "body: must be a JSON object", custom_id};
  }
  return BatchRequest{custom_id, url->kind, text::WriteJson(*body, text::JsonSpacing::kCompact)};
}

BatchInput::BatchInput(std::filesystem::path path, std::string_view settings)
    : path_(std::move(path)), settings_(settings), fd_(OpenForReading(path_, O_NONBLOCK)) {
  struct stat info = {};
  if (fstat(fd_.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    Fail(ErrorKind::kIo, "{}: is no regular file, and requests are read more than once",
         path_.string());
  }
  changed_ = info.st_mtime;
  LineScanner scanner(fd_, path_, kMostBatchLineBytes);
  while (const std::optional<ScannedLine> line = scanner.Next()) {
    const std::string_view text = Trimmed(line->text, line->number == 1);
    if (text.empty() && !line->too_long) continue;
    Add({.number = line->number, .offset = line->offset, .bytes = line->bytes, .id = {}}, text);
  }
}

void BatchInput::Add(const BatchLine& line, std::string_view text) {
  BatchLine& added = lines_.emplace_back(line);
  const bool too_long = line.bytes > kMostBatchLineBytes;
  if (!too_long) demand_.longest_line_bytes = std::max(demand_.longest_line_bytes, line.bytes);
  const auto parsed = ParseBatchLine(text);
  const auto* request = std::get_if<BatchRequest>(&parsed);
  if (request != nullptr) {
    const auto [known, is_new] = custom_ids_.emplace(CustomIdKey(request->custom_id), line.number);
    if (!is_new) added.twin = known->second;
    demand_.scores = demand_.scores || request->kind == BatchKind::kScore;
  }
  added.id = IdOf(added, text, request != nullptr && added.twin == 0);
  by_id_.emplace(added.id, lines_.size() - 1);
}

// Where a request stands does not matter; lines that are none may be the same.
BatchId BatchInput::IdOf(const BatchLine& line, std::string_view text, bool is_request) const {
  return BatchId::Of(
      {settings_, is_request ? std::string() : fmt::format("{}", line.number), text});
}

std::variant<BatchRequest, BatchProblem> BatchInput::Read(size_t index) const {
  const BatchLine& line = lines_[index];
  if (line.bytes > kMostBatchLineBytes) {
    return BatchProblem{"line_too_long",
                        fmt::format("is {} long; at most {} are taken", FormatByteSize(line.bytes),
                                    FormatByteSize(kMostBatchLineBytes))};
  }
  std::string whole(line.bytes, '\0');
  ReadExactly(fd_, path_, line.offset, std::as_writable_bytes(std::span(whole)));
  const std::string_view text = Trimmed(whole, line.number == 1);
  auto parsed = ParseBatchLine(text);
  const bool is_request = std::holds_alternative<BatchRequest>(parsed);
  if (IdOf(line, text, is_request && line.twin == 0) != line.id) {
    Fail(ErrorKind::kIo, "{}: line {} has changed since the batch began; start it anew",
         path_.string(), line.number);
  }
  if (is_request && line.twin != 0) {
    return BatchProblem{"duplicate_custom_id",
                        fmt::format("custom_id: \"{}\" is that of line {} already",
                                    std::get<BatchRequest>(parsed).custom_id, line.twin)};
  }
  return parsed;
}

std::optional<size_t> BatchInput::Find(const BatchId& id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? std::nullopt : std::optional(found->second);
}

bool BatchInput::HasCustomId(std::string_view custom_id) const {
  return custom_ids_.contains(CustomIdKey(custom_id));
}

}  // namespace kimi_k3

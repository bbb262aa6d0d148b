// Reads requests of HTTP/1.1 and HTTP/1.0 from a connection, within limits of size and time.
#include "server/request_reader.h"

#include <algorithm>
#include <charconv>

#include "server/api_error.h"

namespace kimi_k3::server {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr size_t kMostHeaders = 100;
constexpr size_t kMostChunkLine = 256;
constexpr size_t kReadBytes = 65536;

[[noreturn]] void Refuse(int status, const char* code, const std::string& message) {
  throw ApiError(status, code, "", message);
}

[[noreturn]] void RefuseHead(const std::string& message) {
  Refuse(400, "bad_request", "the request is not HTTP: " + message);
}

[[noreturn]] void RefuseSize(uint64_t most) {
  Refuse(413, "request_too_large",
         fmt::format("the request's body is larger than {} bytes (serve --max-body)", most));
}

bool IsTokenCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, IsTokenCharacter);
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::optional<uint64_t> WholeNumber(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void ParseRequestLine(std::string_view line, RequestHead& head) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) RefuseHead("its first line is malformed");
  head.method = line.substr(0, first);
  head.target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!IsToken(head.method)) RefuseHead("its method is malformed");
  if (!version.starts_with("HTTP/")) RefuseHead("its first line names no HTTP version");
  head.old_version = version == "HTTP/1.0";
  if (!head.old_version && version != "HTTP/1.1") {
    Refuse(505, "http_version", "only HTTP/1.1 and HTTP/1.0 are spoken here");
  }
  const bool printable =
      std::ranges::all_of(head.target, [](char c) { return c > ' ' && c < 127; });
  if (!head.target.starts_with('/') || !printable) {
    RefuseHead("its target must be a path that begins with /");
  }
  head.path = head.target.substr(0, head.target.find('?'));
}

void ParseHeader(std::string_view line, RequestHead& head) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) {
    RefuseHead("a header has no name");
  }
  const std::string_view value = Trimmed(line.substr(colon + 1));
  const bool plain = std::ranges::none_of(
      value, [](char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 127; });
  if (!plain) RefuseHead("a header has a control character");
  if (head.headers.size() == kMostHeaders) {
    Refuse(431, "head_too_large", "the request has too many headers");
  }
  head.headers.emplace_back(LowerCase(line.substr(0, colon)), value);
}

size_t CountOf(const RequestHead& head, std::string_view name) {
  return static_cast<size_t>(std::ranges::count_if(
      head.headers, [&](const auto& header) { return header.first == name; }));
}

// How long the body is, and what becomes of the connection. Anything that two programs might read
// differently is refused.
void Interpret(RequestHead& head) {
  for (const char* once :
       {"host", "content-length", "transfer-encoding", "authorization", "content-type", "origin"}) {
    if (CountOf(head, once) > 1) RefuseHead(fmt::format("it has two headers {}", once));
  }
  if (!head.Find("host") && !head.old_version) RefuseHead("it has no header Host");
  const std::optional<std::string_view> length = head.Find("content-length");
  const std::optional<std::string_view> encoding = head.Find("transfer-encoding");
  if (length && encoding) RefuseHead("it has both Content-Length and Transfer-Encoding");
  if (encoding) {
    if (head.old_version) RefuseHead("HTTP/1.0 has no Transfer-Encoding");
    if (LowerCase(*encoding) != "chunked") {
      Refuse(501, "transfer_encoding", "the only transfer encoding known here is chunked");
    }
    head.chunked = true;
  }
  if (length) {
    const bool digits = !length->empty() &&
                        std::ranges::all_of(*length, [](char c) { return c >= '0' && c <= '9'; });
    if (!digits) RefuseHead("its Content-Length is no number");
    // What does not fit 64 bits is too large in any case.
    head.body_bytes = WholeNumber(*length, 10).value_or(UINT64_MAX);
  }
  if (const auto expect = head.Find("expect"); expect && !head.old_version) {
    if (LowerCase(*expect) != "100-continue") {
      Refuse(417, "expectation", "the only expectation known here is 100-continue");
    }
    head.expects_continue = true;
  }
  head.keep_alive = !head.old_version;
  if (const auto connection = head.Find("connection"); connection && head.keep_alive) {
    head.keep_alive = LowerCase(*connection).find("close") == std::string::npos;
  }
}

}  // namespace

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

std::optional<std::string_view> RequestHead::Find(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return std::nullopt;
}

RequestReader::RequestReader(ByteSource& source, const RequestLimits& limits)
    : source_(source), limits_(limits) {}

// Whether bytes came; false at the end of the connection.
bool RequestReader::Fill(Clock::time_point deadline, size_t most) {
  switch (source_.Read(held_, std::min(most, kReadBytes), deadline)) {
    case ByteSource::Outcome::kBytes:
      return true;
    case ByteSource::Outcome::kTimeout:
      Refuse(408, "request_timeout", "the request did not come in time");
    case ByteSource::Outcome::kEnd:
    case ByteSource::Outcome::kFailed:
      break;
  }
  return false;
}

void RequestReader::Require(Clock::time_point deadline, size_t most) {
  if (!Fill(deadline, most)) RefuseHead("the connection ended in the middle of it");
}

std::optional<RequestHead> RequestReader::ReadHead() {
  // Between requests a client may be silent for long, and go.
  while (held_.empty()) {
    const Clock::time_point idle_until = Clock::now() + limits_.idle_time;
    if (source_.Read(held_, kReadBytes, idle_until) != ByteSource::Outcome::kBytes) {
      return std::nullopt;
    }
  }
  const Clock::time_point deadline = Clock::now() + limits_.head_time;
  RequestHead head;
  uint64_t used = 0;
  for (bool first = true;; first = false) {
    size_t end = held_.find('\n');
    while (end == std::string::npos) {
      if (used + held_.size() > limits_.head_bytes) break;
      const size_t before = held_.size();
      Require(deadline, kReadBytes);
      end = held_.find('\n', before);
    }
    const uint64_t line_bytes = end == std::string::npos ? held_.size() : end + 1;
    if (used + line_bytes > limits_.head_bytes) {
      Refuse(431, "head_too_large",
             fmt::format("the request's head is larger than {} bytes", limits_.head_bytes));
    }
    used += line_bytes;
    std::string line = held_.substr(0, end);
    held_.erase(0, end + 1);
    if (line.empty() || line.back() != '\r') RefuseHead("a line does not end with CR LF");
    line.pop_back();
    if (first) {
      if (line.empty()) continue;  // left over from the request before
      ParseRequestLine(line, head);
    } else if (head.method.empty()) {
      ParseRequestLine(line, head);
    } else if (line.empty()) {
      break;
    } else {
      ParseHeader(line, head);
    }
  }
  Interpret(head);
  if (!head.chunked && head.body_bytes > limits_.body_bytes) RefuseSize(limits_.body_bytes);
  return head;
}

std::string RequestReader::ReadBody(const RequestHead& head) {
  const Clock::time_point deadline = Clock::now() + limits_.body_time;
  if (head.chunked) return ReadChunked(deadline);
  const auto wanted = static_cast<size_t>(head.body_bytes);
  while (held_.size() < wanted) Require(deadline, wanted - held_.size());
  std::string body = held_.substr(0, wanted);
  held_.erase(0, wanted);
  return body;
}

// A short line of the chunked encoding, without its end.
std::string RequestReader::TakeLine(Clock::time_point deadline) {
  size_t end = held_.find(kLineEnd);
  while (end == std::string::npos) {
    if (held_.size() > kMostChunkLine) RefuseHead("a chunk's length is malformed");
    Require(deadline, kReadBytes);
    end = held_.find(kLineEnd);
  }
  std::string line = held_.substr(0, end);
  held_.erase(0, end + kLineEnd.size());
  if (line.size() > kMostChunkLine) RefuseHead("a chunk's length is malformed");
  return line;
}

std::string RequestReader::ReadChunked(Clock::time_point deadline) {
  std::string body;
  while (true) {
    const std::string line = TakeLine(deadline);
    const std::string_view digits = Trimmed(std::string_view(line).substr(0, line.find(';')));
    const std::optional<uint64_t> size = WholeNumber(digits, 16);
    if (!size) RefuseHead("a chunk's length is no number");
    if (*size > limits_.body_bytes - body.size()) RefuseSize(limits_.body_bytes);
    if (*size == 0) break;
    auto left = static_cast<size_t>(*size);
    while (left > 0) {
      if (held_.empty()) Require(deadline, left);
      const size_t take = std::min(left, held_.size());
      body.append(held_, 0, take);
      held_.erase(0, take);
      left -= take;
    }
    if (!TakeLine(deadline).empty()) RefuseHead("a chunk is longer than it says");
  }
  // Trailers mean nothing here; there may be a few.
  for (size_t i = 0; !TakeLine(deadline).empty(); ++i) {
    if (i == kMostHeaders) RefuseHead("too many trailers follow it");
  }
  return body;
}

}  // namespace kimi_k3::server

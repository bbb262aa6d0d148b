// Reads requests of HTTP/1.1 and HTTP/1.0 from a connection, within limits of size and time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kimi_k3::server {

using Clock = std::chrono::steady_clock;

// Where the bytes of a connection come from.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  enum class Outcome { kBytes, kEnd, kTimeout, kFailed };
  // Waits for bytes until the deadline; appends at most `most` of them to `bytes`.
  virtual Outcome Read(std::string& bytes, size_t most, Clock::time_point deadline) = 0;
};

struct RequestHead {
  std::string method;  // as sent: GET, POST ...
  std::string target;  // begins with /, no spaces or controls
  std::string path;    // the target without its query; not decoded
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  bool old_version = false;  // HTTP/1.0: no chunks, no Host, one request a connection
  bool keep_alive = true;
  bool expects_continue = false;
  bool chunked = false;
  uint64_t body_bytes = 0;  // where not chunked

  // The header's value; nothing where it is absent. Name in lower case.
  std::optional<std::string_view> Find(std::string_view name) const;
};

struct RequestLimits {
  uint64_t head_bytes = 32768;
  uint64_t body_bytes = uint64_t{1} << 20;
  std::chrono::milliseconds idle_time{60000};
  std::chrono::milliseconds head_time{10000};
  std::chrono::milliseconds body_time{60000};
};

// One connection's requests, one after another. What cannot be a request is an ApiError with the
// right status (400, 408, 413, 417, 431, 501, 505), after which nothing more can be read. Whatever
// a client sends, no more memory is taken than the limits say.
class RequestReader {
 public:
  // `source` must outlive the reader.
  RequestReader(ByteSource& source, const RequestLimits& limits);

  // The next head; nothing where the connection ended or stayed idle before one began. A length
  // beyond the limit is refused here, before the body is read.
  std::optional<RequestHead> ReadHead();

  // The body that follows `head`. Once for each head.
  std::string ReadBody(const RequestHead& head);

 private:
  bool Fill(Clock::time_point deadline, size_t most);
  void Require(Clock::time_point deadline, size_t most);
  std::string TakeLine(Clock::time_point deadline);
  std::string ReadChunked(Clock::time_point deadline);

  ByteSource& source_;
  const RequestLimits limits_;
  std::string held_;  // received, not yet used
};

// With the letters A to Z in lower case.
std::string LowerCase(std::string_view text);

}  // namespace kimi_k3::server

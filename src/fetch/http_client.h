// HTTP as a download needs it: ranges, redirects that keep secrets at home, stalls noticed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/function_ref.h"

namespace kimi_k3 {

struct HttpOptions {
  std::chrono::milliseconds connect_time{30000};
  std::chrono::seconds stall_time{30};  // without a byte, after which a transfer is given up
  const std::atomic<bool>* stop = nullptr;
};

struct HttpRequest {
  std::string url;
  // Sent to the host (scheme, name and port) of `url` alone, never to where it redirects.
  std::string token;
  struct Range {
    uint64_t first = 0;
    uint64_t last = 0;  // included
  };
  std::optional<Range> range;
};

// What came of a request.
struct HttpReply {
  long status = 0;  // of the last response; 0 where none came
  // Of all responses on the way, the last one's winning; names in lower case.
  std::map<std::string, std::string> headers;
  // Of the last response: what its Content-Range says, where it has a well-formed one.
  struct ContentRange {
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t total = 0;
  };
  std::optional<ContentRange> content_range;
  std::optional<uint64_t> content_length;  // of the last response
  std::string error;                       // of the transport; empty where the body came whole
  bool stopped = false;                    // by *stop or by a body that was refused
  bool hopeless = false;                   // the same request will fail in the same way
  std::string Header(const std::string& name) const;
};

// One connection that is kept open between requests to the same host. Certificates are checked
// against the system's authorities, or those in the file that SSL_CERT_FILE or CURL_CA_BUNDLE
// names. Not thread-safe.
class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Sends a GET and follows at most ten redirects, from https to https alone. `begin` is shown the
  // reply when the headers of a response with a body (status 200 or 206) are there and may refuse
  // the body by false; `body` is given it piece by piece and may stop the transfer by false. Never
  // throws for what a server or the net does: that is in the reply. What `begin` and `body` throw
  // comes through.
  HttpReply Get(const HttpRequest& request, FunctionRef<bool(const HttpReply&)> begin,
                FunctionRef<bool(std::span<const std::byte>)> body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "https://host:port" of a URL, the port written out; empty where it is no http or https URL.
std::string OriginOf(const std::string& url);

// The text with everything but letters, digits and "-._~" as %XX; slashes stay where keep_slashes.
std::string UrlEscape(std::string_view text, bool keep_slashes);

// How long a Retry-After header asks to wait: seconds, or until a date. Nothing for other text.
std::optional<std::chrono::seconds> RetryAfter(const std::string& header);

}  // namespace kimi_k3

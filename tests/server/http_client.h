// A plain HTTP client for tests: sends bytes as they are, and reads responses.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace kimi_k3 {

struct HttpResponse {
  int status = 0;                              // 0: none came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // without the chunked encoding
  bool whole = false;                          // it ended as it said it would
};

// A connection to a server of this machine. Failures are exceptions of the standard library.
class HttpClient {
 public:
  explicit HttpClient(uint16_t port);

  // False where the server has answered already and closed.
  bool Send(std::string_view bytes);
  // Reads until the response is whole, the connection ends or the time is over.
  HttpResponse Read(std::chrono::milliseconds time = std::chrono::seconds(60));
  // Reads what comes until `text` has come (true) or the time is over; it stays to be read.
  bool Await(std::string_view text, std::chrono::milliseconds time = std::chrono::seconds(60));
  // Closes the sending side alone.
  void ShutDownSending();
  // Closes as a program that is killed on unread data: the server gets a reset.
  void Reset();
  const std::string& received() const { return received_; }

 private:
  bool Fill(std::chrono::steady_clock::time_point deadline);
  UniqueFd socket_;
  std::string received_;
  bool ended_ = false;
};

// The text of a request with a JSON body.
std::string PostText(const std::string& path, const std::string& body,
                     const std::vector<std::string>& headers = {});
std::string GetText(const std::string& path, const std::vector<std::string>& headers = {});

// One request on a connection of its own.
HttpResponse Post(uint16_t port, const std::string& path, const std::string& body,
                  const std::vector<std::string>& headers = {});
HttpResponse Get(uint16_t port, const std::string& path,
                 const std::vector<std::string>& headers = {});

// The data of each event of a stream, without "data: ".
std::vector<std::string> EventsOf(const std::string& body);

}  // namespace kimi_k3

// Writes one HTTP response to a connection, whole or piece by piece.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/connection.h"

namespace kimi_k3::server {

// The content type of JSON.
inline constexpr std::string_view kJsonType = "application/json";

// One response: either Send, or BeginStream, WritePiece ..., EndStream. The connection must outlive
// it.
class ResponseWriter {
 public:
  // with_body: false for HEAD. keep_alive: what the client wishes.
  ResponseWriter(Connection& connection, bool keep_alive, bool with_body);

  // The client knows no chunks (HTTP/1.0): the end of a stream is the connection's.
  void set_plain_stream() { chunked_ = false; }

  // A header of this response; value without control characters.
  void AddHeader(std::string name, std::string value);

  // The whole response. False where the client is gone.
  bool Send(int status, std::string_view content_type, std::string_view body);

  // The head of a response whose length is not known; false where the client is gone, as below.
  bool BeginStream(int status, std::string_view content_type);
  bool WritePiece(std::string_view piece);
  bool EndStream();

  // Whether the head has been written.
  bool begun() const { return status_ != 0; }
  int status() const { return status_; }
  // Whether another request may follow: the response was whole.
  bool reusable() const { return keep_alive_ && complete_; }
  // Another request will not be read.
  void set_keep_alive(bool keep_alive) { keep_alive_ = keep_alive; }
  // What the log calls the request that is answered; empty: nothing but its path.
  void set_log_name(std::string name) { log_name_ = std::move(name); }
  const std::string& log_name() const { return log_name_; }
  Connection& connection() { return connection_; }

 private:
  std::string Head(int status, std::string_view content_type) const;

  Connection& connection_;
  bool keep_alive_;
  const bool with_body_;
  bool chunked_ = true;
  std::vector<std::pair<std::string, std::string>> headers_;
  std::string log_name_;
  int status_ = 0;
  bool complete_ = false;
};

}  // namespace kimi_k3::server

// Writes one HTTP response to a connection, whole or piece by piece.
#include "server/response_writer.h"

#include <fmt/format.h>

namespace kimi_k3::server {
namespace {

std::string_view ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

}  // namespace

ResponseWriter::ResponseWriter(Connection& connection, bool keep_alive, bool with_body)
    : connection_(connection), keep_alive_(keep_alive), with_body_(with_body) {}

void ResponseWriter::AddHeader(std::string name, std::string value) {
  headers_.emplace_back(std::move(name), std::move(value));
}

std::string ResponseWriter::Head(int status, std::string_view content_type) const {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, ReasonOf(status));
  if (!content_type.empty()) head += fmt::format("Content-Type: {}\r\n", content_type);
  head += "X-Content-Type-Options: nosniff\r\n";
  for (const auto& [name, value] : headers_) head += fmt::format("{}: {}\r\n", name, value);
  if (!keep_alive_) head += "Connection: close\r\n";
  return head;
}

bool ResponseWriter::Send(int status, std::string_view content_type, std::string_view body) {
  status_ = status;
  std::string bytes = Head(status, content_type);
  if (status != 204) bytes += fmt::format("Content-Length: {}\r\n", body.size());
  bytes += "\r\n";
  if (with_body_) bytes += body;
  complete_ = connection_.Write(bytes);
  return complete_;
}

bool ResponseWriter::BeginStream(int status, std::string_view content_type) {
  status_ = status;
  if (!chunked_) keep_alive_ = false;
  return connection_.Write(Head(status, content_type) + "Cache-Control: no-store\r\n" +
                           (chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n"));
}

bool ResponseWriter::WritePiece(std::string_view piece) {
  if (!chunked_) return connection_.Write(piece);
  if (piece.empty()) return true;  // would be the end
  return connection_.Write(fmt::format("{:x}\r\n{}\r\n", piece.size(), piece));
}

bool ResponseWriter::EndStream() {
  complete_ = !chunked_ || connection_.Write("0\r\n\r\n");
  return complete_;
}

}  // namespace kimi_k3::server

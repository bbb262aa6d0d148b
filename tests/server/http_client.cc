// A plain HTTP client for tests: sends bytes as they are, and reads responses.
#include "server/http_client.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <stdexcept>

namespace kimi_k3 {
namespace {

using Clock = std::chrono::steady_clock;

std::string LowerCase(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// The body of a chunked response; nothing where it is not whole.
std::optional<std::string> Unchunk(std::string_view bytes, std::string& so_far) {
  so_far.clear();
  while (true) {
    const size_t end = bytes.find("\r\n");
    if (end == std::string_view::npos) return std::nullopt;
    const size_t size = std::stoul(std::string(bytes.substr(0, end)), nullptr, 16);
    bytes.remove_prefix(end + 2);
    if (bytes.size() < size + 2) return std::nullopt;
    if (size == 0) return so_far;
    so_far += bytes.substr(0, size);
    bytes.remove_prefix(size + 2);
  }
}

}  // namespace

HttpClient::HttpClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    throw std::runtime_error("cannot connect");
  }
}

bool HttpClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool HttpClient::Fill(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd waiting = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (ended_ || left <= 0 || poll(&waiting, 1, static_cast<int>(left)) <= 0) return false;
  std::array<char, 65536> block;
  const ssize_t n = recv(socket_.get(), block.data(), block.size(), 0);
  ended_ = n <= 0;
  if (n > 0) received_.append(block.data(), static_cast<size_t>(n));
  return n > 0;
}

bool HttpClient::Await(std::string_view text, std::chrono::milliseconds time) {
  const Clock::time_point deadline = Clock::now() + time;
  while (received_.find(text) == std::string::npos) {
    if (!Fill(deadline)) return false;
  }
  return true;
}

HttpResponse HttpClient::Read(std::chrono::milliseconds time) {
  const Clock::time_point deadline = Clock::now() + time;
  HttpResponse response;
  size_t head_end = std::string::npos;
  while (true) {
    while ((head_end = received_.find("\r\n\r\n")) == std::string::npos) {
      if (!Fill(deadline)) return response;
    }
    if (!received_.starts_with("HTTP/1.1 100")) break;
    received_.erase(0, head_end + 4);
  }
  response.status = std::stoi(received_.substr(9, 3));
  for (size_t at = received_.find("\r\n") + 2; at < head_end + 2;) {
    const size_t end = received_.find("\r\n", at);
    const size_t colon = received_.find(": ", at);
    response.headers[LowerCase(received_.substr(at, colon - at))] =
        received_.substr(colon + 2, end - colon - 2);
    at = end + 2;
  }
  const size_t body = head_end + 4;
  if (response.headers.contains("transfer-encoding")) {
    while (true) {
      const std::string_view bytes = std::string_view(received_).substr(body);
      response.whole = Unchunk(bytes, response.body).has_value();
      if (response.whole || !Fill(deadline)) break;
    }
    received_.clear();
    return response;
  }
  if (!response.headers.contains("content-length") && response.headers["connection"] == "close") {
    while (Fill(deadline)) {
    }
    response.whole = ended_;
    response.body = received_.substr(body);
    received_.clear();
    return response;
  }
  const size_t length = response.headers.contains("content-length")
                            ? std::stoul(response.headers["content-length"])
                            : 0;
  while (received_.size() < body + length && Fill(deadline)) {
  }
  response.whole = received_.size() >= body + length;
  response.body = received_.substr(body, length);
  received_.erase(0, body + length);
  return response;
}

void HttpClient::ShutDownSending() { shutdown(socket_.get(), SHUT_WR); }

void HttpClient::Reset() {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  socket_ = UniqueFd();
}

std::string PostText(const std::string& path, const std::string& body,
                     const std::vector<std::string>& headers) {
  std::string text = "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n";
  text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size());
  for (const std::string& header : headers) text += "\r\n" + header;
  return text + "\r\n\r\n" + body;
}

std::string GetText(const std::string& path, const std::vector<std::string>& headers) {
  std::string text = "GET " + path + " HTTP/1.1\r\nHost: localhost";
  for (const std::string& header : headers) text += "\r\n" + header;
  return text + "\r\n\r\n";
}

HttpResponse Post(uint16_t port, const std::string& path, const std::string& body,
                  const std::vector<std::string>& headers) {
  HttpClient client(port);
  client.Send(PostText(path, body, headers));
  return client.Read();
}

HttpResponse Get(uint16_t port, const std::string& path, const std::vector<std::string>& headers) {
  HttpClient client(port);
  client.Send(GetText(path, headers));
  return client.Read();
}

std::vector<std::string> EventsOf(const std::string& body) {
  std::vector<std::string> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find('\n', at), body.size());
    const std::string line = body.substr(at, end - at);
    if (line.starts_with("data: ")) events.push_back(line.substr(6));
    at = end + 1;
  }
  return events;
}

}  // namespace kimi_k3

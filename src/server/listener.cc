// A listening TCP socket.
#include "server/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.h"

namespace kimi_k3::server {
namespace {

constexpr int kBacklog = 128;
// A client whose network has gone is noticed after about this long.
constexpr int kSilentSeconds = 60;

void Set(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof(value));  // each is an improvement, no need
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses Resolve(const std::string& host, uint16_t port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const char* name = host == "*" ? nullptr : host.c_str();
  const int failure = getaddrinfo(name, std::to_string(port).c_str(), &hints, &found);
  if (failure != 0) {
    Fail(ErrorKind::kUsage, "--host: \"{}\" is no address of this machine: {}", host,
         gai_strerror(failure));
  }
  return {found, freeaddrinfo};
}

// An invalid descriptor where it does not work out; errno says why.
UniqueFd Listen(const addrinfo& address) {
  UniqueFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return {};
  Set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0) return {};
  if (listen(socket.get(), kBacklog) != 0) return {};
  return socket;
}

uint16_t PortOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  const in_port_t port = address.ss_family == AF_INET6
                             ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                             : reinterpret_cast<const sockaddr_in*>(&address)->sin_port;
  return ntohs(port);
}

}  // namespace

Listener::Listener(const std::string& host, uint16_t port) {
  const Addresses addresses = Resolve(host, port);
  int error = 0;
  for (const addrinfo* at = addresses.get(); at != nullptr && !socket_.valid(); at = at->ai_next) {
    socket_ = Listen(*at);
    error = errno;
  }
  if (!socket_.valid()) {
    Fail(ErrorKind::kIo, "cannot listen on {} port {}: {}", host, port, std::strerror(error));
  }
  port_ = PortOf(socket_.get());
}

std::optional<UniqueFd> Listener::Accept(std::chrono::milliseconds wait) {
  pollfd waiting = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (poll(&waiting, 1, static_cast<int>(wait.count())) <= 0) return std::nullopt;
  UniqueFd client(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client.valid()) {
    // Without a free descriptor the connection would be reported again at once.
    const bool passing = errno == EINTR || errno == EAGAIN || errno == ECONNABORTED;
    if (!passing) std::this_thread::sleep_for(wait);
    return std::nullopt;
  }
  Set(client.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  Set(client.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(client.get(), IPPROTO_TCP, TCP_KEEPIDLE, kSilentSeconds / 2);
  Set(client.get(), IPPROTO_TCP, TCP_KEEPINTVL, kSilentSeconds / 6);
  Set(client.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, kSilentSeconds * 1000);
  return client;
}

}  // namespace kimi_k3::server

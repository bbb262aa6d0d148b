// One client's connection: bytes in and out, each with a time limit.
#include "server/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace kimi_k3::server {
namespace {

// What a client may still send after its answer, for how long altogether and with which pauses,
// before it is cut off.
constexpr size_t kMostLeftover = size_t{256} << 20;
constexpr std::chrono::milliseconds kLeftoverTime{10000};
constexpr std::chrono::milliseconds kLeftoverPause{1000};

int MillisecondsUntil(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

// Whether one of the events has come before the deadline.
bool Await(int socket, short events, Clock::time_point deadline) {
  while (true) {
    pollfd waiting = {.fd = socket, .events = events, .revents = 0};
    const int ready = poll(&waiting, 1, MillisecondsUntil(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // the call that follows tells why
    if (Clock::now() >= deadline) return false;
  }
}

bool IsPassing(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Connection::Connection(UniqueFd socket, std::chrono::milliseconds write_time)
    : socket_(std::move(socket)), write_time_(write_time) {}

ByteSource::Outcome Connection::Read(std::string& bytes, size_t most, Clock::time_point deadline) {
  const size_t before = bytes.size();
  while (true) {
    if (!Await(socket_.get(), POLLIN, deadline)) return Outcome::kTimeout;
    bytes.resize(before + most);
    const ssize_t n = recv(socket_.get(), bytes.data() + before, most, 0);
    const int error = errno;
    bytes.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n > 0) return Outcome::kBytes;
    if (n == 0) return Outcome::kEnd;
    if (!IsPassing(error)) return Outcome::kFailed;
  }
}

bool Connection::Write(std::string_view bytes) {
  Clock::time_point deadline = Clock::now() + write_time_;
  while (!bytes.empty() && !broken_) {
    const ssize_t n = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
      deadline = Clock::now() + write_time_;
    } else if (!IsPassing(errno) || !Await(socket_.get(), POLLOUT, deadline)) {
      broken_ = true;
    }
  }
  return !broken_;
}

Connection::Peer Connection::Probe() {
  if (broken_) return Peer::kGone;
  pollfd state = {.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  if (poll(&state, 1, 0) <= 0) return Peer::kThere;
  if ((state.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return Peer::kGone;
  return (state.revents & POLLRDHUP) != 0 ? Peer::kSilent : Peer::kThere;
}

void Connection::Finish() {
  if (broken_) return;
  shutdown(socket_.get(), SHUT_WR);
  const Clock::time_point deadline = Clock::now() + kLeftoverTime;
  std::string leftover;
  for (size_t read = 0; read < kMostLeftover; read += leftover.size()) {
    leftover.clear();
    const Clock::time_point until = std::min(deadline, Clock::now() + kLeftoverPause);
    if (Read(leftover, size_t{1} << 16, until) != Outcome::kBytes) break;
  }
  broken_ = true;
}

void Connection::Close() { shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace kimi_k3::server

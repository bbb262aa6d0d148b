// One client's connection: bytes in and out, each with a time limit.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>

#include "base/file.h"
#include "server/request_reader.h"

namespace kimi_k3::server {

// Owns a connected socket. One thread reads and writes; Close may come from any.
class Connection : public ByteSource {
 public:
  // The socket must be non-blocking. A write fails where the client takes nothing for write_time.
  Connection(UniqueFd socket, std::chrono::milliseconds write_time);

  Outcome Read(std::string& bytes, size_t most, Clock::time_point deadline) override;

  // False where the client is gone or takes nothing; then every later write is refused.
  bool Write(std::string_view bytes);

  enum class Peer {
    kThere,
    kSilent,  // it has closed its sending side: it may be waiting for its answer, or be gone
    kGone
  };
  // Without waiting. After kSilent only a write finds out whether anybody is there.
  Peer Probe();

  // Ends the connection so that what was written arrives: the client may still be sending, and a
  // socket closed on unread bytes would take the answer back. Many clients send all they have
  // before they read. What comes is discarded, for a bounded time and size.
  void Finish();

  // Makes every wait end and all reading and writing fail.
  void Close();

  // Whether nobody is in the middle of a request; kept by the one who serves it.
  std::atomic<bool> idle{true};
  int socket() const { return socket_.get(); }

 private:
  UniqueFd socket_;
  const std::chrono::milliseconds write_time_;
  bool broken_ = false;
};

}  // namespace kimi_k3::server

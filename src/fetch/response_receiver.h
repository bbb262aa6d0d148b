// Takes the bytes of one response, believes nothing that it says unchecked, and makes blocks of
// them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "fetch/download_board.h"
#include "fetch/http_client.h"

namespace kimi_k3 {

// What a connection came back with.
struct FetchOutcome {
  bool whole = false;     // all that it asked for
  bool progress = false;  // a block at least
  bool yield = false;     // another connection does this
  bool fatal = false;     // asking again will not help
  ErrorKind kind = ErrorKind::kIo;
  std::string what;                           // that went wrong; empty where the body is good
  std::optional<std::chrono::seconds> pause;  // that the server asks for
};

// For one request; used by one thread. Begin and Take are HttpClient's `begin` and `body`.
class ResponseReceiver {
 public:
  // The assignment becomes that of the whole file where the server turns out to know no ranges.
  ResponseReceiver(DownloadBoard& board, DownloadAssignment& assignment);

  // What to ask for; nothing: the whole file.
  std::optional<HttpRequest::Range> range() const;

  // Whether the response is what was asked for: its size, its range, its hash or ETag.
  bool Begin(const HttpReply& reply);
  // Writes each block that is complete and not there yet. Throws Error(kIo) where the disk fails.
  bool Take(std::span<const std::byte> data);

  // Whether all has come, and how much has not.
  bool complete() const { return position_ == end_; }
  uint64_t missing() const { return end_ - position_; }
  // What has gone wrong so far, and whether a block came.
  const FetchOutcome& outcome() const { return outcome_; }

 private:
  uint64_t EndOf(size_t block) const;
  bool Refuse(std::string what);
  bool RefuseChanged(const std::string& what);
  bool TakeWhole();
  bool CheckTag(const HttpReply& reply);
  void Complete(size_t block);

  DownloadBoard& board_;
  DownloadAssignment& assignment_;
  DownloadTask& task_;
  uint64_t begin_;
  uint64_t end_;
  uint64_t position_;
  std::vector<std::byte> block_;
  FetchOutcome outcome_;
};

}  // namespace kimi_k3

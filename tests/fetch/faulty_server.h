// A small HTTP server that speaks as a repository's does, and misbehaves on request.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"

namespace kimi_k3 {

// What a request asked for, and what became of it.
struct ServedRequest {
  std::string path;
  std::string authorization;
  std::optional<std::pair<uint64_t, uint64_t>> range;
  std::string file;  // of the repository; empty for other paths
};

// What to do wrong with one answer.
struct Fault {
  enum class Kind {
    kNone,
    kDrop,         // close after `bytes` of the body
    kStall,        // send `bytes` of the body, then nothing
    kDelay,        // wait `bytes` milliseconds before the answer
    kShort,        // announce and send a body that is `bytes` shorter
    kLong,         // announce `bytes` more than there are, then close
    kStatus,       // answer with `status`
    kNoRanges,     // answer a range with the whole file
    kWrongRange,   // send other bytes than were asked for
    kChangedTag,   // another ETag
    kChangedSize,  // another total
    kCorrupt,      // flip a bit of byte `bytes` of the body
    kRedirect,     // to `location`
    kGarbage       // no HTTP at all
  };
  Kind kind = Kind::kNone;
  uint64_t bytes = 0;
  int status = 503;
  std::string retry_after = {};
  std::string location = {};
};

// Serves one repository, OWNER/NAME, at one commit. Requests are answered by a thread a connection.
class FaultyServer {
 public:
  explicit FaultyServer(std::string repository = "owner/model");
  ~FaultyServer();
  FaultyServer(const FaultyServer&) = delete;
  FaultyServer& operator=(const FaultyServer&) = delete;

  void AddFile(const std::string& name, std::string content, bool lfs = true);
  // Of made-up bytes that need no memory.
  void AddLargeFile(const std::string& name, uint64_t bytes, uint64_t seed);
  // Asked for each request of a file or of the list (file empty).
  void Misbehave(std::function<Fault(const ServedRequest&)> decide);
  // The text of the list of files, in place of the right one.
  void SetListing(std::string json);
  void SetPace(uint64_t bytes_per_second) { pace_ = bytes_per_second; }  // a connection; 0: none
  void SetCommit(const std::string& commit) { commit_ = commit; }

  // "http://127.0.0.1:PORT", or with another name for the same machine.
  std::string Endpoint(const std::string& host = "127.0.0.1") const;
  // Where a file lies without the repository's own address, for redirects.
  std::string PlainUrl(const std::string& file, const std::string& host) const;
  std::string Content(const std::string& file, uint64_t begin, uint64_t end) const;
  uint64_t Size(const std::string& file) const { return files_.at(file).bytes; }
  uint64_t TotalSize() const;
  uint64_t bytes_sent() const { return sent_.load(); }
  std::vector<ServedRequest> requests() const;

 private:
  struct File {
    std::string content;
    uint64_t bytes = 0;
    uint64_t seed = 0;
    bool lfs = true;
    std::string hash;
  };
  void Accept();
  void Serve(int fd);
  bool Answer(int fd, const std::string& head);
  bool SendFile(int fd, const ServedRequest& request, const File& file, const Fault& fault);
  bool Send(int fd, std::string_view text, bool body = false);
  std::string Listing() const;

  std::string repository_;
  std::string commit_ = "0123456789abcdef0123456789abcdef01234567";
  std::string listing_;
  std::map<std::string, File> files_;
  std::function<Fault(const ServedRequest&)> decide_;
  UniqueFd listener_;
  int port_ = 0;
  std::atomic<uint64_t> pace_{0};
  std::atomic<uint64_t> sent_{0};
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::vector<ServedRequest> requests_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace kimi_k3

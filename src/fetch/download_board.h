// The files of one download and where each of them stands, shared by the threads that work on them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/function_ref.h"
#include "fetch/download_task.h"

namespace kimi_k3 {

struct DownloadProgress {
  uint64_t bytes_done = 0;     // of what is wanted, earlier runs included
  uint64_t bytes_total = 0;    // that are wanted
  uint64_t bytes_fetched = 0;  // by this run
  size_t files_done = 0;
  size_t files_total = 0;
  std::string trouble;  // what a connection waits for; empty where all goes well
};

// One file of a download.
struct DownloadJob {
  DownloadTask task;
  bool finish = true;  // it gets its name once what is wanted is there
  bool followed = false;
  bool syncing = false;
  bool finishing = false;
};

// What a connection is to fetch.
struct DownloadAssignment {
  DownloadJob* job = nullptr;
  BlockRun run;
  bool whole = false;  // read from the beginning, since the server knows no ranges
};

// Add comes first, from one thread; all else may be called by any thread. Tasks of jobs are touched
// through the board alone, but for their constant parts, WriteBlock and ReadBlock.
class DownloadBoard {
 public:
  // *stop: ends all waiting. least_run: blocks that a request asks for at least, where there are so
  // many; most_run: at most.
  DownloadBoard(const std::atomic<bool>& stop, size_t connections, size_t most_run);

  void Add(DownloadTask task, bool finish);
  uint64_t BytesMissing() const;
  size_t files() const { return jobs_.size(); }

  // Runs the body in the calling thread and keeps what it throws, which ends the download.
  void Guard(FunctionRef<void()> body);
  // Rethrows the first failure that Guard has kept.
  void RethrowFailure() const;

  // ---- for connections

  // The next blocks to fetch; waits while there are none, and says nothing once there will be none.
  std::optional<DownloadAssignment> Next();
  // The blocks that did not come are free again.
  void GiveBack(const DownloadAssignment& assignment);
  // Waits, with what it waits for shown. all: no other connection begins a request until then.
  void Pause(std::chrono::milliseconds time, const std::string& trouble, bool all);

  // Whether the caller is to write the block; MarkPresent comes after that.
  bool BeginWrite(DownloadTask& task, size_t block);
  void MarkPresent(DownloadTask& task, size_t block, uint64_t sum);
  // Whether the caller is the first to find out that the server knows no ranges; it is then to read
  // the file from the beginning.
  bool TakeWhole(DownloadTask& task);
  // Whether the ETag is that of the answers before.
  bool SameTag(DownloadTask& task, const std::string& tag);
  // Where no hash would tell a mixture of old and new, nothing of the file counts as there.
  void ForgetUnhashed(DownloadTask& task);

  // ---- for followers, which read the files as they grow

  // The next file to follow; nothing where all are taken or the download is over.
  DownloadJob* NextToFollow();
  // Waits until the block is there; false where the download is over.
  bool Await(DownloadTask& task, size_t block);
  // Its sum, where an earlier run has written it, so that it must be checked; else nothing.
  std::optional<uint64_t> SumToCheck(DownloadTask& task, size_t block);
  void MarkMissing(DownloadTask& task, size_t block);
  // The content is wrong: all of it is fetched once more. How often that has been.
  unsigned StartAgain(DownloadTask& task);
  // Gives the file its name (unless it stays partial), runs `note` alone, and counts it as done.
  void Finish(DownloadJob& job, const std::string& sha256, FunctionRef<void()> note);

  // ---- for the thread that watches

  // Waits for news or some tenths of a second; nothing once the workers have all left Guard.
  std::optional<DownloadProgress> Watch();
  void WorkerStarts();
  // Has the system write out what is not yet on the disk.
  void SyncOpenFiles();

  bool Stopped() const { return stop_.load(); }
  DownloadProgress progress() const;

 private:
  // With the mutex held.
  bool Over() const;
  void WaitUntil(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point end);

  const std::atomic<bool>& stop_;
  size_t connections_;
  size_t most_run_;
  std::deque<DownloadJob> jobs_;
  mutable std::mutex mutex_;  // guards all that follows, and what changes of the jobs
  std::condition_variable changed_;
  DownloadProgress progress_;
  size_t done_ = 0;
  size_t running_ = 0;
  std::exception_ptr failure_;
  std::chrono::steady_clock::time_point hold_until_;  // no request begins before
};

}  // namespace kimi_k3

// The files of one download and where each of them stands, shared by the threads that work on them.
#include "fetch/download_board.h"

#include <algorithm>

namespace kimi_k3 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{200};
constexpr size_t kLeastRun = 8;  // blocks of a request, where there are so many

}  // namespace

DownloadBoard::DownloadBoard(const std::atomic<bool>& stop, size_t connections, size_t most_run)
    : stop_(stop), connections_(connections), most_run_(most_run) {}

void DownloadBoard::Add(DownloadTask task, bool finish) {
  progress_.bytes_total += task.BytesWanted();
  progress_.bytes_done += task.BytesWanted() - task.BytesMissing();
  jobs_.push_back({std::move(task), finish});
  progress_.files_total = jobs_.size();
}

uint64_t DownloadBoard::BytesMissing() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const DownloadJob& job : jobs_) bytes += job.task.BytesMissing();
  return bytes;
}

DownloadProgress DownloadBoard::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

bool DownloadBoard::Over() const {
  return failure_ != nullptr || stop_.load() || done_ == jobs_.size();
}

void DownloadBoard::WaitUntil(std::unique_lock<std::mutex>& lock, Clock::time_point end) {
  changed_.wait_for(lock, std::min<Clock::duration>(end - Clock::now(), kTick));
}

// ---- the threads

void DownloadBoard::WorkerStarts() {
  const std::lock_guard lock(mutex_);
  ++running_;
}

void DownloadBoard::Guard(FunctionRef<void()> body) {
  std::exception_ptr thrown;
  try {
    body();
  } catch (...) {
    thrown = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (failure_ == nullptr) failure_ = thrown;
  --running_;
  changed_.notify_all();
}

void DownloadBoard::RethrowFailure() const {
  const std::lock_guard lock(mutex_);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

std::optional<DownloadProgress> DownloadBoard::Watch() {
  std::unique_lock lock(mutex_);
  if (running_ == 0) return std::nullopt;
  changed_.wait_for(lock, kTick);
  if (stop_.load()) changed_.notify_all();
  return progress_;
}

void DownloadBoard::SyncOpenFiles() {
  for (DownloadJob& job : jobs_) {
    {
      const std::lock_guard lock(mutex_);
      if (job.finishing || job.task.done || !job.task.open()) continue;
      job.syncing = true;
    }
    std::exception_ptr thrown;
    try {
      job.task.Sync();
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    job.syncing = false;
    if (failure_ == nullptr) failure_ = thrown;
    changed_.notify_all();
  }
}

// ---- connections

std::optional<DownloadAssignment> DownloadBoard::Next() {
  std::unique_lock lock(mutex_);
  while (!Over()) {
    if (Clock::now() < hold_until_) {
      WaitUntil(lock, hold_until_);
      continue;
    }
    for (DownloadJob& job : jobs_) {
      DownloadTask& task = job.task;
      if (task.done || task.HasAllWanted() || task.read_whole_now) continue;
      // Small enough that all connections have something to do until the end.
      const size_t share = task.missing_blocks() / (2 * connections_);
      const size_t most = std::clamp(share, std::min(kLeastRun, most_run_), most_run_);
      const auto run = task.Take(task.no_ranges ? task.sums().blocks() : most);
      if (!run) continue;
      task.Open();
      task.read_whole_now = task.no_ranges;
      return DownloadAssignment{&job, *run, task.no_ranges};
    }
    changed_.wait_for(lock, kTick);
  }
  return std::nullopt;
}

void DownloadBoard::GiveBack(const DownloadAssignment& assignment) {
  const std::lock_guard lock(mutex_);
  assignment.job->task.GiveBack(assignment.run);
  if (assignment.whole) assignment.job->task.read_whole_now = false;
  changed_.notify_all();
}

void DownloadBoard::Pause(std::chrono::milliseconds time, const std::string& trouble, bool all) {
  const Clock::time_point end = Clock::now() + time;
  std::unique_lock lock(mutex_);
  progress_.trouble = trouble;
  if (all) hold_until_ = std::max(hold_until_, end);
  while (!Over() && Clock::now() < end) WaitUntil(lock, end);
  if (progress_.trouble == trouble) progress_.trouble.clear();
}

bool DownloadBoard::BeginWrite(DownloadTask& task, size_t block) {
  const std::lock_guard lock(mutex_);
  return task.BeginWrite(block);
}

void DownloadBoard::MarkPresent(DownloadTask& task, size_t block, uint64_t sum) {
  const std::lock_guard lock(mutex_);
  task.MarkPresent(block, sum);
  const uint64_t bytes = task.sums().BytesOf(block);
  progress_.bytes_done += bytes;
  progress_.bytes_fetched += bytes;
  progress_.trouble.clear();
  changed_.notify_all();
}

bool DownloadBoard::TakeWhole(DownloadTask& task) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(task.no_ranges, true)) return false;
  task.read_whole_now = true;
  return true;
}

bool DownloadBoard::SameTag(DownloadTask& task, const std::string& tag) {
  const std::lock_guard lock(mutex_);
  if (task.etag.empty()) task.etag = tag;
  return tag.empty() || task.etag == tag;
}

void DownloadBoard::ForgetUnhashed(DownloadTask& task) {
  const std::lock_guard lock(mutex_);
  if (!task.remote().hash) task.MarkAllMissing();
}

// ---- followers

DownloadJob* DownloadBoard::NextToFollow() {
  const std::lock_guard lock(mutex_);
  if (Over()) return nullptr;
  const auto job = std::ranges::find(jobs_, false, &DownloadJob::followed);
  if (job == jobs_.end()) return nullptr;
  job->followed = true;
  job->task.Open();
  return &*job;
}

bool DownloadBoard::Await(DownloadTask& task, size_t block) {
  std::unique_lock lock(mutex_);
  while (!task.Has(block)) {
    if (failure_ != nullptr || stop_.load()) return false;
    changed_.wait_for(lock, kTick);
  }
  return failure_ == nullptr && !stop_.load();
}

std::optional<uint64_t> DownloadBoard::SumToCheck(DownloadTask& task, size_t block) {
  const std::lock_guard lock(mutex_);
  if (task.Fresh(block)) return std::nullopt;
  return task.sums().sum(block);
}

void DownloadBoard::MarkMissing(DownloadTask& task, size_t block) {
  const std::lock_guard lock(mutex_);
  task.MarkMissing(block);
  progress_.bytes_done -= task.sums().BytesOf(block);
  changed_.notify_all();
}

unsigned DownloadBoard::StartAgain(DownloadTask& task) {
  const std::lock_guard lock(mutex_);
  progress_.bytes_done -= task.remote().bytes;
  task.MarkAllMissing();
  changed_.notify_all();
  return ++task.restarts;
}

void DownloadBoard::Finish(DownloadJob& job, const std::string& sha256, FunctionRef<void()> note) {
  {
    std::unique_lock lock(mutex_);
    while (job.syncing) changed_.wait_for(lock, kTick);
    job.finishing = true;  // nobody else touches its files from here on
  }
  if (job.finish) job.task.Finish(sha256);
  const std::lock_guard lock(mutex_);
  if (job.finish) note();
  job.task.done = true;
  ++done_;
  ++progress_.files_done;
  changed_.notify_all();
}

}  // namespace kimi_k3

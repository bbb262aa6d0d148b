// Fetches files over several connections, resumes, retries, and believes nothing unchecked.
#include "fetch/downloader.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "fetch/download_task.h"
#include "fetch/file_check.h"
#include "fetch/safe_name.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLongestPause{60000};
constexpr std::chrono::seconds kLongestAskedPause{600};
constexpr std::chrono::seconds kSyncInterval{15};
constexpr std::chrono::milliseconds kTick{200};
constexpr uint64_t kSpareBytes = uint64_t{64} << 20;
constexpr size_t kHashers = 2;
constexpr size_t kLeastRun = 8;

std::string Unquoted(std::string tag) {
  if (tag.starts_with("W/")) tag.erase(0, 2);
  std::erase(tag, '"');
  return tag;
}

// What a connection came back with.
struct Outcome {
  bool whole = false;     // all that it asked for
  bool progress = false;  // a block at least
  bool yield = false;     // another connection does this
  bool fatal = false;
  ErrorKind kind = ErrorKind::kIo;
  std::string what;
  std::optional<std::chrono::seconds> pause;
};

}  // namespace

struct Downloader::State {
  State(DownloadOptions given, RepositoryAddress where, std::string what, Manifest& known)
      : options(std::move(given)),
        address(std::move(where)),
        commit(std::move(what)),
        manifest(known) {}

  DownloadOptions options;
  RepositoryAddress address;
  std::string commit;
  Manifest& manifest;
  UniqueFd lock;
  const std::atomic<bool> never{false};
  uint64_t fetched_before = 0;

  const std::atomic<bool>& stop() const {
    return options.http.stop != nullptr ? *options.http.stop : never;
  }
};

// One call of Fetch.
class Downloader::Work {
 public:
  Work(State& state, std::vector<WantedFile> files) : state_(state), options_(state.options) {
    for (WantedFile& file : files) Add(std::move(file));
    progress_.files_total = tasks_.size();
    for (const Job& job : tasks_) {
      progress_.bytes_total += job.task.BytesWanted();
      progress_.bytes_done += job.task.BytesWanted() - job.task.BytesMissing();
    }
  }

  uint64_t BytesMissing() const {
    uint64_t bytes = 0;
    for (const Job& job : tasks_) bytes += job.task.BytesMissing();
    return bytes;
  }

  void Run() {
    CheckSpace();
    std::vector<std::thread> threads;
    const auto start = [&](auto body) {
      ++running_;
      threads.emplace_back([this, body] { Guarded(body); });
    };
    {
      const std::lock_guard lock(mutex_);
      for (size_t i = 0; i < kHashers; ++i) start([this] { Hash(); });
      for (size_t i = 0; i < options_.connections; ++i) start([this] { Connect(); });
    }
    Watch();
    for (std::thread& thread : threads) thread.join();
    state_.fetched_before += progress_.bytes_fetched;
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    if (state_.stop().load()) Fail(ErrorKind::kInterrupted, "interrupted");
  }

 private:
  struct Job {
    DownloadTask task;
    bool finish = true;
    bool hashing = false;
  };
  // A file that is there under its own name: as it should be, or to be taken up, or to be replaced.
  void Add(WantedFile file) {
    const auto make = [&] {
      return DownloadTask(options_.folder, file.remote, file.blocks, state_.commit,
                          options_.block_bytes);
    };
    const DownloadTask look = make();
    std::error_code error;
    const bool there = fs::is_regular_file(fs::symlink_status(look.path(), error)) &&
                       fs::file_size(look.path(), error) == file.remote.bytes;
    if (there && IsKnownGood(look)) return;
    if (there && look.whole() && Adopt(look)) return;
    tasks_.push_back({make(), file.finish, false});
  }

  bool IsKnownGood(const DownloadTask& task) {
    const ManifestFile* known = state_.manifest.Find(task.remote().name);
    if (known == nullptr || known->bytes != task.remote().bytes) return false;
    if (known->sha256.empty()) {
      // A part of it is there; whether enough of it, the sums say.
      const auto sums = BlockSums::Load(SumsPath(options_.folder, task.remote().name));
      if (!sums || sums->source() != task.sums().source()) return false;
      for (size_t block = 0; block < sums->blocks(); ++block) {
        if (task.Wanted(block) && !sums->Has(block)) return TakeUp(task);
      }
      return true;
    }
    const auto& hash = task.remote().hash;
    if (hash && hash->kind == DigestKind::kSha256) return hash->hex == known->sha256;
    return state_.manifest.commit == state_.commit;
  }

  // A file of which more is wanted goes back to being partial.
  static bool TakeUp(const DownloadTask& task) {
    std::error_code error;
    fs::rename(task.path(), task.partial(), error);
    if (error) {
      Fail(ErrorKind::kIo, "{}: cannot rename to {}: {}", task.path().string(),
           task.partial().string(), error.message());
    }
    return false;
  }

  // A file from elsewhere (or of an older commit) that has the right content is kept.
  bool Adopt(const DownloadTask& task) {
    const auto& hash = task.remote().hash;
    const ManifestFile* known = state_.manifest.Find(task.remote().name);
    if (!hash || (known != nullptr && known->sha256.empty())) return false;
    FileCheckRequest request;
    request.path = task.path();
    request.digests = {hash->kind, DigestKind::kSha256};
    request.sums = task.sums().blocks() > 1;
    std::atomic<uint64_t> read{0};
    const FileCheckResult result = CheckFile(request, read, state_.stop());
    if (result.digests[0] != hash->hex) return false;
    if (result.sums) {
      BlockSums sums(result.bytes, result.digests[1], result.sums->block_bytes());
      for (size_t block = 0; block < sums.blocks(); ++block)
        sums.Set(block, result.sums->sum(block));
      sums.Save(SumsPath(options_.folder, task.remote().name));
    }
    state_.manifest.Set({task.remote().name, result.bytes, result.digests[1]});
    state_.manifest.Save(options_.folder);
    return true;
  }

  void CheckSpace() const {
    std::error_code error;
    const fs::space_info space = fs::space(options_.folder, error);
    const uint64_t needed = BytesMissing();
    if (error || needed == 0 || space.available >= needed + kSpareBytes) return;
    Fail(ErrorKind::kIo, "{}: {} are still to come, but the disk has only {} left",
         options_.folder.string(), FormatByteSize(needed), FormatByteSize(space.available));
  }

  bool Over() const {
    return failure_ != nullptr || state_.stop().load() || done_ == tasks_.size();
  }

  template <typename Body>
  void Guarded(const Body& body) {
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (failure_ == nullptr) failure_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_all();
  }

  void Watch() {
    Clock::time_point synced = Clock::now();
    std::unique_lock lock(mutex_);
    while (running_ > 0) {
      changed_.wait_for(lock, kTick);
      const DownloadProgress now = progress_;
      lock.unlock();
      if (options_.progress) options_.progress(now);
      if (Clock::now() - synced > kSyncInterval) {
        synced = Clock::now();
        SyncOpenTasks();
      }
      lock.lock();
      if (state_.stop().load()) changed_.notify_all();
    }
  }

  void SyncOpenTasks() {
    for (Job& job : tasks_) {
      const std::lock_guard lock(mutex_);
      if (!job.task.done && job.task.open()) job.task.Sync();
    }
  }

  // ---- connections

  struct Assignment {
    Job* job = nullptr;
    BlockRun run;
    bool whole = false;  // read from the beginning, since the server knows no ranges
  };

  // Waits for something to fetch; nothing once there will be none.
  std::optional<Assignment> Next() {
    std::unique_lock lock(mutex_);
    while (!Over()) {
      if (Clock::now() < hold_until_) {
        changed_.wait_for(lock, std::min<Clock::duration>(hold_until_ - Clock::now(), kTick));
        continue;
      }
      for (Job& job : tasks_) {
        DownloadTask& task = job.task;
        if (task.done || task.HasAllWanted() || task.read_whole_now) continue;
        const size_t share = task.missing_blocks() / (2 * options_.connections);
        const size_t most = std::clamp(share, std::min(kLeastRun, options_.most_blocks_a_request),
                                       options_.most_blocks_a_request);
        const auto run = task.Take(task.no_ranges ? task.sums().blocks() : most);
        if (!run) continue;
        task.Open();
        task.read_whole_now = task.no_ranges;
        return Assignment{&job, *run, task.no_ranges};
      }
      changed_.wait_for(lock, kTick);
    }
    return std::nullopt;
  }

  void Connect() {
    HttpClient client(options_.http);
    unsigned failures = 0;
    std::mt19937 random{std::random_device()()};
    while (auto next = Next()) {
      const Outcome outcome = FetchRun(client, *next);
      {
        const std::lock_guard lock(mutex_);
        next->job->task.GiveBack(next->run);
        if (next->whole) next->job->task.read_whole_now = false;
        changed_.notify_all();
      }
      if (outcome.whole || outcome.yield || state_.stop().load()) {
        failures = outcome.whole ? 0 : failures;
        continue;
      }
      if (outcome.fatal) Fail(outcome.kind, "{}: {}", next->job->task.remote().name, outcome.what);
      failures = outcome.progress ? 1 : failures + 1;
      if (failures > options_.retries) {
        Fail(outcome.kind,
             "{}: {}; given up after {} tries. What is there is kept: the same command goes on",
             next->job->task.remote().name, outcome.what, failures);
      }
      Pause(failures, outcome, random);
    }
  }

  void Pause(unsigned failures, const Outcome& outcome, std::mt19937& random) {
    auto pause = options_.first_pause * (uint64_t{1} << std::min(failures - 1, 10U));
    pause = std::min<std::chrono::milliseconds>(pause, kLongestPause);
    pause += pause * std::uniform_int_distribution<int>(0, 25)(random) / 100;
    if (outcome.pause) {
      pause =
          std::max<std::chrono::milliseconds>(pause, std::min(*outcome.pause, kLongestAskedPause));
    }
    std::unique_lock lock(mutex_);
    const std::string trouble = fmt::format("{}; trying again in {:.0f} s", outcome.what,
                                            std::chrono::duration<double>(pause).count());
    progress_.trouble = trouble;
    // A server that asks for time asks it of all connections.
    if (outcome.pause)
      hold_until_ =
          std::max<Clock::time_point>(hold_until_, Clock::now() + std::chrono::milliseconds(pause));
    const Clock::time_point end = Clock::now() + pause;
    while (!Over() && Clock::now() < end) {
      changed_.wait_for(lock, std::min<Clock::duration>(end - Clock::now(), kTick));
    }
    if (progress_.trouble == trouble) progress_.trouble.clear();
  }

  // Takes the bytes of one response and makes blocks of them.
  class Receiver {
   public:
    Receiver(Work& work, Assignment& assignment)
        : work_(work),
          assignment_(assignment),
          task_(assignment.job->task),
          begin_(assignment.whole ? 0 : task_.sums().OffsetOf(assignment.run.first)),
          end_(assignment.whole ? task_.remote().bytes : EndOf(assignment.run.end - 1)),
          position_(begin_) {}

    // Nothing: the whole file.
    std::optional<HttpRequest::Range> range() const {
      if (begin_ == 0 && end_ == task_.remote().bytes) return std::nullopt;
      return HttpRequest::Range{begin_, end_ - 1};
    }
    bool complete() const { return position_ == end_; }
    uint64_t missing() const { return end_ - position_; }
    Outcome outcome;

    // Whether the response is what was asked for.
    bool Begin(const HttpReply& reply) {
      const uint64_t size = task_.remote().bytes;
      if (reply.status == 200 && range() && !TakeWhole()) return false;
      uint64_t total = reply.content_length.value_or(size);
      uint64_t length = size;
      if (reply.status == 206) {
        if (!reply.content_range) return Refuse("the server does not say which bytes it sends");
        total = reply.content_range->total;
        length = reply.content_range->last - reply.content_range->first + 1;
      }
      if (total != size) {
        return Changed(fmt::format("it is {} bytes long now, not {}", total, size));
      }
      if (reply.status == 206 &&
          (reply.content_range->first != begin_ || reply.content_range->last >= end_)) {
        return Refuse("the server sends other bytes than it was asked for");
      }
      if (reply.content_length && *reply.content_length != length) {
        return Refuse("the server contradicts itself about how much it sends");
      }
      return CheckTag(reply);
    }

    bool Take(std::span<const std::byte> data) {
      while (!data.empty()) {
        if (position_ >= end_) return Refuse("the server sends more than it was asked for");
        const size_t block = position_ / task_.sums().block_bytes();
        const size_t n = std::min<uint64_t>(data.size(), EndOf(block) - position_);
        block_.insert(block_.end(), data.begin(), data.begin() + n);
        position_ += n;
        data = data.subspan(n);
        if (position_ == EndOf(block)) Complete(block);
      }
      return !work_.state_.stop().load();
    }

   private:
    uint64_t EndOf(size_t block) const {
      return task_.sums().OffsetOf(block) + task_.sums().BytesOf(block);
    }

    bool Refuse(std::string what) {
      outcome.what = std::move(what);
      return false;
    }

    // The file that the server has is no longer the one that was begun. Where no hash would tell,
    // what is there may not be mixed with what comes later.
    bool Changed(const std::string& what) {
      outcome.fatal = true;
      outcome.kind = ErrorKind::kRun;
      outcome.what = "has changed on the server: " + what +
                     "; ask again (kimi_k3 pull) for what the repository holds now";
      const std::lock_guard lock(work_.mutex_);
      if (!task_.remote().hash) task_.MarkAllMissing();
      return false;
    }

    // The server knows no ranges: the first connection that finds out reads from the beginning.
    bool TakeWhole() {
      const std::lock_guard lock(work_.mutex_);
      if (std::exchange(task_.no_ranges, true)) {
        outcome.yield = true;
        return false;
      }
      task_.read_whole_now = true;
      assignment_.whole = true;
      begin_ = 0;
      end_ = task_.remote().bytes;
      position_ = 0;
      return true;
    }

    bool CheckTag(const HttpReply& reply) {
      std::string tag = Unquoted(reply.Header("x-linked-etag"));
      if (tag.empty()) tag = Unquoted(reply.Header("etag"));
      const auto& hash = task_.remote().hash;
      if (hash && IsHexDigest(tag, hash->kind) && tag != hash->hex) {
        return Changed("its hash is another one");
      }
      {
        const std::lock_guard lock(work_.mutex_);
        if (task_.etag.empty()) task_.etag = tag;
        if (tag.empty() || task_.etag == tag) return true;
      }
      return Changed("its ETag is another one");
    }

    void Complete(size_t block) {
      bool needed = false;
      {
        const std::lock_guard lock(work_.mutex_);
        needed = task_.BeginWrite(block);
      }
      const size_t bytes = block_.size();
      const uint64_t sum = needed ? SumOfBlock(block_) : 0;
      if (needed) task_.WriteBlock(block, block_);
      block_.clear();
      if (!needed) return;
      outcome.progress = true;
      const std::lock_guard lock(work_.mutex_);
      task_.MarkPresent(block, sum);
      work_.progress_.bytes_done += bytes;
      work_.progress_.bytes_fetched += bytes;
      work_.progress_.trouble.clear();
      work_.changed_.notify_all();
    }

    Work& work_;
    Assignment& assignment_;
    DownloadTask& task_;
    uint64_t begin_;
    uint64_t end_;
    uint64_t position_;
    std::vector<std::byte> block_;
  };

  Outcome FetchRun(HttpClient& client, Assignment& assignment) {
    DownloadTask& task = assignment.job->task;
    Receiver receiver(*this, assignment);
    const HttpRequest request{FileUrl(state_.address, state_.commit, task.remote().name),
                              state_.address.token, receiver.range()};
    const HttpReply reply = client.Get(
        request, [&](const HttpReply& r) { return receiver.Begin(r); },
        [&](std::span<const std::byte> data) { return receiver.Take(data); });
    Outcome outcome = std::move(receiver.outcome);
    if (outcome.fatal || outcome.yield || !outcome.what.empty()) return outcome;
    const bool body = reply.status == 200 || reply.status == 206;
    if (body && receiver.complete()) {
      outcome.whole = true;
      return outcome;
    }
    if (!body) {
      outcome.what = DescribeStatus(reply, state_.address);
      outcome.fatal = !MayWorkLater(reply);
      if (outcome.fatal) outcome.kind = ErrorKind::kRun;
      outcome.pause = RetryAfter(reply.Header("retry-after"));
    } else {
      outcome.what = reply.error.empty()
                         ? fmt::format("the answer ended {} bytes too early", receiver.missing())
                         : reply.error;
    }
    return outcome;
  }

  // ---- hashing, behind the connections

  void Hash() {
    for (;;) {
      Job* job = nullptr;
      {
        std::unique_lock lock(mutex_);
        for (Job& candidate : tasks_) {
          if (!candidate.hashing) {
            job = &candidate;
            break;
          }
        }
        if (job == nullptr || Over()) return;
        job->hashing = true;
        job->task.Open();
      }
      while (!Follow(*job)) {
      }
      const std::lock_guard lock(mutex_);
      if (failure_ != nullptr || state_.stop().load()) return;
      ++done_;
      ++progress_.files_done;
      changed_.notify_all();
    }
  }

  // Waits until the block is there; false where everything is over.
  bool Await(DownloadTask& task, size_t block) {
    std::unique_lock lock(mutex_);
    while (!task.Has(block)) {
      if (failure_ != nullptr || state_.stop().load()) return false;
      changed_.wait_for(lock, kTick);
    }
    return failure_ == nullptr && !state_.stop().load();
  }

  // Reads the file as it grows, to its end, checks and finishes it. False: once more.
  bool Follow(Job& job) {
    DownloadTask& task = job.task;
    Digest sha256(DigestKind::kSha256);
    std::optional<Digest> other;
    const auto& hash = task.remote().hash;
    if (hash && hash->kind != DigestKind::kSha256) {
      other = BeginDigest(hash->kind, task.remote().bytes);
    }
    std::vector<std::byte> data;
    for (size_t block = 0; block < task.sums().blocks(); ++block) {
      if (!task.Wanted(block)) continue;
      if (!Await(task, block)) return true;
      data.resize(task.sums().BytesOf(block));
      task.ReadBlock(block, data);
      bool fresh = false;
      uint64_t sum = 0;
      {
        const std::lock_guard lock(mutex_);
        fresh = task.Fresh(block);
        sum = task.sums().sum(block);
      }
      if (!fresh && SumOfBlock(data) != sum) {
        const std::lock_guard lock(mutex_);
        task.MarkMissing(block);
        progress_.bytes_done -= data.size();
        changed_.notify_all();
        --block;  // wait for it again
        continue;
      }
      if (!task.whole()) continue;
      sha256.Update(data);
      if (other) other->Update(data);
    }
    const std::string hex = task.whole() ? sha256.Finish() : std::string();
    if (task.whole() && hash && (other ? other->Finish() : hex) != hash->hex) {
      StartAgain(task, hex);
      return false;
    }
    const std::lock_guard lock(mutex_);
    if (job.finish) {
      task.Finish(hex);
      state_.manifest.Set({task.remote().name, task.remote().bytes, hex});
      state_.manifest.Save(options_.folder);
    }
    task.done = true;
    return true;
  }

  void StartAgain(DownloadTask& task, const std::string& hex) {
    const std::lock_guard lock(mutex_);
    if (++task.restarts > 1) {
      Fail(ErrorKind::kRun,
           "{}: its SHA-256 is {}, fetched twice, but the repository promises {}: the server gives "
           "something else than it should",
           task.remote().name, hex, task.remote().hash->hex);
    }
    if (options_.note) {
      options_.note(
          fmt::format("{}: does not have the hash that the repository promises: fetched "
                      "once more",
                      task.remote().name));
    }
    progress_.bytes_done -= task.remote().bytes;
    task.MarkAllMissing();
    changed_.notify_all();
  }

  State& state_;
  const DownloadOptions& options_;
  std::deque<Job> tasks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  DownloadProgress progress_;
  size_t done_ = 0;
  size_t running_ = 0;
  std::exception_ptr failure_;
  Clock::time_point hold_until_;  // no request before
};

Downloader::Downloader(DownloadOptions options, RepositoryAddress address, std::string commit,
                       Manifest& manifest)
    : state_(std::make_unique<State>(std::move(options), std::move(address), std::move(commit),
                                     manifest)) {
  const fs::path own = PlaceInFolder(state_->options.folder, kOwnFolder);
  std::error_code error;
  fs::create_directories(own, error);
  if (error) Fail(ErrorKind::kIo, "{}: cannot make the folder: {}", own.string(), error.message());
  const fs::path path = own / "lock";
  state_->lock = UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!state_->lock.valid()) {
    Fail(ErrorKind::kIo, "{}: cannot write: {}", path.string(),
         std::generic_category().message(errno));
  }
  if (flock(state_->lock.get(), LOCK_EX | LOCK_NB) != 0) {
    Fail(ErrorKind::kIo, "{}: another kimi_k3 downloads into this folder",
         state_->options.folder.string());
  }
}

Downloader::~Downloader() = default;

std::string Downloader::GetText(const std::string& url, uint64_t most_bytes) {
  HttpClient client(state_->options.http);
  const auto& stop = state_->stop();
  for (unsigned failures = 1;; ++failures) {
    std::string text;
    bool too_long = false;
    const HttpReply reply = client.Get(
        {url, state_->address.token, {}}, [](const HttpReply&) { return true; },
        [&](std::span<const std::byte> data) {
          too_long = text.size() + data.size() > most_bytes;
          if (!too_long) text.append(reinterpret_cast<const char*>(data.data()), data.size());
          return !too_long;
        });
    if (stop.load()) Fail(ErrorKind::kInterrupted, "interrupted");
    if (too_long) Fail(ErrorKind::kRun, "{}: the answer is too long", url);
    const std::string what = DescribeStatus(reply, state_->address);
    if (reply.status == 200 && reply.error.empty()) return text;
    if (!MayWorkLater(reply)) Fail(ErrorKind::kRun, "{}", what);
    if (failures > state_->options.retries) {
      Fail(ErrorKind::kIo, "{}; given up after {} tries", what, failures);
    }
    auto pause = std::min<std::chrono::milliseconds>(
        state_->options.first_pause * (uint64_t{1} << std::min(failures - 1, 10U)), kLongestPause);
    if (const auto asked = RetryAfter(reply.Header("retry-after"))) {
      pause = std::max<std::chrono::milliseconds>(pause, std::min(*asked, kLongestAskedPause));
    }
    if (state_->options.note && failures == 1) {
      state_->options.note(fmt::format("{}; trying again", what));
    }
    const Clock::time_point end = Clock::now() + pause;
    while (Clock::now() < end && !stop.load()) std::this_thread::sleep_for(kTick / 4);
  }
}

void Downloader::Fetch(std::vector<WantedFile> files) { Work(*state_, std::move(files)).Run(); }

uint64_t Downloader::bytes_fetched() const { return state_->fetched_before; }

uint64_t Downloader::BytesMissing(const std::vector<WantedFile>& files) {
  return Work(*state_, files).BytesMissing();
}

}  // namespace kimi_k3

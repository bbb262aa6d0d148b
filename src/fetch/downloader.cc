// Fetches files over several connections, resumes, retries, and believes nothing unchecked.
#include "fetch/downloader.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "fetch/file_follower.h"
#include "fetch/folder_lock.h"
#include "fetch/present_file.h"
#include "fetch/response_receiver.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLongestPause{60000};
constexpr std::chrono::seconds kLongestAskedPause{600};
constexpr std::chrono::seconds kSyncInterval{15};
constexpr std::chrono::milliseconds kPauseStep{50};
constexpr uint64_t kSpareBytes = uint64_t{64} << 20;
constexpr uint64_t kLargeFile = 1000000000;  // that takes seconds to read
constexpr size_t kFollowers = 2;

// How long to wait after so many failures in a row; a server may ask for longer.
std::chrono::milliseconds PauseAfter(unsigned failures, std::chrono::milliseconds first,
                                     std::optional<std::chrono::seconds> asked) {
  auto pause = std::min<std::chrono::milliseconds>(
      first * (uint64_t{1} << std::min(failures - 1, 10U)), kLongestPause);
  if (asked) {
    pause = std::max<std::chrono::milliseconds>(pause, std::min(*asked, kLongestAskedPause));
  }
  return pause;
}

}  // namespace

struct Downloader::State {
  State(DownloadOptions given, RepositoryAddress where, std::string what, Manifest& known)
      : options(std::move(given)),
        address(std::move(where)),
        commit(std::move(what)),
        manifest(known),
        lock(options.folder) {}

  DownloadOptions options;
  RepositoryAddress address;
  std::string commit;
  Manifest& manifest;
  FolderLock lock;
  const std::atomic<bool> never{false};
  uint64_t fetched_before = 0;

  const std::atomic<bool>& stop() const {
    return options.http.stop != nullptr ? *options.http.stop : never;
  }
};

// One call of Fetch.
class Downloader::Work {
 public:
  Work(State& state, std::vector<WantedFile> files)
      : state_(state),
        options_(state.options),
        board_(state.stop(), options_.connections, options_.most_blocks_a_request) {
    for (WantedFile& file : files) {
      const auto make = [&] {
        return DownloadTask(options_.folder, file.remote, file.blocks, state_.commit,
                            file.block_bytes != 0 ? file.block_bytes : options_.block_bytes);
      };
      const auto reading = [&] {
        if (file.remote.bytes < kLargeFile || !options_.note) return;
        options_.note(fmt::format("{}: is there; comparing it with its hash", file.remote.name));
      };
      if (IsPresent(options_.folder, make(), state_.commit, state_.manifest, state_.stop(),
                    reading)) {
        continue;
      }
      board_.Add(make(), file.finish);
    }
  }

  uint64_t BytesMissing() const { return board_.BytesMissing(); }

  void Run() {
    CheckSpace();
    std::vector<std::thread> threads;
    const auto start = [&](void (Work::*body)()) {
      board_.WorkerStarts();
      threads.emplace_back([this, body] { board_.Guard([this, body] { (this->*body)(); }); });
    };
    for (size_t i = 0; i < kFollowers; ++i) start(&Work::Follow);
    for (size_t i = 0; i < options_.connections; ++i) start(&Work::Connect);
    Watch();
    for (std::thread& thread : threads) thread.join();
    state_.fetched_before += board_.progress().bytes_fetched;
    board_.RethrowFailure();
    if (board_.Stopped()) Fail(ErrorKind::kInterrupted, "interrupted");
  }

 private:
  void CheckSpace() const {
    std::error_code error;
    const fs::space_info space = fs::space(options_.folder, error);
    const uint64_t needed = BytesMissing();
    if (error || needed == 0 || space.available >= needed + kSpareBytes) return;
    Fail(ErrorKind::kIo, "{}: {} are still to come, but the disk has only {} left",
         options_.folder.string(), FormatByteSize(needed), FormatByteSize(space.available));
  }

  void Watch() {
    Clock::time_point synced = Clock::now();
    while (const auto progress = board_.Watch()) {
      if (options_.progress) options_.progress(*progress);
      if (Clock::now() - synced <= kSyncInterval) continue;
      board_.SyncOpenFiles();
      synced = Clock::now();
    }
  }

  void Follow() {
    FollowerOptions follow;
    follow.note = options_.note;
    follow.finished = [this](const RemoteFile& file, const std::string& sha256) {
      state_.manifest.Set({file.name, file.bytes, sha256});
      state_.manifest.Save(options_.folder);
    };
    FollowFiles(board_, follow);
  }

  void Connect() {
    HttpClient client(options_.http);
    unsigned failures = 0;
    std::mt19937 random{std::random_device()()};
    while (auto next = board_.Next()) {
      const FetchOutcome outcome = FetchRun(client, *next);
      board_.GiveBack(*next);
      if (outcome.whole) failures = 0;
      if (outcome.whole || outcome.yield || board_.Stopped()) continue;
      const std::string& name = next->job->task.remote().name;
      if (outcome.fatal) Fail(outcome.kind, "{}: {}", name, outcome.what);
      failures = outcome.progress ? 1 : failures + 1;
      if (failures > options_.retries) {
        Fail(outcome.kind,
             "{}: {}; given up after {} tries. What is there is kept: the same command goes on",
             name, outcome.what, failures);
      }
      auto pause = PauseAfter(failures, options_.first_pause, outcome.pause);
      pause += pause * std::uniform_int_distribution<int>(0, 25)(random) / 100;
      board_.Pause(pause,
                   fmt::format("{}; trying again in {:.0f} s", outcome.what,
                               std::chrono::duration<double>(pause).count()),
                   outcome.pause.has_value());  // what is asked of one is asked of all
    }
  }

  FetchOutcome FetchRun(HttpClient& client, DownloadAssignment& assignment) {
    ResponseReceiver receiver(board_, assignment);
    const HttpRequest request{
        FileUrl(state_.address, state_.commit, assignment.job->task.remote().name),
        state_.address.token, receiver.range()};
    const HttpReply reply = client.Get(
        request, [&](const HttpReply& r) { return receiver.Begin(r); },
        [&](std::span<const std::byte> data) { return receiver.Take(data); });
    FetchOutcome outcome = receiver.outcome();
    if (outcome.yield || !outcome.what.empty()) return outcome;
    if (reply.status != 200 && reply.status != 206) {
      outcome.what = DescribeStatus(reply, state_.address);
      outcome.fatal = !MayWorkLater(reply);
      if (outcome.fatal) outcome.kind = ErrorKind::kRun;
      outcome.pause = RetryAfter(reply.Header("retry-after"));
    } else if (receiver.complete()) {
      outcome.whole = true;
    } else {
      outcome.what = reply.error.empty()
                         ? fmt::format("the answer ended {} bytes too early", receiver.missing())
                         : reply.error;
    }
    return outcome;
  }

  State& state_;
  const DownloadOptions& options_;
  DownloadBoard board_;
};

Downloader::Downloader(DownloadOptions options, RepositoryAddress address, std::string commit,
                       Manifest& manifest)
    : state_(std::make_unique<State>(std::move(options), std::move(address), std::move(commit),
                                     manifest)) {}

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
    const auto pause =
        PauseAfter(failures, state_->options.first_pause, RetryAfter(reply.Header("retry-after")));
    if (state_->options.note && failures == 1) {
      state_->options.note(fmt::format("{}; trying again", what));
    }
    const Clock::time_point end = Clock::now() + pause;
    while (Clock::now() < end && !stop.load()) std::this_thread::sleep_for(kPauseStep);
  }
}

void Downloader::Fetch(std::vector<WantedFile> files) { Work(*state_, std::move(files)).Run(); }

uint64_t Downloader::bytes_fetched() const { return state_->fetched_before; }

uint64_t Downloader::BytesMissing(const std::vector<WantedFile>& files) {
  return Work(*state_, files).BytesMissing();
}

}  // namespace kimi_k3

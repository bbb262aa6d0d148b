// Is a checkpoint whole: every file against its known hash, every shard against its own header.
#include "fetch/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/untrusted_file.h"
#include "fetch/file_verifier.h"
#include "fetch/folder_lock.h"
#include "fetch/known_file.h"
#include "fetch/manifest.h"
#include "fetch/verify_findings.h"
#include "fetch/verify_memory.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostThreads = 16;

std::string WrongSize(const KnownFile& file, uint64_t bytes) {
  const bool cut = bytes < *file.bytes;
  return fmt::format("{}: has {} bytes, but should have {}: {} by {}; fetch this file again",
                     file.path().string(), GroupedDigits(bytes), GroupedDigits(*file.bytes),
                     cut ? "cut short" : "too long",
                     GroupedDigits(cut ? *file.bytes - bytes : bytes - *file.bytes));
}

FileState StateAfter(const Error& error) {
  return error.kind() == ErrorKind::kIo ? FileState::kUnreadable : FileState::kBad;
}

// Now, and not when all has been read, is found out whether the folders can be written to.
std::vector<FolderLock> LockFolders(const VerifyOptions& options) {
  CheckFolders(options.folders);
  std::vector<FolderLock> locks;
  if (!options.write_hashes) return locks;
  std::set<fs::path> different;
  for (const fs::path& folder : options.folders) {
    if (different.insert(fs::canonical(folder)).second) locks.emplace_back(folder);
  }
  return locks;
}

class Verifier {
 public:
  explicit Verifier(const VerifyOptions& options)
      : options_(options),
        stop_(options.stop != nullptr ? *options.stop : never_),
        locks_(LockFolders(options)),
        // A quick look is no reason to forget what a long one has found.
        memory_(options.folders.front(), options.go_on || options.quick),
        known_(GatherKnownFiles(options.folders, options.hash_list)),
        findings_(known_),
        verifier_(options, findings_, bytes_read_, stop_) {}

  VerifyReport Run() {
    CheckPresence();
    CheckStructure();
    if (options_.quick) {
      CheckHoles();
      CheckKinds();
    } else {
      ReadAll();
      findings_.AcquitGoodFiles();
    }
    if (options_.write_hashes) WriteHashes();
    if (!options_.quick) memory_.Forget();
    VerifyReport report = findings_.Take();
    report.bytes_read = bytes_read_.load();
    return report;
  }

 private:
  void CheckPresence() {
    for (const auto& [name, file] : known_.files) {
      std::error_code error;
      const fs::file_status status = fs::status(file.path(), error);
      if (status.type() == fs::file_type::not_found) {
        findings_.Note(name, FileState::kMissing,
                       fmt::format("{}: is missing", file.path().string()));
      } else if (file.bytes && status.type() == fs::file_type::regular) {
        const uint64_t bytes = fs::file_size(file.path(), error);
        if (error || bytes == *file.bytes) continue;
        findings_.NoteWrongSize(name, WrongSize(file, bytes));
      }
    }
  }

  // What opening the checkpoint says.
  void CheckStructure() {
    try {
      Checkpoint::Check(options_.folders, known_.part);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInterrupted) throw;
      NoteLines(error.what());
    }
    if (options_.further_problems) NoteLines(options_.further_problems());
  }

  void NoteLines(const std::string& problems) {
    std::istringstream lines(problems);
    for (std::string line; std::getline(lines, line);) findings_.NoteStructure(line);
  }

  void CheckHoles() {
    for (const auto& [name, file] : known_.files) {
      try {
        verifier_.CheckHoles(file);
      } catch (const Error& error) {
        findings_.Note(name, StateAfter(error), error.what());
      }
    }
  }

  // Whether what is good so far and is no shard is a file at all that can be read.
  void CheckKinds() {
    for (const auto& [name, file] : known_.files) {
      if (file.shard || findings_.StateOf(name) != FileState::kGood) continue;
      try {
        OpenRegularFile(file.path());
      } catch (const Error& error) {
        findings_.Note(name, StateAfter(error), error.what());
      }
    }
  }

  void Enqueue() {
    for (const auto& [name, file] : known_.files) {
      if (findings_.StateOf(name) == FileState::kMissing) continue;
      if (options_.go_on && memory_.Knows(file)) {
        findings_.NoteRemembered(name, file.hash.has_value());
        continue;
      }
      if (findings_.HasWrongSize(name)) {  // no need to read it
        findings_.NoteHashed(name, file.hash.has_value(), false);
        continue;
      }
      std::error_code error;
      const uint64_t bytes = fs::file_size(file.path(), error);
      if (!error) progress_.bytes_total += bytes;
      queue_.push_back(&file);
    }
    progress_.files_total = queue_.size();
  }

  void ReadAll() {
    Enqueue();
    std::vector<std::thread> threads;
    const size_t wanted = options_.threads != 0 ? options_.threads : 2 * UsableCores();
    running_ = std::min({wanted, queue_.size(), kMostThreads});
    for (size_t i = running_; i > 0; --i) threads.emplace_back([this] { Work(); });
    Watch();
    for (std::thread& thread : threads) thread.join();
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    if (stop_.load()) Fail(ErrorKind::kInterrupted, "interrupted");
  }

  void Watch() {
    std::unique_lock lock(mutex_);
    while (running_ > 0) {
      changed_.wait_for(lock, std::chrono::milliseconds(200));
      if (!options_.progress) continue;
      VerifyProgress now = progress_;
      now.bytes_done = bytes_read_.load();
      lock.unlock();
      options_.progress(now);
      lock.lock();
    }
  }

  void Work() {
    for (;;) {
      const KnownFile* file = nullptr;
      {
        const std::lock_guard lock(mutex_);
        if (next_ < queue_.size() && !stop_.load() && failure_ == nullptr) {
          file = queue_[next_++];
        } else {
          --running_;
          changed_.notify_all();
          return;
        }
      }
      try {
        Read(*file);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kInterrupted) continue;
        findings_.Note(file->name, StateAfter(error), error.what());
      } catch (...) {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      ++progress_.files_done;
    }
  }

  void Read(const KnownFile& file) {
    auto hashes = verifier_.Verify(file);
    if (findings_.StateOf(file.name) != FileState::kGood) return;
    const std::lock_guard lock(mutex_);
    if (progress_.bytes_total >= options_.remember_from_bytes) memory_.Remember(file);
    if (hashes) found_[file.name] = std::move(*hashes);
  }

  void WriteHashes() {
    for (size_t i = 0; i < options_.folders.size(); ++i) {
      const fs::path& folder = options_.folders[i];
      Manifest manifest = known_.manifests[i].value_or(Manifest{});
      for (auto& [name, found] : found_) {
        if (known_.files.at(name).folder != folder) continue;
        if (found.sums) {
          BlockSums sums(found.bytes, found.sha256, found.sums->block_bytes());
          for (size_t b = 0; b < sums.blocks(); ++b) sums.Set(b, found.sums->sum(b));
          sums.Save(SumsPath(folder, name));
        }
        manifest.Set({name, found.bytes, found.sha256});
      }
      if (!manifest.files.empty()) manifest.Save(folder);
    }
  }

  const VerifyOptions& options_;
  const std::atomic<bool> never_{false};
  const std::atomic<bool>& stop_;
  std::vector<FolderLock> locks_;
  VerifyMemory memory_;
  KnownFiles known_;
  VerifyFindings findings_;
  std::atomic<uint64_t> bytes_read_{0};
  FileVerifier verifier_;

  std::mutex mutex_;  // protects what follows
  std::condition_variable changed_;
  std::map<std::string, FileVerifier::Hashes> found_;
  std::vector<const KnownFile*> queue_;
  size_t next_ = 0;
  size_t running_ = 0;
  VerifyProgress progress_;
  std::exception_ptr failure_;
};

}  // namespace

size_t VerifyReport::bad() const {
  return static_cast<size_t>(std::ranges::count_if(
      files, [](const FileFinding& file) { return file.state != FileState::kGood; }));
}

bool VerifyReport::unreadable() const {
  return std::ranges::any_of(
      files, [](const FileFinding& file) { return file.state == FileState::kUnreadable; });
}

VerifyReport VerifyCheckpoint(const VerifyOptions& options) {
  if (options.folders.empty()) Fail(ErrorKind::kUsage, "no model folder is given");
  return Verifier(options).Run();
}

}  // namespace kimi_k3

// Is a checkpoint whole: every file against its known hash, every shard against its own header.
#include "fetch/verify.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/fetched_part.h"
#include "checkpoint/index_reader.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/shard_header.h"
#include "checkpoint/shard_names.h"
#include "fetch/file_check.h"
#include "fetch/folder_lock.h"
#include "fetch/manifest.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostThreads = 16;
constexpr std::string_view kProgressName = "verify.progress";

// One file to look at, and what is known of it.
struct Item {
  fs::path folder;
  std::string name;
  std::optional<ExpectedHash> hash;
  std::optional<uint64_t> bytes;
  bool shard = false;
  bool part = false;  // only blocks of it are there
  fs::path path() const { return folder / name; }
};

// "size mtime": a file that is still as it was when it was found good.
std::string StampOf(const fs::path& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return {};
  return fmt::format("{} {}.{:09}", info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

// The files that an interrupted verification found good, a line each: stamp and name.
class Memory {
 public:
  Memory(const fs::path& folder, bool go_on) : path_(folder / kOwnFolder / kProgressName) {
    if (go_on) {
      std::ifstream file(path_);
      for (std::string line; std::getline(file, line);) good_.insert(line);
    }
    std::error_code ignored;
    if (!go_on) fs::remove(path_, ignored);
  }

  bool Knows(const Item& item) const { return good_.contains(LineOf(item)); }
  // In a folder that cannot be written to nothing is remembered.
  void Remember(const Item& item) {
    std::error_code ignored;
    fs::create_directories(path_.parent_path(), ignored);
    std::ofstream(path_, std::ios::app) << LineOf(item) << '\n';
  }
  void Forget() const {
    std::error_code ignored;
    fs::remove(path_, ignored);
    fs::remove(path_.parent_path(), ignored);  // where it is empty
  }

 private:
  static std::string LineOf(const Item& item) {
    return fmt::format("{} {} {}", StampOf(item.path()), item.hash ? item.hash->hex : "-",
                       item.name);
  }
  fs::path path_;
  std::set<std::string> good_;
};

class Verifier {
 public:
  explicit Verifier(const VerifyOptions& options)
      : options_(options),
        stop_(options.stop != nullptr ? *options.stop : never_),
        memory_(options.folders.front(), options.go_on) {}

  VerifyReport Run() {
    CheckFolders(options_.folders);
    if (options_.write_hashes) LockFolders();
    GatherKnown();
    GatherShards();
    for (const auto& [name, item] : items_) {
      report_.files.push_back({name, item.path(), FileState::kGood, false, false, false, {}});
    }
    CheckPresence();
    CheckStructure();
    if (options_.quick) {
      CheckHoles();
    } else {
      ReadAll();
      AcquitGoodFiles();
    }
    if (options_.write_hashes) WriteHashes();
    if (!options_.quick) memory_.Forget();
    return std::move(report_);
  }

 private:
  // Now, and not when all has been read, is found out whether they can be written to.
  void LockFolders() {
    std::set<fs::path> different;
    for (const fs::path& folder : options_.folders) {
      if (different.insert(fs::canonical(folder)).second) locks_.emplace_back(folder);
    }
  }

  void GatherKnown() {
    if (options_.hash_list) {
      for (auto& [name, hash] : ReadHashList(*options_.hash_list)) {
        Know({FolderWith(options_.folders, name), name, hash, std::nullopt});
      }
    }
    for (const fs::path& folder : options_.folders) {
      manifests_.push_back(Manifest::Load(folder));
      if (options_.hash_list) continue;
      const auto& manifest = manifests_.back();
      if (!manifest) {
        for (auto& [name, hash] : ReadHubMetadata(folder)) {
          Know({folder, name, hash, std::nullopt});
        }
        continue;
      }
      if (part_.empty()) part_ = manifest->part;
      for (const ManifestFile& file : manifest->files) {
        Item item{folder, file.name, std::nullopt, file.bytes};
        item.part = file.sha256.empty();
        if (!item.part) item.hash = ExpectedHash{DigestKind::kSha256, file.sha256};
        Know(std::move(item));
      }
    }
  }

  void Know(Item item) {
    const fs::path& folder = FolderWith(options_.folders, item.name);
    if (HasEntry(folder, item.name) && !HasEntry(item.folder, item.name)) item.folder = folder;
    const std::string name = item.name;
    items_.try_emplace(name, std::move(item));
  }

  void GatherShards() {
    const auto add = [this](const std::string& name, bool shard) {
      const fs::path& folder = FolderWith(options_.folders, name);
      Item& item =
          items_.try_emplace(name, Item{folder, name, std::nullopt, std::nullopt}).first->second;
      item.shard = shard;
    };
    const fs::path& folder = FolderWith(options_.folders, kIndexName);
    for (const std::string_view name : {kConfigName, kIndexName, std::string_view("tiktoken.model"),
                                        std::string_view("tokenizer_config.json")}) {
      if (HasEntry(FolderWith(options_.folders, name), name)) add(std::string(name), false);
    }
    if (!HasEntry(folder, kIndexName)) {
      if (HasEntry(FolderWith(options_.folders, kSingleName), kSingleName)) {
        add(std::string(kSingleName), true);
      }
      return;
    }
    std::string last;
    try {
      ReadTensorIndex(folder / kIndexName, [&](std::string_view, std::string_view file) {
        if (file == last) return;
        last = file;
        // Of a part, shards that hold nothing of it may be missing.
        if (!IsPlainFileName(file)) return;
        const bool there = HasEntry(FolderWith(options_.folders, file), file);
        if (there || part_.empty()) add(last, true);
      });
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInterrupted) throw;  // else the structure tells of it
    }
    for (auto& [name, item] : items_) item.shard = item.shard || name.ends_with(".safetensors");
  }

  FileFinding& FindingOf(const std::string& name) {
    return *std::ranges::find(report_.files, name, &FileFinding::name);
  }

  void CheckPresence() {
    for (const auto& [name, item] : items_) {
      FileFinding& finding = FindingOf(name);
      std::error_code error;
      const fs::file_status status = fs::status(item.path(), error);
      if (status.type() == fs::file_type::not_found) {
        finding.state = FileState::kMissing;
        finding.problems.push_back(fmt::format("{}: is missing", item.path().string()));
      } else if (item.bytes && status.type() == fs::file_type::regular) {
        const uint64_t bytes = fs::file_size(item.path(), error);
        if (error || bytes == *item.bytes) continue;
        finding.state = FileState::kBad;
        finding.problems.push_back(WrongSize(item, bytes));
        wrong_size_.insert(name);
      }
    }
  }

  static std::string WrongSize(const Item& item, uint64_t bytes) {
    const bool cut = bytes < *item.bytes;
    return fmt::format("{}: has {} bytes, but should have {}: {} by {}; fetch this file again",
                       item.path().string(), GroupedDigits(bytes), GroupedDigits(*item.bytes),
                       cut ? "cut short" : "too long",
                       GroupedDigits(cut ? *item.bytes - bytes : bytes - *item.bytes));
  }

  // What opening the checkpoint says, each line given to the file that it names.
  void CheckStructure() {
    try {
      Checkpoint::Check(options_.folders, part_);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInterrupted) throw;
      std::istringstream lines(error.what());
      for (std::string line; std::getline(lines, line);) GiveProblem(line);
    }
  }

  void GiveProblem(const std::string& line) {
    for (FileFinding& finding : report_.files) {
      if (!line.starts_with(finding.path.string() + ":")) continue;
      if (wrong_size_.contains(finding.name)) return;  // which explains it
      if (finding.state == FileState::kGood) finding.state = FileState::kBad;
      finding.problems.push_back(line);
      return;
    }
    report_.problems.push_back(line);
  }

  // Two files may contradict each other; where the hash of one holds, it is the other's fault.
  void AcquitGoodFiles() {
    for (FileFinding& finding : report_.files) {
      if (!finding.hash_holds || finding.state != FileState::kBad) continue;
      finding.state = FileState::kGood;
      for (std::string& problem : finding.problems) report_.problems.push_back(std::move(problem));
      finding.problems.clear();
    }
  }

  void ReadAll() {
    for (const auto& [name, item] : items_) {
      FileFinding& finding = FindingOf(name);
      if (finding.state == FileState::kMissing) continue;
      if (options_.go_on && memory_.Knows(item)) {
        finding.remembered = true;
        finding.hashed = item.hash.has_value();
        continue;
      }
      if (wrong_size_.contains(name)) {  // no need to read it
        finding.hashed = item.hash.has_value();
        continue;
      }
      std::error_code error;
      const uint64_t bytes = fs::file_size(item.path(), error);
      if (!error) progress_.bytes_total += bytes;
      queue_.push_back(&item);
    }
    progress_.files_total = queue_.size();
    std::vector<std::thread> threads;
    const size_t wanted = options_.threads != 0 ? options_.threads : 2 * UsableCores();
    running_ = std::min({wanted, queue_.size(), kMostThreads});
    for (size_t i = running_; i > 0; --i) threads.emplace_back([this] { Work(); });
    Watch();
    for (std::thread& thread : threads) thread.join();
    report_.bytes_read = bytes_read_.load();
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
      const Item* item = nullptr;
      {
        const std::lock_guard lock(mutex_);
        if (next_ < queue_.size() && !stop_.load() && failure_ == nullptr) {
          item = queue_[next_++];
        } else {
          --running_;
          changed_.notify_all();
          return;
        }
      }
      try {
        CheckItem(*item);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kInterrupted) continue;
        Note(*item, error.kind() == ErrorKind::kIo ? FileState::kUnreadable : FileState::kBad,
             error.what());
      } catch (...) {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      ++progress_.files_done;
    }
  }

  void Note(const Item& item, FileState state, const std::string& problem) {
    const std::lock_guard lock(mutex_);
    FileFinding& finding = FindingOf(item.name);
    if (state > finding.state || finding.state == FileState::kGood) finding.state = state;
    if (std::ranges::find(finding.problems, problem) == finding.problems.end()) {
      finding.problems.push_back(problem);
    }
  }

  void CheckHoles() {
    for (const auto& [name, item] : items_) {
      try {
        if (const auto problem = HoleIn(item)) Note(item, FileState::kBad, *problem);
      } catch (const Error& error) {
        Note(item, error.kind() == ErrorKind::kIo ? FileState::kUnreadable : FileState::kBad,
             error.what());
      }
    }
  }

  // Of a shard of which nothing else is wrong and that should have no holes: what there is to say
  // of its first one. Only a hash that holds can tell that its zeros are right.
  std::optional<std::string> HoleIn(const Item& item) {
    if (!item.shard || item.part || !IsGoodSoFar(item)) return std::nullopt;
    const fs::path path = item.path();
    std::error_code error;
    if (FetchedPart(path, fs::file_size(path, error))) return std::nullopt;
    SafetensorsHeaderParser parser;
    const auto hole = FirstUnmeantHole(path, parser);
    if (!hole) return std::nullopt;
    return fmt::format(
        "{}: has holes, which read as zeros, the first from byte {} to {}: it was never fetched "
        "whole; fetch this file again{}",
        path.string(), GroupedDigits(hole->begin), GroupedDigits(hole->end - 1),
        item.hash && options_.quick ? ", or see without --quick whether its hash holds all the same"
                                    : "");
  }

  bool IsGoodSoFar(const Item& item) {
    const std::lock_guard lock(mutex_);
    return FindingOf(item.name).state == FileState::kGood;
  }

  // What is wrong with a shard's header, unless opening the checkpoint has told of it.
  void NoteHeader(const Item& item, const std::string& problems) {
    {
      const std::lock_guard lock(mutex_);
      if (!FindingOf(item.name).problems.empty()) return;
    }
    std::istringstream lines(problems);
    for (std::string line; std::getline(lines, line);) Note(item, FileState::kBad, line);
  }

  FileCheckRequest RequestFor(const Item& item, const std::optional<BlockSums>& sums) {
    FileCheckRequest request;
    request.path = item.path();
    if (item.shard && !item.part) {
      try {
        request.tensors = TensorSpans(item.path());
      } catch (const Error& error) {
        NoteHeader(item, error.what());
      }
    }
    if (item.part && sums) request.expected = &*sums;
    if (item.hash) request.digests.push_back(item.hash->kind);
    if (options_.write_hashes && !item.part) {
      request.digests.push_back(DigestKind::kSha256);
      request.sums = item.shard;
    }
    return request;
  }

  void NoteContents(const Item& item, const FileCheckRequest& request,
                    const std::optional<BlockSums>& sums, const FileCheckResult& result) {
    const std::string path = item.path().string();
    if (result.first_bad_number) {
      Note(item, FileState::kBad, fmt::format("{}: {}", path, *result.first_bad_number));
    }
    if (!item.hash || result.digests.front() != item.hash->hex) {
      if (const auto hole = HoleIn(item)) Note(item, FileState::kBad, *hole);
    }
    if (item.hash && result.digests.front() != item.hash->hex) {
      Note(
          item, FileState::kBad,
          fmt::format("{}: its {} is {}, but should be {}; {}", path,
                      item.hash->kind == DigestKind::kSha256 ? "SHA-256" : "git hash",
                      result.digests.front(), item.hash->hex, WhereDifferent(item, request, sums)));
    } else if (!result.bad_blocks.empty()) {
      Note(item, FileState::kBad,
           fmt::format("{}: differs from what was downloaded, first in the {} bytes from {} on",
                       path, sums->BytesOf(result.bad_blocks.front()),
                       sums->OffsetOf(result.bad_blocks.front())));
    }
  }

  void CheckItem(const Item& item) {
    const auto sums = BlockSums::Load(SumsPath(item.folder, item.name));
    const FileCheckRequest request = RequestFor(item, sums);
    FileCheckResult result = CheckFile(request, bytes_read_, stop_);
    NoteContents(item, request, sums, result);
    const std::lock_guard lock(mutex_);
    FileFinding& finding = FindingOf(item.name);
    finding.hashed = item.hash.has_value() || (item.part && sums);
    finding.hash_holds = item.hash && result.digests.front() == item.hash->hex;
    if (finding.state != FileState::kGood) return;
    if (progress_.bytes_total >= options_.remember_from_bytes) memory_.Remember(item);
    if (options_.write_hashes && !item.part) {
      found_[item.name] = {result.bytes, result.digests.back(), std::move(result.sums)};
    }
  }

  // A second look at a file whose hash is wrong: which block, and so which tensors.
  std::string WhereDifferent(const Item& item, const FileCheckRequest& first,
                             const std::optional<BlockSums>& sums) {
    std::error_code error;
    if (!sums || sums->source() != item.hash->hex ||
        sums->file_bytes() != fs::file_size(item.path(), error)) {
      return "which tensor cannot be told from the hash of the whole file";
    }
    FileCheckRequest request;
    request.path = item.path();
    request.expected = &*sums;
    std::atomic<uint64_t> uncounted{0};
    const std::vector<size_t> bad = CheckFile(request, uncounted, stop_).bad_blocks;
    if (bad.empty()) return "yet each of its blocks is right: it changed while it was read";
    const uint64_t begin = sums->OffsetOf(bad.front());
    const uint64_t end = begin + sums->BytesOf(bad.front());
    const std::string where =
        first.tensors.empty() ? std::string() : ": " + TensorsIn(first.tensors, begin, end);
    return fmt::format("{} of its {} blocks differ{}, first bytes {} to {}{}", bad.size(),
                       sums->blocks(), bad.size() == 1 ? "s" : "", begin, end - 1, where);
  }

  void WriteHashes() {
    for (size_t i = 0; i < options_.folders.size(); ++i) {
      const fs::path& folder = options_.folders[i];
      Manifest manifest = manifests_[i].value_or(Manifest{});
      for (auto& [name, found] : found_) {
        if (items_.at(name).folder != folder) continue;
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

  struct Found {
    uint64_t bytes = 0;
    std::string sha256;
    std::optional<BlockSums> sums;
  };

  const VerifyOptions& options_;
  const std::atomic<bool> never_{false};
  const std::atomic<bool>& stop_;
  Memory memory_;
  std::vector<FolderLock> locks_;
  std::vector<std::optional<Manifest>> manifests_;  // by folder
  std::string part_;
  std::map<std::string, Item> items_;
  std::set<std::string> wrong_size_;  // names of files
  VerifyReport report_;
  std::map<std::string, Found> found_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const Item*> queue_;
  size_t next_ = 0;
  size_t running_ = 0;
  VerifyProgress progress_;
  std::atomic<uint64_t> bytes_read_{0};
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

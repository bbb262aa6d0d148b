// Getting a checkpoint from a repository: which files, in which order, and what a part needs.
#include "fetch/pull.h"

#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/index_reader.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/model_part.h"
#include "checkpoint/shard_header.h"
#include "checkpoint/tensor_listing.h"
#include "fetch/file_check.h"
#include "fetch/folder_lock.h"
#include "fetch/safe_name.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLongestListing = uint64_t{64} << 20;

bool IsShard(const RemoteFile& file) { return file.name.ends_with(".safetensors"); }

// Whether a part of the model needs a tensor.
bool Needed(const ModelConfig& config, const TensorSlots& slots, std::string_view name) {
  const auto match = slots.Find(name);
  if (!match) return false;
  if (!slots.InLayer(match->slot)) return true;
  const TensorSlots::Tensor tensor = slots.Describe(match->slot);
  return config.part.layers.Has(tensor.layer) &&
         (tensor.spec->kind != TensorKind::kExpert || config.part.experts.Has(tensor.expert));
}

// A folder that is removed with what is in it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "kimi_k3_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) Fail(ErrorKind::kIo, "{}: cannot make the folder", name);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Puller {
 public:
  explicit Puller(const PullOptions& options) : options_(options) {
    if (!options.part.empty()) part_ = ParseModelPart(options.part);
  }

  PullReport Run() {
    const fs::path& folder = options_.download.folder;
    const ScratchFolder scratch;
    DownloadOptions download = options_.download;
    if (options_.dry_run) download.folder = scratch.path();
    CheckFolder();
    if (const auto known = Manifest::Load(folder)) manifest_ = *known;
    CheckRepository();
    Manifest asked;  // of the list alone: the lock is needed, the folder's state is not
    RemoteListing listing;
    {
      Downloader lister(download, options_.address, "", asked);
      listing = ParseListing(lister.GetText(ListingUrl(options_.address), kLongestListing),
                             options_.address.repository);
    }
    report_.commit = listing.commit;
    report_.listing = listing.files;
    report_.files = listing.files.size();
    report_.unhashed = static_cast<size_t>(
        std::ranges::count_if(listing.files, [](const RemoteFile& f) { return !f.hash; }));
    if (options_.dry_run) {
      Estimate(download, scratch.path());
    } else {
      Downloader downloader(download, options_.address, listing.commit, manifest_);
      FetchAll(downloader);
      report_.bytes_fetched = downloader.bytes_fetched();
    }
    return report_;
  }

 private:
  void CheckFolder() const {
    std::error_code error;
    const fs::file_status status = fs::status(options_.download.folder, error);
    const bool dangling =
        !fs::exists(status) && fs::is_symlink(fs::symlink_status(options_.download.folder, error));
    if (dangling || (fs::exists(status) && !fs::is_directory(status))) {
      Fail(ErrorKind::kUsage, "{}: is no folder", options_.download.folder.string());
    }
  }

  void CheckRepository() const {
    const std::string& old = manifest_.repository;
    if (old.empty() || old == options_.address.repository) return;
    Fail(ErrorKind::kUsage, "{}: holds {}; give another folder with -o",
         options_.download.folder.string(), old);
  }

  std::vector<WantedFile> Files(bool shards) const {
    std::vector<WantedFile> files;
    for (const RemoteFile& file : report_.listing) {
      if (IsShard(file) == shards) files.push_back({file, {}, 0, true});
    }
    return files;
  }

  void FetchAll(Downloader& downloader) {
    // What was there of another part stays known; a whole model makes a part of one forgotten.
    manifest_.endpoint = options_.address.endpoint;
    manifest_.repository = options_.address.repository;
    manifest_.revision = options_.address.revision;
    std::vector<WantedFile> first = Files(false);
    std::vector<WantedFile> shards = Files(true);
    for (const RemoteFile& file : report_.listing) report_.bytes += file.bytes;
    if (!part_) {
      first.insert(first.end(), shards.begin(), shards.end());
      Count(downloader, first);
      downloader.Fetch(std::move(first));
    } else {
      downloader.Fetch(std::move(first));
      shards = ShardsOfPart(downloader, shards);
      report_.bytes = 0;
      for (const WantedFile& file : shards) report_.bytes += BytesOf(file);
      Count(downloader, shards);
      downloader.Fetch(std::move(shards));
    }
    manifest_.commit = report_.commit;
    manifest_.part = options_.part;
    manifest_.Save(options_.download.folder);
  }

  uint64_t BytesOf(const WantedFile& file) const {
    if (file.blocks.empty()) return file.remote.bytes;
    const BlockSums shape(file.remote.bytes, "", BlockBytesOf(file.remote));
    uint64_t bytes = 0;
    for (size_t block = 0; block < shape.blocks(); ++block) {
      if (file.blocks[block]) bytes += shape.BytesOf(block);
    }
    return bytes;
  }

  // What is there of a file stays in the blocks that it came in.
  uint64_t BlockBytesOf(const RemoteFile& remote) const {
    const auto sums = BlockSums::Load(SumsPath(options_.download.folder, remote.name));
    return sums && sums->file_bytes() == remote.bytes ? sums->block_bytes()
                                                      : options_.download.block_bytes;
  }

  void Count(Downloader& downloader, const std::vector<WantedFile>& files) {
    report_.bytes_missing = downloader.BytesMissing(files);
  }

  // The config and slots of the part's model, from what is in the folder.
  ModelConfig ConfigOf(const fs::path& folder) const {
    ModelConfig config = LoadModelConfig(folder);
    CheckModelPart(*part_, config);
    config.part = *part_;
    return config;
  }

  // Names of the shards that hold something of the part.
  std::set<std::string> NeededShards(const fs::path& folder, const ModelConfig& config,
                                     const TensorSlots& slots) const {
    std::set<std::string> names;
    if (!HasEntry(folder, kIndexName)) {
      names.emplace(kSingleName);
      return names;
    }
    ReadTensorIndex(folder / kIndexName, [&](std::string_view tensor, std::string_view file) {
      if (Needed(config, slots, tensor)) names.emplace(file);
    });
    return names;
  }

  // Of each shard that the part needs, which blocks; the headers are fetched to find out.
  std::vector<WantedFile> ShardsOfPart(Downloader& downloader,
                                       const std::vector<WantedFile>& shards) {
    const fs::path& folder = options_.download.folder;
    const ModelConfig config = ConfigOf(folder);
    const TensorSlots slots(config);
    const std::set<std::string> names = NeededShards(folder, config, slots);
    std::vector<WantedFile> needed;
    for (const WantedFile& file : shards) {
      if (names.contains(file.remote.name)) needed.push_back(file);
    }
    std::vector<uint64_t> header_bytes(needed.size(), kLengthFieldBytes);
    // First the length of the header, then the header.
    for (int round = 0; round < 2; ++round) {
      std::vector<WantedFile> heads;
      for (size_t i = 0; i < needed.size(); ++i) {
        const RemoteFile& remote = needed[i].remote;
        if (remote.bytes < kLengthFieldBytes) {
          Fail(ErrorKind::kRun, "{}: is too short for a shard", remote.name);
        }
        heads.push_back({remote, BlocksUpTo(remote, std::min(header_bytes[i], remote.bytes)),
                         BlockBytesOf(remote), false});
      }
      downloader.Fetch(heads);
      for (size_t i = 0; i < needed.size() && round == 0; ++i) {
        header_bytes[i] = kLengthFieldBytes + HeaderLength(needed[i].remote);
      }
    }
    SafetensorsHeaderParser parser;
    for (WantedFile& file : needed) {
      const uint64_t block_bytes = BlockBytesOf(file.remote);
      const BlockSums shape(file.remote.bytes, "", block_bytes);
      std::vector<bool> blocks(shape.blocks(), false);
      const auto want = [&](uint64_t begin, uint64_t end) {
        for (uint64_t block = begin / block_bytes; block * block_bytes < end; ++block) {
          blocks[block] = true;
        }
      };
      uint64_t data = file.remote.bytes;
      VisitShardTensors(DataPath(file.remote.name), parser, [&](const HeaderTensor& tensor) {
        data = std::min(data, tensor.begin);
        if (Needed(config, slots, tensor.name)) want(tensor.begin, tensor.end);
      });
      want(0, data);
      file.blocks = std::move(blocks);
      file.block_bytes = block_bytes;
    }
    return needed;
  }

  std::vector<bool> BlocksUpTo(const RemoteFile& remote, uint64_t end) const {
    const BlockSums shape(remote.bytes, "", BlockBytesOf(remote));
    std::vector<bool> blocks(shape.blocks(), false);
    for (size_t block = 0; block < shape.blocks() && shape.OffsetOf(block) < end; ++block) {
      blocks[block] = true;
    }
    return blocks;
  }

  // Where the data of a shard are now.
  fs::path DataPath(const std::string& name) const {
    const fs::path partial = options_.download.folder / kOwnFolder / (FlatName(name) + ".partial");
    std::error_code error;
    return fs::exists(partial, error) ? partial : options_.download.folder / name;
  }

  uint64_t HeaderLength(const RemoteFile& remote) const {
    const fs::path path = DataPath(remote.name);
    std::array<std::byte, kLengthFieldBytes> field;
    ReadExactly(OpenForReading(path), path, 0, field);
    uint64_t length = 0;
    std::memcpy(&length, field.data(), sizeof(length));
    if (length > kHeaderBytesLimit || length > remote.bytes - kLengthFieldBytes) {
      Fail(ErrorKind::kRun, "{}: begins with a header of {} bytes, which cannot be", remote.name,
           length);
    }
    return length;
  }

  // Without changing anything: the real folder's state, sizes from the list, and of a part what the
  // published format would have in its shards.
  void Estimate(const DownloadOptions& download, const fs::path& scratch) {
    std::map<std::string, uint64_t> needed_of;
    if (part_) {
      Manifest none;
      Downloader small(download, options_.address, report_.commit, none);
      std::vector<WantedFile> files;
      for (WantedFile& file : Files(false)) {
        if (file.remote.name == kConfigName || file.remote.name == kIndexName) {
          files.push_back(std::move(file));
        }
      }
      small.Fetch(std::move(files));
      const ModelConfig config = ConfigOf(scratch);
      const TensorSlots slots(config);
      TensorListing({scratch}).Visit([&](const ListedTensor& tensor) {
        if (Needed(config, slots, tensor.name)) {
          needed_of[std::string(tensor.file)] += tensor.bytes;
        }
      });
    }
    for (const RemoteFile& file : report_.listing) {
      const auto needed = needed_of.find(file.name);
      const bool shard = part_ && IsShard(file);
      const uint64_t bytes = !shard                      ? file.bytes
                             : needed != needed_of.end() ? std::min(file.bytes, needed->second)
                                                         : 0;
      report_.bytes += bytes;
      report_.bytes_missing += bytes - std::min(bytes, BytesThere(file));
    }
  }

  uint64_t BytesThere(const RemoteFile& file) const {
    const fs::path& folder = options_.download.folder;
    std::error_code error;
    const ManifestFile* known = manifest_.Find(file.name);
    if (known != nullptr && !known->sha256.empty() && known->bytes == file.bytes &&
        fs::exists(folder / file.name, error)) {
      return file.bytes;
    }
    const auto sums = BlockSums::Load(SumsPath(folder, file.name));
    return sums && sums->file_bytes() == file.bytes ? sums->BytesPresent() : 0;
  }

  const PullOptions& options_;
  std::optional<ModelPart> part_;
  Manifest manifest_;
  PullReport report_;
};

}  // namespace

PullReport Pull(const PullOptions& options) { return Puller(options).Run(); }

void PrepareRepair(const fs::path& folder, const std::vector<std::string>& names) {
  const FolderLock lock(folder);
  std::optional<Manifest> manifest = Manifest::Load(folder);
  if (!manifest) return;
  for (const std::string& name : names) {
    const ManifestFile* known = manifest->Find(name);
    const fs::path path = PlaceInFolder(folder, name);
    const fs::path partial = folder / kOwnFolder / (FlatName(name) + ".partial");
    std::error_code error;
    auto sums = BlockSums::Load(SumsPath(folder, name));
    const bool there = fs::is_regular_file(fs::symlink_status(path, error));
    if (known != nullptr && there && sums && fs::file_size(path, error) == known->bytes &&
        sums->file_bytes() == known->bytes) {
      FileCheckRequest request;
      request.path = path;
      request.expected = &*sums;
      std::atomic<uint64_t> read{0};
      const std::atomic<bool> never{false};
      for (const size_t block : CheckFile(request, read, never).bad_blocks) sums->Set(block, 0);
      sums->Save(SumsPath(folder, name));
      fs::rename(path, partial, error);
      if (error) {
        Fail(ErrorKind::kIo, "{}: cannot rename to {}: {}", path.string(), partial.string(),
             error.message());
      }
    } else {
      fs::remove(SumsPath(folder, name), error);
    }
    std::erase_if(manifest->files, [&](const ManifestFile& file) { return file.name == name; });
    manifest->Save(folder);
  }
}

}  // namespace kimi_k3

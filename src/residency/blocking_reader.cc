// Readers that fetch in the submitting thread: pread, and populating a map.
#include "residency/blocking_reader.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace kimi_k3 {
namespace {

// A reader whose Submit does all the work.
class BlockingReader : public Reader {
 public:
  size_t depth() const override { return 1; }
  void Submit(const ReadRequest& request) override { done_.push_back(Fetch(request)); }
  void Collect(bool /*block*/, std::vector<ReadCompletion>& done) override {
    done.insert(done.end(), done_.begin(), done_.end());
    done_.clear();
  }
  void Wake() override {}

 private:
  virtual ReadCompletion Fetch(const ReadRequest& request) = 0;
  std::vector<ReadCompletion> done_;
};

class PreadReader : public BlockingReader {
 public:
  explicit PreadReader(const ShardFiles& files) : files_(&files) {}

 private:
  ReadCompletion Fetch(const ReadRequest& request) override { return files_->Read(request); }
  const ShardFiles* files_;
};

class PopulateReader : public BlockingReader {
 public:
  explicit PopulateReader(const std::deque<GuardedMap>& maps) : maps_(&maps) {}

 private:
  ReadCompletion Fetch(const ReadRequest& request) override {
    const GuardedMap& map = (*maps_)[request.shard];
    const uint64_t bytes = std::min(request.bytes, map.size_bytes() - request.offset);
    ReadCompletion completion = {request.tag, bytes, std::nullopt};
    // The first advice asks for large reads at once, the second waits for them.
    madvise(request.destination, bytes, MADV_WILLNEED);
    int status = 0;
    do {
      status = madvise(request.destination, bytes, MADV_POPULATE_READ) == 0 ? 0 : errno;
    } while (status == EINTR || status == EAGAIN);
    if (status == EINVAL) {
      for (uint64_t at = 0; at < bytes; at += kBlockBytes) {
        static_cast<void>(*static_cast<volatile const std::byte*>(request.destination + at));
      }
      status = 0;
    }
    if (status == EFAULT) status = EIO;  // how the kernel says that touching would be a SIGBUS
    if (status != 0) {
      completion.failure = ReadFailure{request.shard, request.offset, status};
    } else {
      completion.failure = Intact(map, request);
    }
    return completion;
  }

  static std::optional<ReadFailure> Intact(const GuardedMap& map, const ReadRequest& request) {
    try {
      map.CheckIntact();
      return std::nullopt;
    } catch (const Error&) {
      return ReadFailure{request.shard, request.offset, 0};
    }
  }

  const std::deque<GuardedMap>* maps_;
};

}  // namespace

std::unique_ptr<Reader> MakePreadReader(const ShardFiles& files) {
  return std::make_unique<PreadReader>(files);
}

std::unique_ptr<Reader> MakePopulateReader(const std::deque<GuardedMap>& maps) {
  return std::make_unique<PopulateReader>(maps);
}

}  // namespace kimi_k3

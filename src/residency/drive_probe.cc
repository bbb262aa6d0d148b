// How fast the shards can be read, by reading them for a moment.
#include "residency/drive_probe.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>
#include <vector>

#include "base/error.h"
#include "residency/io_channel.h"
#include "residency/read_lanes.h"

namespace kimi_k3 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPieces = 16;
constexpr size_t kPiecesOfShard = 4 * kPieces;

class Probe : private ReadClient {
 public:
  Probe(const Checkpoint& checkpoint, const IoOptions& options, uint64_t piece_bytes,
        std::chrono::milliseconds limit)
      : checkpoint_(&checkpoint),
        piece_bytes_(piece_bytes),
        stop_(options.stop),
        channel_(OpenIoChannel(checkpoint, options,
                               {kPieces * piece_bytes, piece_bytes, kPieces, {}}, piece_bytes)),
        limit_(limit) {
    for (size_t slot = 0; slot < kPieces; ++slot) pieces_.push_back({slot, true});
  }

  DriveSpeed Run() {
    ReadLanes lanes(mutex_, *this, std::move(channel_.readers));
    std::unique_lock lock(mutex_);
    const auto start = Clock::now();
    deadline_ = start + limit_;
    lanes.Kick();
    while (Clock::now() < deadline_ || lanes.in_flight() > 0 || lanes.meters().bytes == 0) {
      changed_.wait_for(lock, std::chrono::milliseconds(50));
      if (lane_error_ != nullptr) std::rethrow_exception(lane_error_);
      if (failure_) throw Error(ErrorKind::kIo, DescribeFailure(*failure_, *checkpoint_));
      if (stop_ != nullptr && stop_->load()) Fail(ErrorKind::kInterrupted, "interrupted");
      lanes.Kick();
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const uint64_t bytes = lanes.meters().bytes;
    return {static_cast<double>(bytes) / seconds, bytes, seconds, channel_.description};
  }

 private:
  struct Piece {
    size_t slot;
    bool free;
  };

  std::optional<ReadRequest> NextRead() override {
    if (started_ && Clock::now() >= deadline_) return std::nullopt;
    started_ = true;
    const auto piece =
        std::find_if(pieces_.begin(), pieces_.end(), [](const Piece& p) { return p.free; });
    if (piece == pieces_.end()) return std::nullopt;
    piece->free = false;
    const uint32_t shard = NextShard();
    const uint64_t size = checkpoint_->shards()[shard].bytes;
    const uint64_t places = BlockCeil(size) / kBlockBytes;
    const uint64_t offset = random_() % places * kBlockBytes;
    const uint64_t needed = std::min(piece_bytes_, size - offset);
    const ByteRange blocks = {shard, offset, BlockCeil(needed)};
    channel_.landing->ReleaseSlot(piece->slot);
    return ReadRequest{&*piece,      shard,
                       offset,       channel_.landing->PlaceInSlot(piece->slot, 0, blocks),
                       blocks.bytes, needed};
  }

  // One shard for a while, then another: a run reads layer by layer, so that shards on several
  // drives take turns.
  uint32_t NextShard() {
    if (left_of_shard_ == 0) {
      shard_ = static_cast<uint32_t>(random_() % checkpoint_->shards().size());
      left_of_shard_ = kPiecesOfShard;
    }
    --left_of_shard_;
    return shard_;
  }

  void ReadDone(const ReadCompletion& completion) override {
    static_cast<Piece*>(completion.tag)->free = true;
    if (completion.failure) failure_ = completion.failure;
    changed_.notify_all();
  }
  void LaneFailed(std::exception_ptr error) override {
    lane_error_ = std::move(error);
    changed_.notify_all();
  }

  const Checkpoint* checkpoint_;
  uint64_t piece_bytes_;
  const std::atomic<bool>* stop_;
  IoChannel channel_;
  std::chrono::milliseconds limit_;
  Clock::time_point deadline_;
  bool started_ = false;  // one read at least
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Piece> pieces_;
  std::mt19937_64 random_{std::random_device()()};
  uint32_t shard_ = 0;
  size_t left_of_shard_ = 0;
  std::optional<ReadFailure> failure_;
  std::exception_ptr lane_error_;
};

}  // namespace

DriveSpeed MeasureDrive(const Checkpoint& checkpoint, const IoOptions& options,
                        uint64_t piece_bytes, std::chrono::milliseconds limit) {
  IoOptions forgetful = options;
  forgetful.drop_behind = true;
  return Probe(checkpoint, forgetful, BlockCeil(piece_bytes), limit).Run();
}

}  // namespace kimi_k3

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

constexpr size_t kPieces = 16;  // at once, of each drive

class Probe : private ReadClient {
 public:
  Probe(const Checkpoint& checkpoint, const IoOptions& options, uint64_t piece_bytes,
        std::chrono::milliseconds limit)
      : checkpoint_(&checkpoint),
        piece_bytes_(piece_bytes),
        stop_(options.stop),
        drives_(FindDrives(checkpoint, options.hooks.device_of).drives()),
        channel_(OpenIoChannel(
            checkpoint, options,
            {kPieces * drives_.size() * piece_bytes, piece_bytes, kPieces * drives_.size(), {}},
            piece_bytes)),
        limit_(limit) {
    for (size_t slot = 0; slot < kPieces * drives_.size(); ++slot) {
      pieces_.push_back({slot, slot % drives_.size(), true});
    }
    for (uint32_t shard = 0; shard < checkpoint.shards().size(); ++shard) {
      drives_[channel_.drives.Of(shard)].shards.push_back(shard);
    }
  }

  DriveSpeed Run() {
    ReadLanes lanes(mutex_, *this, std::move(channel_.readers), drives_.size());
    std::unique_lock lock(mutex_);
    const auto start = Clock::now();
    deadline_ = start + limit_;
    lanes.Kick();
    const auto silent = [](const Drive& drive) { return drive.bytes == 0; };
    while (Clock::now() < deadline_ || lanes.in_flight() > 0 ||
           std::any_of(drives_.begin(), drives_.end(), silent)) {
      changed_.wait_for(lock, std::chrono::milliseconds(50));
      if (lane_error_ != nullptr) std::rethrow_exception(lane_error_);
      if (failure_) throw Error(ErrorKind::kIo, DescribeFailure(*failure_, *checkpoint_));
      if (stop_ != nullptr && stop_->load()) Fail(ErrorKind::kInterrupted, "interrupted");
      lanes.Kick();
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return SpeedOf(seconds);
  }

 private:
  struct Piece {
    size_t slot;
    size_t drive;
    bool free;
  };
  struct Drive {
    std::vector<uint32_t> shards;
    bool started = false;  // one read at least
    uint64_t bytes = 0;
  };

  DriveSpeed SpeedOf(double seconds) const {
    DriveSpeed speed = {0, 0, 0, seconds, channel_.description};
    double model_bytes = 0;
    double longest = 0;  // that a drive takes for its shards
    double sum = 0;
    for (const Drive& drive : drives_) {
      double held = 0;
      for (const uint32_t shard : drive.shards) {
        held += static_cast<double>(checkpoint_->shards()[shard].bytes);
      }
      const double takes = held * seconds / static_cast<double>(drive.bytes);
      model_bytes += held;
      longest = std::max(longest, takes);
      sum += takes;
      speed.bytes += drive.bytes;
    }
    speed.bytes_per_second = model_bytes / longest;
    speed.in_turns_bytes_per_second = model_bytes / sum;
    return speed;
  }

  std::optional<ReadRequest> NextRead(size_t index) override {
    Drive& drive = drives_[index];
    if (drive.started && Clock::now() >= deadline_) return std::nullopt;
    drive.started = true;
    const auto piece = std::find_if(pieces_.begin(), pieces_.end(),
                                    [&](const Piece& p) { return p.free && p.drive == index; });
    if (piece == pieces_.end()) return std::nullopt;
    piece->free = false;
    const uint32_t shard = drive.shards[random_() % drive.shards.size()];
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

  void ReadDone(const ReadCompletion& completion) override {
    auto& piece = *static_cast<Piece*>(completion.tag);
    piece.free = true;
    drives_[piece.drive].bytes += completion.bytes;
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
  std::vector<Drive> drives_;
  IoChannel channel_;
  std::chrono::milliseconds limit_;
  Clock::time_point deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Piece> pieces_;
  std::mt19937_64 random_{std::random_device()()};
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

// The weight stream under a budget: a ring, expert slots and pins, filled by reads that run ahead.
#include "residency/planned_stream.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "residency/expert_loader.h"
#include "residency/expert_runs.h"
#include "residency/expert_view.h"
#include "residency/io_channel.h"
#include "residency/read_ahead.h"
#include "residency/read_lanes.h"
#include "residency/tile_check.h"

namespace kimi_k3 {
namespace {

using Clock = std::chrono::steady_clock;

// Tiles that compute gets at once: the more, the less often threads wait for each other and the
// less often they fetch the activations of many rows.
constexpr uint64_t kMostRunBytes = uint64_t{4} << 20;
// Of the ring, in so many parts.
constexpr uint64_t kRunsOfRing = 4;

LandingShape ShapeOfLanding(const PassSchedule& schedule, const StreamShape& shape, size_t slots) {
  LandingShape landing = {shape.ring_bytes, ExpertSlotBytes(schedule), slots, {}};
  for (size_t i = 0; i < std::min(shape.pinned.size(), schedule.steps().size()); ++i) {
    const PassStep& step = schedule.steps()[i];
    if (shape.pinned[i] && step.kind != StepKind::kExperts) {
      landing.pin_bytes.push_back(PinBytes(step));
    }
  }
  return landing;
}

ExpertCacheShape ShapeOfCache(const Checkpoint& checkpoint, const StreamShape& shape) {
  const ModelConfig& config = checkpoint.config();
  return {config.moe_layers(), config.experts_present(), config.moe.experts_per_token,
          std::max<size_t>(1, shape.passing_slots), shape.cached_slots};
}

class BudgetedStream : public PlannedStream, private ReadClient {
 public:
  BudgetedStream(const Checkpoint& checkpoint, const StreamShape& shape, const IoOptions& options)
      : checkpoint_(&checkpoint),
        stop_(options.stop),
        schedule_(checkpoint, shape.tile_bytes),
        most_run_bytes_(std::min(kMostRunBytes, shape.ring_bytes / kRunsOfRing)),
        walk_(schedule_),
        channel_(OpenIoChannel(
            checkpoint, options,
            ShapeOfLanding(schedule_, shape, ExpertCache(ShapeOfCache(checkpoint, shape)).slots()),
            schedule_.largest_tile_bytes())),
        ahead_(schedule_, *channel_.landing, shape.pinned, options.prefetch_layers,
               channel_.drives),
        experts_(checkpoint, *channel_.landing, ShapeOfCache(checkpoint, shape), channel_.drives),
        lanes_(mutex_, *this, std::move(channel_.readers), channel_.drives.drives()) {
    if (shape.ring_bytes < schedule_.largest_tile_bytes() + 2 * kBlockBytes) {
      throw std::logic_error("weight stream: the ring cannot hold the largest tile");
    }
    const std::scoped_lock lock(mutex_);
    lanes_.Kick();
  }

  void BeginPass(bool with_head) override {
    std::unique_lock lock(mutex_);
    if (walk_.begun() ? !walk_.finished() : broken_) Restart(lock);
    broken_ = false;
    walk_.Begin(with_head);
    ahead_.BeginPass(with_head);
    lanes_.Kick();
  }

  void ForEachRun(MatrixId matrix, FunctionRef<void(std::span<const Tile>)> visit) override {
    const size_t index = walk_.ExpectMatrix(matrix);
    GiveUpOnThrow guard(*this);
    {
      const std::scoped_lock lock(mutex_);
      ahead_.Reached(index);
      lanes_.Kick();
    }
    if (ahead_.pinned(index)) {
      VisitPinned(index, visit);
    } else {
      VisitStreamed(index, visit);
    }
    Advance();
    guard.Dismiss();
  }

  void RequestExperts(size_t layer, std::span<const int32_t> experts) override {
    walk_.ExpectRequest(layer, experts, checkpoint_->config().moe.experts);
    size_t step = walk_.next();
    while (schedule_.steps()[step].kind != StepKind::kExperts) ++step;
    const std::scoped_lock lock(mutex_);
    expert_step_ = step;
    experts_.Request(layer, experts);
    lanes_.Kick();
  }

  void ForEachExpert(size_t layer, ExpertOrder order,
                     FunctionRef<void(int32_t, const ExpertWeights&)> visit) override {
    const size_t index = walk_.ExpectExperts(layer);
    GiveUpOnThrow guard(*this);
    std::unique_lock lock(mutex_);
    ahead_.Reached(index);
    while (experts_.left() > 0) {
      std::optional<ExpertLoader::Ready> ready;
      WaitFor(lock, [&] {
        ready = experts_.FindReady(order);
        if (experts_.has_reads()) lanes_.Kick();
        return ready.has_value();
      });
      ThrowIfFailed(experts_.transfer(ready->slot));
      lock.unlock();
      VisitExpert(layer, *ready, visit);
      lock.lock();
      experts_.Finish(*ready);
      lanes_.Kick();
    }
    Advance();
    guard.Dismiss();
  }

  void ReadEmbeddingRow(size_t token, std::span<float> out) override {
    const TensorLocation table = checkpoint_->Get(Role::kEmbedding);
    if (token >= table.rows || out.size() != table.columns) {
      throw std::logic_error("weight stream: an embedding row outside the table");
    }
    ThrowIfStopped();
    const uint64_t row_bytes = table.columns * DtypeBytes(table.dtype);
    std::vector<std::byte> row(row_bytes);
    const uint64_t fetched = channel_.ReadRange(
        *checkpoint_, {table.range.shard, table.range.offset + token * row_bytes, row_bytes}, row);
    WidenRow(table.dtype, row.data(), out);
    const std::scoped_lock lock(mutex_);
    bytes_.embedding_bytes += fetched;
    ++bytes_.read_calls;
  }

  std::vector<float> ReadVector(Role role, size_t layer) override {
    return checkpoint_->ReadVector(role, layer);
  }

  uint64_t resident_bytes() const override { return channel_.landing->resident_bytes(); }

  StreamStats ReadStats() const override {
    const std::scoped_lock lock(mutex_);
    StreamStats stats = bytes_;
    const LaneMeters meters = lanes_.meters();
    stats.read_calls += meters.read_calls;
    stats.expert_hits = experts_.hits();
    stats.expert_misses = experts_.misses();
    stats.reads_waited_seconds = meters.idle_seconds;
    stats.reads_busy_seconds = meters.busy_seconds;
    stats.depth_seconds = meters.depth_seconds;
    if (waiting_since_) {
      stats.compute_waited_seconds +=
          std::chrono::duration<double>(Clock::now() - *waiting_since_).count();
    }
    return stats;
  }

  const std::string& io_description() const override { return channel_.description; }

 private:
  // A call that throws half-way leaves the pass in no state to go on.
  class GiveUpOnThrow {
   public:
    explicit GiveUpOnThrow(BudgetedStream& stream) : stream_(&stream) {}
    ~GiveUpOnThrow() {
      if (stream_ == nullptr) return;
      stream_->walk_.GiveUp();
      stream_->broken_ = true;
    }
    GiveUpOnThrow(const GiveUpOnThrow&) = delete;
    GiveUpOnThrow& operator=(const GiveUpOnThrow&) = delete;
    void Dismiss() { stream_ = nullptr; }

   private:
    BudgetedStream* stream_;
  };

  // A step is done. Nothing of a pass is used unless the files were the same throughout.
  void Advance() {
    walk_.Advance();
    if (walk_.finished()) channel_.CheckUnchanged();
  }

  std::optional<ReadRequest> NextRead(size_t drive) override {
    if (restarting_) return std::nullopt;
    // In the order of need: what compute uses before the experts while there is room for it, the
    // experts, what comes after them.
    std::optional<ReadRequest> read;
    if (experts_.has_reads(drive)) read = ahead_.NextBefore(expert_step_, drive);
    if (!read) read = experts_.Next(drive);
    if (!read) read = ahead_.Next(drive);
    if (ahead_.TakeNews()) lanes_.Kick();
    return read;
  }

  void ReadDone(const ReadCompletion& completion) override {
    auto& transfer = *static_cast<Transfer*>(completion.tag);
    uint64_t& bytes = transfer.kind == Transfer::Kind::kTrunk    ? bytes_.trunk_bytes
                      : transfer.kind == Transfer::Kind::kExpert ? bytes_.expert_bytes
                                                                 : bytes_.head_bytes;
    bytes += completion.bytes;
    if (completion.failure) transfer.failure = completion.failure;
    if (--transfer.reads_left == 0) arrived_.notify_all();
    if (restarting_) arrived_.notify_all();
  }

  void LaneFailed(std::exception_ptr error) override {
    lane_error_ = std::move(error);
    arrived_.notify_all();
  }

  void ThrowIfStopped() const {
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
      Fail(ErrorKind::kInterrupted, "interrupted");
    }
  }

  void ThrowIfFailed(const Transfer& transfer) const {
    if (transfer.failure) {
      throw Error(ErrorKind::kIo, DescribeFailure(*transfer.failure, *checkpoint_));
    }
  }

  // Waits until `ready`, watching the stop flag. REQUIRES: lock held.
  template <typename Condition>
  void WaitFor(std::unique_lock<std::mutex>& lock, Condition ready) {
    ThrowIfStopped();
    if (ready()) return;
    waiting_since_ = Clock::now();
    const auto note = [this] {
      bytes_.compute_waited_seconds +=
          std::chrono::duration<double>(Clock::now() - *waiting_since_).count();
      waiting_since_.reset();
    };
    try {
      while (!arrived_.wait_for(lock, std::chrono::milliseconds(100),
                                [&] { return lane_error_ != nullptr || ready(); })) {
        ThrowIfStopped();
      }
      if (lane_error_ != nullptr) std::rethrow_exception(lane_error_);
    } catch (...) {
      note();
      throw;
    }
    note();
  }

  // Lets the reads in flight end and forgets what was read for the pass that was given up. No read
  // starts until that has succeeded.
  void Restart(std::unique_lock<std::mutex>& lock) {
    experts_.GiveUp();
    restarting_ = true;
    while (lanes_.in_flight() > 0 && lane_error_ == nullptr) {
      ThrowIfStopped();
      arrived_.wait_for(lock, std::chrono::milliseconds(100));
    }
    restarting_ = false;
    if (lane_error_ != nullptr) std::rethrow_exception(lane_error_);
    experts_.GiveUp();
    ahead_.Restart();
  }

  // Waits for this tile; then run_ is it and those behind it that have arrived as well, in so far
  // as they leave most of the ring to what is still to come. REQUIRES: lock held.
  void WaitForRun(std::unique_lock<std::mutex>& lock, size_t index, size_t tile) {
    const PassStep& step = schedule_.steps()[index];
    const ReadAhead::AheadTile* found = nullptr;
    const auto arrived = [&] {
      found = ahead_.FindTile(index, tile);
      return found != nullptr && found->transfer.done();
    };
    run_.clear();
    WaitFor(lock, arrived);
    uint64_t bytes = 0;
    do {
      // What lies behind a failed one is left to the next run.
      if (found->transfer.failure && !run_.empty()) return;
      ThrowIfFailed(found->transfer);
      run_.push_back(step.View(tile, found->data));
      bytes += found->bytes;
      ++tile;
    } while (tile < step.tiles() && arrived() && bytes + found->bytes <= most_run_bytes_);
  }

  void VisitStreamed(size_t index, FunctionRef<void(std::span<const Tile>)> visit) {
    const PassStep& step = schedule_.steps()[index];
    std::unique_lock lock(mutex_);
    for (size_t tile = 0; tile < step.tiles(); tile += run_.size()) {
      WaitForRun(lock, index, tile);
      lock.unlock();
      for (const Tile& view : run_) CheckTile(*checkpoint_, step, view);
      visit(run_);
      channel_.landing->CheckIntact(step.location.range.shard);
      lock.lock();
      for (size_t i = 0; i < run_.size(); ++i) ahead_.ReleaseOldestTile();
      lanes_.Kick();
    }
  }

  void VisitPinned(size_t index, FunctionRef<void(std::span<const Tile>)> visit) {
    const PassStep& step = schedule_.steps()[index];
    std::unique_lock lock(mutex_);
    ThrowIfStopped();
    if (ahead_.PinLoaded(index)) {
      lock.unlock();
      const Tile whole = step.ViewRows(0, step.location.rows, ahead_.PinData(index));
      visit({&whole, 1});
      channel_.landing->CheckIntact(step.location.range.shard);
      return;
    }
    size_t visited = 0;
    for (size_t chunk = 0; chunk < ahead_.PinChunks(index); ++chunk) {
      const Transfer* transfer = nullptr;
      WaitFor(lock, [&] {
        transfer = ahead_.FindPinChunk(index, chunk);
        return transfer != nullptr && transfer->done();
      });
      ThrowIfFailed(*transfer);
      const size_t rows = ahead_.PinRows(index, chunk + 1);
      if (rows == visited) continue;
      const std::byte* data = ahead_.PinData(index);
      lock.unlock();
      const Tile view = step.ViewRows(visited, rows - visited, data + visited * step.row_bytes());
      CheckTile(*checkpoint_, step, view);
      visit({&view, 1});
      channel_.landing->CheckIntact(step.location.range.shard);
      lock.lock();
      visited = rows;
    }
    ahead_.SetPinLoaded(index);
  }

  void VisitExpert(size_t layer, const ExpertLoader::Ready& ready,
                   FunctionRef<void(int32_t, const ExpertWeights&)> visit) {
    const int32_t expert = experts_.expert(ready.position);
    const auto id = static_cast<size_t>(expert);
    const ExpertLocation location = checkpoint_->Expert(layer, id);
    const ExpertWeights weights =
        ViewExpert(*checkpoint_, layer, id, location,
                   [&](const ByteRange& range) { return experts_.At(ready.slot, range); });
    visit(expert, weights);
    for (const ExpertMatrixLocation* m : {&location.gate, &location.up, &location.down}) {
      channel_.landing->CheckIntact(m->weights.shard);
      channel_.landing->CheckIntact(m->scales.shard);
    }
  }

  const Checkpoint* checkpoint_;
  const std::atomic<bool>* stop_;
  PassSchedule schedule_;
  uint64_t most_run_bytes_;
  std::vector<Tile> run_;  // in use by compute
  Walk walk_;
  bool broken_ = false;
  mutable std::mutex mutex_;  // protects everything below but the channel's files
  std::condition_variable arrived_;
  IoChannel channel_;
  ReadAhead ahead_;
  ExpertLoader experts_;
  size_t expert_step_ = 0;  // of the experts last requested
  StreamStats bytes_;
  std::optional<Clock::time_point> waiting_since_;
  bool restarting_ = false;
  std::exception_ptr lane_error_;
  ReadLanes lanes_;  // last: its threads end before what they use
};

}  // namespace

uint64_t ExpertSlotBytes(const PassSchedule& schedule) {
  return schedule.expert_bytes() == 0 ? 0 : ExpertRuns::MostSlotBytes(schedule.expert_bytes());
}

uint64_t PinBytes(const PassStep& step) { return BlocksOf(step.location.range).bytes; }

uint64_t StreamResidentBytes(const Checkpoint& checkpoint, const PassSchedule& schedule,
                             const StreamShape& shape) {
  const LandingShape landing =
      ShapeOfLanding(schedule, shape, ExpertCache(ShapeOfCache(checkpoint, shape)).slots());
  uint64_t bytes = landing.ring_bytes + landing.slot_bytes * landing.slots;
  for (const uint64_t pin : landing.pin_bytes) bytes += pin;
  return bytes;
}

std::unique_ptr<PlannedStream> MakePlannedStream(const Checkpoint& checkpoint,
                                                 const StreamShape& shape,
                                                 const IoOptions& options) {
  return std::make_unique<BudgetedStream>(checkpoint, shape, options);
}

}  // namespace kimi_k3

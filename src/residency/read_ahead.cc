// The part of a planned stream that runs ahead of compute in the order of the walk.
#include "residency/read_ahead.h"

#include <algorithm>
#include <utility>

namespace kimi_k3 {
namespace {

// Pinned matrices are fetched in reads of this size.
constexpr uint64_t kPinChunkBytes = uint64_t{2} << 20;

// What has landed is best multiplied while the last-level cache of most processors still holds it,
// beside one expert.
constexpr uint64_t kWarmBytes = uint64_t{16} << 20;

Transfer::Kind KindOf(const PassStep& step) {
  return step.kind == StepKind::kHead ? Transfer::Kind::kHead : Transfer::Kind::kTrunk;
}

}  // namespace

ReadAhead::ReadAhead(const PassSchedule& schedule, Landing& landing, std::vector<bool> pinned,
                     std::optional<size_t> layers_ahead, DriveMap drives)
    : schedule_(&schedule),
      landing_(&landing),
      layers_ahead_(layers_ahead),
      drives_(std::move(drives)),
      queues_(drives_.drives()) {
  pinned.resize(schedule.steps().size());
  pins_.resize(schedule.steps().size());
  const size_t head_drive = drives_.Of(schedule.steps().back().location.range.shard);
  size_t index = 0;
  for (size_t i = 0; i < pins_.size(); ++i) {
    const PassStep& step = schedule.steps()[i];
    if (step.kind == StepKind::kExperts) continue;
    spread_ = spread_ || drives_.Of(step.location.range.shard) != head_drive;
    if (!pinned[i]) continue;
    Pin& pin = pins_[i];
    pin.is_pin = true;
    pin.index = index++;
    pin.blocks = BlocksOf(step.location.range);
    pin.chunks = static_cast<size_t>((pin.blocks.bytes + kPinChunkBytes - 1) / kPinChunkBytes);
  }
}

void ReadAhead::BeginPass(bool with_head) {
  ++pass_;
  if (next_pass_ < pass_) {  // the head of the pass before was never wanted
    next_pass_ = pass_;
    next_step_ = 0;
    next_tile_ = 0;
  }
  with_head_ = with_head;
  reached_ = 0;
}

void ReadAhead::Restart() {
  while (!tiles_.empty()) ReleaseOldestTile();
  for (std::deque<Queued>& queue : queues_) queue.clear();
  for (Pin& pin : pins_) {
    pin.queued = false;
    if (pin.loaded) continue;
    // Chunks that came stay; the first that did not, and what follows, are read again.
    const auto begin = pin.transfers.begin();
    const auto failed = std::find_if(begin, begin + static_cast<std::ptrdiff_t>(pin.asked),
                                     [](const Transfer& t) { return t.failure.has_value(); });
    pin.asked = static_cast<size_t>(failed - begin);
  }
  next_pass_ = pass_ + 1;
  next_step_ = 0;
  next_tile_ = 0;
}

bool ReadAhead::BeyondLimit() const {
  if (!layers_ahead_) return false;
  const auto steps = schedule_->steps();
  // The head counts as the layer after the last; a pass is that many layers long.
  const size_t pass_layers = schedule_->layers() + 1;
  const size_t here = std::min(reached_, steps.size() - 1);
  const uint64_t at = std::max<uint64_t>(pass_, 1) * pass_layers + steps[here].layer;
  return next_pass_ * pass_layers + steps[next_step_].layer > at + *layers_ahead_;
}

std::optional<ReadRequest> ReadAhead::Take(size_t drive, std::optional<size_t> before) {
  const auto in_time = [&](uint64_t pass, size_t step) {
    return !before || (pass == pass_ && step < *before);
  };
  std::deque<Queued>& queue = queues_[drive];
  while (queue.empty()) {
    if (!SkipToWork() || BeyondLimit() || !in_time(next_pass_, next_step_) || !Place()) {
      return std::nullopt;
    }
    news_ = news_ || queue.empty();
  }
  if (!in_time(queue.front().pass, queue.front().step)) return std::nullopt;
  return TakeFirst(queue);
}

ReadRequest ReadAhead::TakeFirst(std::deque<Queued>& queue) {
  const Queued& first = queue.front();
  if (first.tile) {
    const ReadRequest read = *first.tile;
    queue.pop_front();
    return read;
  }
  Pin& pin = pins_[first.step];
  const ReadRequest read = NextPinChunk(schedule_->steps()[first.step], pin);
  if (pin.asked == pin.chunks) {
    pin.queued = false;
    queue.pop_front();
  }
  return read;
}

// Moves on to the step that is queued next; false where there is none that is known to come.
bool ReadAhead::SkipToWork() {
  const auto steps = schedule_->steps();
  for (;;) {
    if (next_step_ == steps.size()) {
      ++next_pass_;
      next_step_ = 0;
      next_tile_ = 0;
    }
    if (next_pass_ > pass_ + 1) return false;
    const PassStep& step = steps[next_step_];
    const Pin& pin = pins_[next_step_];
    if (step.kind == StepKind::kHead) {
      if (next_pass_ > pass_) return false;  // not known yet whether it comes
      if (!with_head_) {
        next_step_ = steps.size();
        continue;
      }
    }
    const bool finished =
        step.kind == StepKind::kExperts ||
        (pin.is_pin ? pin.queued || pin.asked == pin.chunks : next_tile_ == step.tiles());
    if (!finished) return true;
    ++next_step_;
    next_tile_ = 0;
  }
}

ReadRequest ReadAhead::NextPinChunk(const PassStep& step, Pin& pin) {
  const ByteRange& range = step.location.range;
  if (pin.landed == nullptr) {
    pin.landed = landing_->PlacePin(pin.index, pin.blocks);
    pin.data = pin.landed + (range.offset - pin.blocks.offset);
    pin.transfers.resize(pin.chunks);
  }
  const uint64_t begin = pin.asked * kPinChunkBytes;
  const uint64_t bytes = std::min(kPinChunkBytes, pin.blocks.bytes - begin);
  const uint64_t offset = pin.blocks.offset + begin;
  const uint64_t needed = std::min(bytes, range.offset + range.bytes - offset);
  Transfer& transfer = pin.transfers[pin.asked++];
  transfer = {KindOf(step), 1, std::nullopt};
  return ReadRequest{&transfer, range.shard, offset, pin.landed + begin, bytes, needed};
}

bool ReadAhead::ComputeIsElsewhere() const {
  const auto steps = schedule_->steps();
  return reached_ < steps.size() &&
         (steps[reached_].kind == StepKind::kExperts || pins_[reached_].is_pin);
}

bool ReadAhead::Place() {
  const PassStep& step = schedule_->steps()[next_step_];
  std::deque<Queued>& queue = queues_[drives_.Of(step.location.range.shard)];
  Pin& pin = pins_[next_step_];
  if (!pin.is_pin) return PlaceTile(step, queue);
  pin.queued = true;
  queue.push_back({next_pass_, next_step_, std::nullopt});
  return true;
}

bool ReadAhead::PlaceTile(const PassStep& step, std::deque<Queued>& queue) {
  const ByteRange range = step.RangeOf(next_tile_);
  const ByteRange blocks = BlocksOf(range);
  // Several drives at once are worth more than a warm cache.
  const bool cold = !spread_ && !tiles_.empty() && tile_bytes_ + blocks.bytes > kWarmBytes;
  if (cold && !ComputeIsElsewhere()) return false;
  std::byte* place = landing_->PlaceTile(blocks);
  if (place == nullptr) return false;
  const uint64_t lead = range.offset - blocks.offset;
  AheadTile& ahead = tiles_.emplace_back(AheadTile{
      next_step_, next_tile_, place + lead, blocks.bytes, {KindOf(step), 1, std::nullopt}});
  tile_bytes_ += blocks.bytes;
  ++next_tile_;
  queue.push_back({next_pass_, next_step_,
                   ReadRequest{&ahead.transfer, range.shard, blocks.offset, place, blocks.bytes,
                               lead + range.bytes}});
  return true;
}

const ReadAhead::AheadTile* ReadAhead::FindTile(size_t step, size_t tile) const {
  if (tiles_.empty() || tiles_.front().step != step) return nullptr;
  const size_t later = tile - tiles_.front().tile;
  return later < tiles_.size() && tiles_[later].step == step ? &tiles_[later] : nullptr;
}

void ReadAhead::ReleaseOldestTile() {
  landing_->ReleaseOldestTile();
  tile_bytes_ -= tiles_.front().bytes;
  tiles_.pop_front();
}

const Transfer* ReadAhead::FindPinChunk(size_t step, size_t chunk) const {
  const Pin& pin = pins_[step];
  return chunk < pin.asked ? &pin.transfers[chunk] : nullptr;
}

size_t ReadAhead::PinRows(size_t step, size_t count) const {
  const Pin& pin = pins_[step];
  const PassStep& s = schedule_->steps()[step];
  if (count == pin.chunks) return s.location.rows;
  const uint64_t lead = s.location.range.offset - pin.blocks.offset;
  const uint64_t bytes = count * kPinChunkBytes;
  const uint64_t rows = bytes <= lead ? 0 : (bytes - lead) / s.row_bytes();
  return static_cast<size_t>(rows) / s.row_granule * s.row_granule;
}

void ReadAhead::SetPinLoaded(size_t step) {
  pins_[step].loaded = true;
  pins_[step].transfers = {};
}

}  // namespace kimi_k3

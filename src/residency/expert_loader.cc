// The part of a planned stream that brings requested experts into slots.
#include "residency/expert_loader.h"

#include <algorithm>
#include <utility>

namespace kimi_k3 {
namespace {

// An expert is fetched in reads of at most this size, so that several are in flight for one.
constexpr uint64_t kReadBytes = uint64_t{4} << 20;

}  // namespace

ExpertLoader::ExpertLoader(const Checkpoint& checkpoint, Landing& landing,
                           const ExpertCacheShape& shape, DriveMap drives)
    : checkpoint_(&checkpoint),
      landing_(&landing),
      cache_(shape),
      slots_(cache_.slots()),
      drives_(std::move(drives)),
      reads_(drives_.drives()) {
  const ModelConfig& config = checkpoint.config();
  size_t moe_layers = 0;
  for (size_t layer = 0; layer < config.layers; ++layer) {
    moe_index_.push_back(moe_layers);
    if (config.part.layers.Has(layer) && !config.IsDense(layer)) ++moe_layers;
  }
}

void ExpertLoader::Request(size_t layer, std::span<const int32_t> experts) {
  layer_ = layer;
  wanted_.clear();
  left_ = experts.size();
  first_unplaced_ = 0;
  for (const int32_t expert : experts) {
    Wanted wanted = {expert, cache_.Find(moe_index_[layer], static_cast<size_t>(expert)), false};
    if (wanted.slot) {
      cache_.Claim(*wanted.slot);
      ++hits_;
    }
    wanted_.push_back(wanted);
  }
  TakeSlots();
}

void ExpertLoader::GiveUp() {
  for (std::deque<ReadRequest>& reads : reads_) {
    for (const ReadRequest& read : reads) {  // never started: their experts are not coming
      auto* transfer = static_cast<Transfer*>(read.tag);
      --transfer->reads_left;
      transfer->failure = ReadFailure{read.shard, read.offset, 0};
    }
    reads.clear();
  }
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].transfer.failure) {
      cache_.Empty(slot);
    } else if (cache_.claimed(slot)) {
      cache_.Release(slot);
    }
  }
  wanted_.clear();
  left_ = 0;
}

void ExpertLoader::TakeSlots() {
  for (size_t i = first_unplaced_; i < wanted_.size(); ++i) {
    Wanted& wanted = wanted_[i];
    if (!wanted.slot) {
      const auto expert = static_cast<size_t>(wanted.expert);
      wanted.slot = cache_.Take(moe_index_[layer_], expert);
      if (!wanted.slot) return;
      ++misses_;
      Load(*wanted.slot, expert);
    }
    first_unplaced_ = i + 1;
  }
}

void ExpertLoader::Load(size_t index, size_t expert) {
  landing_->ReleaseSlot(index);
  Slot& slot = slots_[index];
  slot.runs.emplace(checkpoint_->Expert(layer_, expert));
  slot.places.clear();
  slot.checked = false;
  slot.transfer = {Transfer::Kind::kExpert, 0, std::nullopt};
  for (const ExpertRun& run : slot.runs->runs()) {
    std::byte* place = landing_->PlaceInSlot(index, run.slot_offset, run.blocks);
    slot.places.push_back(place);
    std::deque<ReadRequest>& reads = reads_[drives_.Of(run.blocks.shard)];
    for (uint64_t done = 0; done < run.blocks.bytes; done += kReadBytes) {
      const uint64_t bytes = std::min(kReadBytes, run.blocks.bytes - done);
      const uint64_t offset = run.blocks.offset + done;
      reads.push_back({&slot.transfer, run.blocks.shard, offset, place + done, bytes,
                       std::min(bytes, run.needed_end - offset)});
      ++slot.transfer.reads_left;
    }
  }
}

bool ExpertLoader::has_reads() const {
  return std::any_of(reads_.begin(), reads_.end(),
                     [](const auto& reads) { return !reads.empty(); });
}

std::optional<ReadRequest> ExpertLoader::Next(size_t drive) {
  std::deque<ReadRequest>& reads = reads_[drive];
  if (reads.empty()) return std::nullopt;
  const ReadRequest read = reads.front();
  reads.pop_front();
  return read;
}

std::optional<ExpertLoader::Ready> ExpertLoader::FindReady(ExpertOrder order) {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const Wanted& wanted = wanted_[i];
    if (wanted.finished) continue;
    if (!wanted.slot && order == ExpertOrder::kAscending && Evict(i)) TakeSlots();
    if (wanted.slot && slots_[*wanted.slot].transfer.done()) return Ready{i, *wanted.slot};
    if (order == ExpertOrder::kAscending) return std::nullopt;
  }
  return std::nullopt;
}

bool ExpertLoader::Evict(size_t from_position) {
  for (size_t i = wanted_.size(); i-- > from_position + 1;) {
    Wanted& wanted = wanted_[i];
    if (!wanted.slot || !slots_[*wanted.slot].transfer.done()) continue;
    cache_.Empty(*wanted.slot);
    wanted.slot.reset();
    --hits_;  // it was one, and now must be read after all
    return true;
  }
  return false;
}

const std::byte* ExpertLoader::At(size_t index, const ByteRange& range) const {
  const Slot& slot = slots_[index];
  const uint64_t offset = slot.runs->OffsetOf(range);
  size_t run = slot.places.size() - 1;
  while (slot.runs->runs()[run].slot_offset > offset) --run;
  return slot.places[run] + (offset - slot.runs->runs()[run].slot_offset);
}

void ExpertLoader::Finish(const Ready& ready) {
  wanted_[ready.position].finished = true;
  --left_;
  cache_.Release(ready.slot);
  TakeSlots();
}

}  // namespace kimi_k3

// The part of a planned stream that brings requested experts into slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "residency/drive_map.h"
#include "residency/expert_cache.h"
#include "residency/expert_runs.h"
#include "residency/landing.h"
#include "residency/read_ahead.h"
#include "residency/reader.h"
#include "residency/weight_stream.h"

namespace kimi_k3 {

// Experts of one layer at a time: those in slots are hits, the others are read as slots come free,
// in ascending order. Knows nothing of threads: the stream's mutex protects it.
class ExpertLoader {
 public:
  // What compute can have next.
  struct Ready {
    size_t position;  // in the request
    size_t slot;
  };

  // The references must outlive it.
  ExpertLoader(const Checkpoint& checkpoint, Landing& landing, const ExpertCacheShape& shape,
               DriveMap drives = {});

  // Begins a layer. REQUIRES: the request before was finished or given up.
  void Request(size_t layer, std::span<const int32_t> experts);
  // Forgets the request; reads in flight go on.
  void GiveUp();

  // The next read of this drive, or nothing.
  std::optional<ReadRequest> Next(size_t drive);
  bool has_reads(size_t drive) const { return !reads_[drive].empty(); }
  bool has_reads() const;

  size_t left() const { return left_; }
  int32_t expert(size_t position) const { return wanted_[position].expert; }
  // An expert that is in memory, or whose reads failed. kAscending: only the first that is left,
  // for which another gives up its slot if there is no other way.
  std::optional<Ready> FindReady(ExpertOrder order);
  const Transfer& transfer(size_t slot) const { return slots_[slot].transfer; }
  // The scales of what is in the slot were looked at.
  bool checked(size_t slot) const { return slots_[slot].checked; }
  void SetChecked(size_t slot) { slots_[slot].checked = true; }
  // Where a range of the expert in the slot lies.
  const std::byte* At(size_t slot, const ByteRange& range) const;
  // Compute is through with it.
  void Finish(const Ready& ready);

  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }

 private:
  struct Wanted {
    int32_t expert = 0;
    std::optional<size_t> slot;
    bool finished = false;
  };
  struct Slot {
    Transfer transfer = {Transfer::Kind::kExpert, 0, std::nullopt};
    bool checked = false;
    std::optional<ExpertRuns> runs;
    std::vector<std::byte*> places;  // by run
  };
  void TakeSlots();
  void Load(size_t slot, size_t expert);
  bool Evict(size_t from_position);

  const Checkpoint* checkpoint_;
  Landing* landing_;
  ExpertCache cache_;
  std::vector<size_t> moe_index_;  // by layer
  std::deque<Slot> slots_;
  DriveMap drives_;
  std::vector<std::deque<ReadRequest>> reads_;  // by drive
  size_t layer_ = 0;
  std::vector<Wanted> wanted_;
  size_t left_ = 0;
  size_t first_unplaced_ = 0;  // all before it have a slot
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
};

}  // namespace kimi_k3

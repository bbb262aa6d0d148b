// The part of a planned stream that runs ahead of compute in the order of the walk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "residency/drive_map.h"
#include "residency/landing.h"
#include "residency/pass_schedule.h"
#include "residency/reader.h"

namespace kimi_k3 {

// A destination that one or more reads fill. Lives at a fixed address while reads are in flight,
// which carry it as their tag.
struct Transfer {
  enum class Kind : uint8_t { kTrunk, kHead, kExpert };
  Kind kind = Kind::kTrunk;
  size_t reads_left = 0;
  std::optional<ReadFailure> failure;
  bool done() const { return reads_left == 0; }
};

// Decides which tile is read next and where it lands. Room in the ring is taken in the order of the
// walk; what has room waits in a queue for each drive, so that every drive that the ring reaches is
// read at once. Knows nothing of threads: the stream's mutex protects it.
class ReadAhead {
 public:
  // pinned: by step. layers_ahead: limit beyond the layer in use. Both references must outlive it.
  ReadAhead(const PassSchedule& schedule, Landing& landing, std::vector<bool> pinned,
            std::optional<size_t> layers_ahead, DriveMap drives = {});

  // The next read of this drive, or nothing while there is no room or it is unknown whether the
  // head comes.
  std::optional<ReadRequest> Next(size_t drive) { return Take(drive, std::nullopt); }
  // Next, if it is for a step of the pass in progress that comes before `step`.
  std::optional<ReadRequest> NextBefore(size_t step, size_t drive) { return Take(drive, step); }
  // Whether another drive than was asked for has got something to read since this was last called.
  bool TakeNews() { return std::exchange(news_, false); }

  // Compute begins a pass. Passes follow one another without a break unless Restart was called.
  void BeginPass(bool with_head);
  // Compute is at this step; read-ahead may reach layers_ahead beyond its layer.
  void Reached(size_t step) { reached_ = step; }

  // Compute skipped or gave up the rest of the pass: forgets all that was read ahead; the next
  // read is the first of the walk. REQUIRES: none of its reads in flight.
  void Restart();

  bool pinned(size_t step) const { return !pins_.empty() && pins_[step].is_pin; }

  // A tile in the ring. `data` may be read once the transfer is done.
  struct AheadTile {
    size_t step;
    size_t tile;
    const std::byte* data;
    uint64_t bytes;  // that it takes of the ring
    Transfer transfer;
  };
  // Tile `tile` of this step, null if it was not asked for yet. REQUIRES: neither it nor one that
  // comes after it was released. Valid until it is.
  const AheadTile* FindTile(size_t step, size_t tile) const;
  void ReleaseOldestTile();

  // A pinned step. Loaded: all of it is in memory.
  bool PinLoaded(size_t step) const { return pins_[step].loaded; }
  const std::byte* PinData(size_t step) const { return pins_[step].data; }
  size_t PinChunks(size_t step) const { return pins_[step].chunks; }
  // The transfer of a chunk, null if it was not asked for yet.
  const Transfer* FindPinChunk(size_t step, size_t chunk) const;
  // Rows that are whole once chunks [0, count) have come, in granules but for the last row.
  size_t PinRows(size_t step, size_t count) const;
  // REQUIRES: every chunk done without failure.
  void SetPinLoaded(size_t step);

 private:
  struct Pin {
    bool is_pin = false;
    bool loaded = false;
    bool queued = false;  // what was not asked for yet waits in its drive's queue
    size_t index = 0;     // among the landing's pins
    size_t chunks = 0;
    size_t asked = 0;  // chunks asked for
    ByteRange blocks;
    std::byte* landed = nullptr;
    const std::byte* data = nullptr;
    std::vector<Transfer> transfers;  // by chunk, from the first read until loaded
  };

  // Waits for its drive: a tile that has its place, or what is left of a pin.
  struct Queued {
    uint64_t pass;
    size_t step;
    std::optional<ReadRequest> tile;
  };

  // before: only what the pass in progress uses before this step.
  std::optional<ReadRequest> Take(size_t drive, std::optional<size_t> before);
  ReadRequest TakeFirst(std::deque<Queued>& queue);
  bool SkipToWork();
  bool BeyondLimit() const;
  // Compute is in a step that takes nothing from the ring: all of it may fill meanwhile.
  bool ComputeIsElsewhere() const;
  // Queues the next pin or tile of the walk; false while there is no room.
  bool Place();
  bool PlaceTile(const PassStep& step, std::deque<Queued>& queue);
  ReadRequest NextPinChunk(const PassStep& step, Pin& pin);

  const PassSchedule* schedule_;
  Landing* landing_;
  std::optional<size_t> layers_ahead_;
  DriveMap drives_;
  bool spread_ = false;                     // the matrices of the walk lie on several drives
  std::vector<Pin> pins_;                   // by step
  std::vector<std::deque<Queued>> queues_;  // by drive
  bool news_ = false;
  std::deque<AheadTile> tiles_;
  uint64_t tile_bytes_ = 0;  // of all of them
  // Passes are counted; `pass_` is the one compute has begun, 0 before the first.
  uint64_t pass_ = 0;
  bool with_head_ = false;
  size_t reached_ = 0;
  // What is queued next.
  uint64_t next_pass_ = 1;
  size_t next_step_ = 0;
  size_t next_tile_ = 0;
};

}  // namespace kimi_k3

// What will be in memory: everything large is accounted here before the first weight is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "residency/drive_map.h"
#include "residency/stream_options.h"

namespace kimi_k3 {

// What a plan is to provide for.
struct PlanRequest {
  uint64_t budget_bytes = 0;
  // What the process holds when the plan is made: code, libraries, tensor table, tokenizer.
  uint64_t process_bytes = 0;
  size_t context = 2048;
  size_t sequences = 1;         // that exist at once
  uint64_t sequence_bytes = 0;  // state and full latent cache of one
  // Of a sequence whose state lives on disk; 0: all live in memory.
  uint64_t moved_sequence_bytes = 0;
  std::optional<size_t> sequences_in_memory = {};    // beside those; unset: as many as have room
  size_t chunk_rows = 64;                            // rows that a pass of a prompt should have
  size_t most_chunk_rows = 0;                        // more than those, where they pay
  size_t logit_rows = 1;                             // rows of logits that exist at once
  std::function<uint64_t(size_t)> activation_bytes;  // of a pass of so many rows
  std::optional<uint64_t> expert_cache_bytes;        // unset: what is left after the pins
  uint64_t session_bytes = 0;                        // for saving and loading sessions
  DriveMap drives = {};                              // that the shards lie on
};

struct PlanItem {
  std::string name;
  uint64_t bytes = 0;
  std::string detail;
};

struct MemoryPlan {
  uint64_t budget_bytes = 0;
  uint64_t smallest_bytes = 0;  // the least budget that would do
  StreamShape stream;
  size_t chunk_rows = 1;
  size_t sequences_in_memory = 1;
  bool drives_together = false;  // the ring reaches far enough to read all drives at once
  std::vector<PlanItem> items;
  uint64_t total_bytes = 0;  // of all items; at most budget_bytes

  // What one token reads from the drives, cached experts counted as read.
  uint64_t trunk_bytes_per_token = 0;
  uint64_t head_bytes_per_token = 0;
  uint64_t expert_bytes_per_token = 0;
  uint64_t embedding_bytes_per_token = 0;
  uint64_t bytes_per_token() const {
    return trunk_bytes_per_token + head_bytes_per_token + expert_bytes_per_token +
           embedding_bytes_per_token;
  }
  // What one token multiplies with, resident or not.
  uint64_t weights_per_token = 0;
  uint64_t expert_weights_per_token = 0;  // of which routed experts
};

// Spends the budget in this order: what must be; the prompt chunk up to a few rows; the ring;
// expert slots to the number of experts per token; the prompt chunk to chunk_rows; states that need
// not be on disk, which would cost more than their own size in each pass; where the walk
// changes from drive to drive, a ring that reaches the next; pinned matrices, spread evenly over
// the walk; cached experts. Of numbers of rows between chunk_rows and most_chunk_rows it takes the
// one with which a text of four prompt tokens for each of the answer reads least: a longer chunk
// reads the weights less often for a long prompt, and takes memory from the pins. Throws
// Error(kBudget) that names the smallest budget that would do where this one does not.
MemoryPlan MakeMemoryPlan(const Checkpoint& checkpoint, const PlanRequest& request);

// The plan as lines of a table, and as JSON (docs/streaming.md).
std::string FormatPlan(const MemoryPlan& plan);
nlohmann::ordered_json PlanToJson(const MemoryPlan& plan);

// Bytes that one pass of `rows` rows reads: experts that several rows share are read once. Assumes
// that routing is flat and independent, as it nearly is.
uint64_t BytesOfPass(const Checkpoint& checkpoint, const MemoryPlan& plan, size_t rows,
                     bool with_head);

// Experts that `rows` rows choose in a layer, each counted once, in terms of those that one
// chooses; the model has some. Assumes the same.
double DistinctExperts(const Checkpoint& checkpoint, size_t rows);

}  // namespace kimi_k3

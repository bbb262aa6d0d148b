// What will be in memory: everything large is accounted here before the first weight is read.
#include "residency/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/byte_size.h"
#include "base/error.h"
#include "residency/pass_schedule.h"
#include "residency/planned_stream.h"
#include "residency/reader.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;
constexpr uint64_t kTileBytes = kMegabyte;
// Fits the last-level cache of most processors beside one expert, and keeps a fast drive busy while
// compute takes tiles from it.
constexpr uint64_t kRingBytes = 16 * kMegabyte;
// Keeps a fast drive busy while compute is with experts or pinned matrices.
constexpr uint64_t kFullRingBytes = 64 * kMegabyte;
constexpr uint64_t kLeastRingBytes = 4 * kMegabyte;
constexpr size_t kLeastSlots = 4;
constexpr size_t kFullSlots = 16;
// Of what is left for pins, the part that may go into reading several drives at once.
constexpr uint64_t kDriveShare = 3;
// Rows that a short prompt needs to go through in one pass.
constexpr size_t kShortPromptRows = 8;
// Tokens of prompts for each of an answer, where memory is weighed between the two.
constexpr double kPromptTokensPerAnswerToken = 4;
// Stacks, code not yet touched, allocator slack and what reading holds besides the ring.
constexpr uint64_t kAllowanceBytes = 12 * kMegabyte;

// Small vectors, widened to f32. An attention residual's norm and projection are kept as one.
uint64_t VectorBytes(const ModelConfig& config) {
  uint64_t floats = 0;
  const auto add = [&](std::optional<size_t> layer) {
    for (const TensorSpec& spec : TensorSpecs(config, layer)) {
      const bool folded = spec.role == Role::kAttentionResProj || spec.role == Role::kMlpResProj ||
                          spec.role == Role::kOutputResProj;
      if (spec.kind == TensorKind::kVector && !folded) floats += spec.rows * spec.columns;
    }
  };
  add(std::nullopt);
  for (size_t layer = config.first_layer(); layer < config.end_layer(); ++layer) add(layer);
  return floats * sizeof(float);
}

std::string Rows(const char* before, size_t count) {
  return fmt::format("{}{} row{}", before, count, count == 1 ? "" : "s");
}

// One plan in the making: what is spent so far, and what more could be bought.
class Planner {
 public:
  Planner(const Checkpoint& checkpoint, const PlanRequest& request)
      : config_(checkpoint.config()),
        request_(request),
        schedule_(checkpoint, kTileBytes),
        slot_bytes_(ExpertSlotBytes(schedule_)),
        moe_layers_(config_.moe_layers()),
        experts_(moe_layers_ * config_.experts_present()) {
    plan_.budget_bytes = request.budget_bytes;
    plan_.stream.tile_bytes = kTileBytes;
    fixed_bytes_ = request.process_bytes + kAllowanceBytes + VectorBytes(config_) +
                   request.logit_rows * config_.vocabulary * sizeof(float) + request.session_bytes;
  }

  MemoryPlan Make() {
    MoveStates();
    TakeTheLeast();
    plan_.chunk_rows = MostRows(std::min(request_.chunk_rows, kShortPromptRows));
    GrowRing(kRingBytes);
    if (moe_layers_ > 0) {
      const size_t full = std::max(plan_.stream.passing_slots, std::min(kFullSlots, experts_));
      plan_.stream.passing_slots =
          std::min<size_t>(full, plan_.stream.passing_slots + Left() / slot_bytes_);
    }
    plan_.chunk_rows = MostRows(std::max(plan_.chunk_rows, request_.chunk_rows));
    KeepStates();
    // A matrix that stays saves more than a larger ring where everything fits.
    if (Left() < schedule_.trunk_bytes() + schedule_.head_bytes()) GrowRing(kFullRingBytes);
    if (request_.expert_cache_bytes) CacheExperts(*request_.expert_cache_bytes);
    ReachOtherDrives();
    Pin();
    if (!request_.expert_cache_bytes) CacheExperts(Left());
    ListItems();
    CountReads();
    return plan_;
  }

 private:
  uint64_t SlotBytes() const {
    return slot_bytes_ * (plan_.stream.passing_slots + plan_.stream.cached_slots);
  }
  uint64_t StateBytes() const {
    return plan_.sequences_in_memory * request_.sequence_bytes +
           moved() * request_.moved_sequence_bytes;
  }
  size_t moved() const { return request_.sequences - plan_.sequences_in_memory; }
  uint64_t Spent() const {
    return fixed_bytes_ + StateBytes() + request_.activation_bytes(plan_.chunk_rows) +
           plan_.stream.ring_bytes + SlotBytes() + pinned_bytes_;
  }
  uint64_t Left() const {
    const uint64_t spent = Spent();
    return plan_.budget_bytes > spent ? plan_.budget_bytes - spent : 0;
  }

  // A ring never needs more than all that streams, and never less than the largest tile.
  uint64_t RingOf(uint64_t wanted) const {
    const uint64_t all = BlockCeil(schedule_.trunk_bytes() + schedule_.head_bytes());
    const uint64_t least = BlockCeil(schedule_.largest_tile_bytes()) + 2 * kBlockBytes;
    return std::max(least, std::min(wanted, all));
  }

  // All states that may be on disk and take less memory so.
  void MoveStates() {
    const bool may_move = request_.moved_sequence_bytes > 0;
    const bool pays = request_.sequence_bytes > request_.moved_sequence_bytes;
    const size_t kept = request_.sequences_in_memory.value_or(pays ? 0 : request_.sequences);
    plan_.sequences_in_memory = may_move ? std::min(kept, request_.sequences) : request_.sequences;
  }

  void KeepStates() {
    if (request_.sequences_in_memory || moved() == 0) return;
    const uint64_t each = request_.sequence_bytes - request_.moved_sequence_bytes;
    plan_.sequences_in_memory += std::min<uint64_t>(moved(), Left() / each);
  }

  void TakeTheLeast() {
    plan_.chunk_rows = 1;
    plan_.stream.ring_bytes = RingOf(kLeastRingBytes);
    plan_.stream.passing_slots =
        moe_layers_ == 0 ? 1 : std::min(kLeastSlots, config_.experts_present());
    plan_.smallest_bytes = Spent();
    if (plan_.smallest_bytes <= plan_.budget_bytes) return;
    // Named with a megabyte to spare: the process may hold a little more next time.
    Fail(ErrorKind::kBudget,
         "a budget of {} is too small: {} sequence{} of {} positions of this model need {} "
         "(--memory {}M), of which {} are the state and cache; a shorter context (-c) needs less, "
         "and "
         "so does --kv-cache-quant",
         FormatByteSize(plan_.budget_bytes), request_.sequences, request_.sequences == 1 ? "" : "s",
         request_.context, FormatByteSize(plan_.smallest_bytes), plan_.smallest_bytes / 1000000 + 2,
         FormatByteSize(StateBytes()));
  }

  void GrowRing(uint64_t wanted) {
    const uint64_t most = plan_.stream.ring_bytes + BlockFloor(Left());
    plan_.stream.ring_bytes = std::max(plan_.stream.ring_bytes, std::min(RingOf(wanted), most));
  }

  // Where the walk changes between drives, grows the ring so far that while compute waits for one
  // drive there is room for what comes next from each other one. Such a ring spares the waiting for
  // its bytes at every change, a pin its bytes once a pass.
  void ReachOtherDrives() {
    uint64_t all = 0;
    size_t changes = 0;
    std::set<size_t> drives;
    std::optional<size_t> before;
    for (const PassStep& step : schedule_.steps()) {
      if (step.kind == StepKind::kExperts) continue;
      const size_t drive = request_.drives.Of(step.location.range.shard);
      if (before && *before != drive) ++changes;
      before = drive;
      drives.insert(drive);
      all += PinBytes(step);
    }
    const uint64_t room = Left();
    if (changes == 0 || room >= all) return;
    const uint64_t streamed = all - room;
    const uint64_t reach = kFullRingBytes + streamed / (changes + 1) * (drives.size() - 1);
    GrowRing(plan_.stream.ring_bytes + std::min(reach, room / kDriveShare));
    plan_.drives_together = plan_.stream.ring_bytes >= RingOf(reach);
  }

  // The most rows of a pass, up to `wanted`, that the budget allows.
  size_t MostRows(size_t wanted) const {
    const uint64_t have = Left() + request_.activation_bytes(plan_.chunk_rows);
    size_t low = plan_.chunk_rows;
    size_t high = std::max(wanted, low);
    while (low < high) {
      const size_t middle = low + (high - low + 1) / 2;
      if (request_.activation_bytes(middle) <= have) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  void CacheExperts(uint64_t bytes) {
    if (moe_layers_ == 0) return;
    const uint64_t slots = std::min(bytes, Left()) / slot_bytes_;
    plan_.stream.cached_slots = static_cast<size_t>(std::min<uint64_t>(slots, experts_));
  }

  // Pins the share of the walk that fits, as evenly as whole matrices allow; then what is left is
  // filled with the largest that fit.
  void Pin() {
    const auto steps = schedule_.steps();
    plan_.stream.pinned.assign(steps.size(), false);
    const uint64_t all = std::accumulate(
        steps.begin(), steps.end(), uint64_t{0}, [](uint64_t sum, const PassStep& step) {
          return sum + (step.kind == StepKind::kExperts ? 0 : PinBytes(step));
        });
    const uint64_t room = Left();
    const double share =
        all == 0 ? 0 : std::min(1.0, static_cast<double>(room) / static_cast<double>(all));
    double owed = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].kind == StepKind::kExperts) continue;
      const auto bytes = static_cast<double>(PinBytes(steps[i]));
      owed += bytes * share;
      if (share < 1.0 && owed < bytes) continue;
      if (TryPin(i)) owed -= bytes;
    }
    std::vector<size_t> order(steps.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return PinBytes(steps[a]) > PinBytes(steps[b]); });
    for (const size_t i : order) {
      if (steps[i].kind != StepKind::kExperts) TryPin(i);
    }
  }

  bool TryPin(size_t step) {
    const uint64_t bytes = PinBytes(schedule_.steps()[step]);
    if (plan_.stream.pinned[step] || bytes > Left()) return false;
    plan_.stream.pinned[step] = true;
    pinned_bytes_ += bytes;
    return true;
  }

  void ListItems() {
    const auto pins = std::count(plan_.stream.pinned.begin(), plan_.stream.pinned.end(), true);
    plan_.items = {
        {"program, tables, tokenizer", request_.process_bytes + kAllowanceBytes, ""},
        {"small vectors", VectorBytes(config_), "norms, biases, convolutions"},
        {"state and latent cache", plan_.sequences_in_memory * request_.sequence_bytes,
         fmt::format("{} x {} position{}", plan_.sequences_in_memory, request_.context,
                     request_.context == 1 ? "" : "s")},
        {"logits", request_.logit_rows * config_.vocabulary * sizeof(float),
         Rows("", request_.logit_rows)},
        {"activations", request_.activation_bytes(plan_.chunk_rows),
         Rows("chunk of ", plan_.chunk_rows)},
        {"tile ring", plan_.stream.ring_bytes,
         fmt::format("tiles of up to {}{}", FormatByteSize(schedule_.largest_tile_bytes()),
                     plan_.drives_together ? "; all drives at once" : "")},
        {"expert slots", slot_bytes_ * plan_.stream.passing_slots,
         fmt::format("{} expert{} on their way", plan_.stream.passing_slots,
                     plan_.stream.passing_slots == 1 ? "" : "s")},
        {"pinned matrices", pinned_bytes_,
         fmt::format("{} of {}", pins, schedule_.steps().size() - moe_layers_)},
        {"expert cache", slot_bytes_ * plan_.stream.cached_slots,
         fmt::format("{} of {} experts", plan_.stream.cached_slots, experts_)}};
    if (moved() > 0) {
      plan_.items.push_back({"states on their way", moved() * request_.moved_sequence_bytes,
                             fmt::format("two layers of each of {} on disk", moved())});
    }
    if (request_.session_bytes > 0) {
      plan_.items.push_back({"session buffers", request_.session_bytes, "saving and loading"});
    }
    plan_.total_bytes = Spent();
  }

  void CountReads() {
    for (size_t i = 0; i < schedule_.steps().size(); ++i) {
      const PassStep& step = schedule_.steps()[i];
      if (step.kind == StepKind::kExperts) continue;
      const uint64_t bytes = step.location.range.bytes;
      plan_.weights_per_token += bytes;
      if (plan_.stream.pinned[i]) continue;
      (step.kind == StepKind::kHead ? plan_.head_bytes_per_token : plan_.trunk_bytes_per_token) +=
          bytes;
    }
    const uint64_t experts = moe_layers_ * config_.moe.experts_per_token * schedule_.expert_bytes();
    plan_.weights_per_token += experts;
    plan_.expert_weights_per_token = experts;
    const bool all_cached = plan_.stream.cached_slots == experts_;
    plan_.expert_bytes_per_token = all_cached ? 0 : experts;
    plan_.embedding_bytes_per_token = config_.hidden * sizeof(uint16_t);
  }

  const ModelConfig& config_;
  const PlanRequest& request_;
  PassSchedule schedule_;
  uint64_t slot_bytes_;
  size_t moe_layers_;  // that are run
  size_t experts_;     // of all of these together
  uint64_t fixed_bytes_ = 0;
  uint64_t pinned_bytes_ = 0;
  MemoryPlan plan_;
};

// What a token of an answer reads, and the tokens of prompts that come with it. States that live on
// disk are read and written back.
double BytesMoved(const Checkpoint& checkpoint, const PlanRequest& request,
                  const MemoryPlan& plan) {
  const size_t moved = request.sequences - plan.sequences_in_memory;
  const uint64_t states = 2 * moved * request.sequence_bytes;
  const uint64_t prompt = BytesOfPass(checkpoint, plan, plan.chunk_rows, false);
  return static_cast<double>(plan.bytes_per_token() + states) +
         kPromptTokensPerAnswerToken * static_cast<double>(prompt) /
             static_cast<double>(plan.chunk_rows);
}

}  // namespace

MemoryPlan MakeMemoryPlan(const Checkpoint& checkpoint, const PlanRequest& request) {
  const auto cost = [&](const MemoryPlan& plan) { return BytesMoved(checkpoint, request, plan); };
  MemoryPlan best = Planner(checkpoint, request).Make();
  PlanRequest wider = request;
  for (bool fits = true; fits && wider.chunk_rows < request.most_chunk_rows;) {
    wider.chunk_rows = std::min(2 * wider.chunk_rows, request.most_chunk_rows);
    MemoryPlan plan = Planner(checkpoint, wider).Make();
    fits = plan.chunk_rows == wider.chunk_rows;
    if (cost(plan) < cost(best)) best = std::move(plan);
  }
  return best;
}

std::string FormatPlan(const MemoryPlan& plan) {
  std::string text;
  for (const PlanItem& item : plan.items) {
    text += fmt::format("  {:<28}{:>10}  {}\n", item.name, FormatByteSize(item.bytes), item.detail);
  }
  text += fmt::format("  {:<28}{:>10}  of {}; at least {} would do\n", "in all",
                      FormatByteSize(plan.total_bytes), FormatByteSize(plan.budget_bytes),
                      FormatByteSize(plan.smallest_bytes));
  text += fmt::format(
      "read per token: {} (trunk {}, experts {}, head {}, embedding {})\n",
      FormatByteSize(plan.bytes_per_token()), FormatByteSize(plan.trunk_bytes_per_token),
      FormatByteSize(plan.expert_bytes_per_token), FormatByteSize(plan.head_bytes_per_token),
      FormatByteSize(plan.embedding_bytes_per_token));
  return text;
}

nlohmann::ordered_json PlanToJson(const MemoryPlan& plan) {
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  for (const PlanItem& item : plan.items) {
    items.push_back({{"name", item.name}, {"bytes", item.bytes}, {"detail", item.detail}});
  }
  const auto pins = std::count(plan.stream.pinned.begin(), plan.stream.pinned.end(), true);
  return {{"budget_bytes", plan.budget_bytes},
          {"smallest_bytes", plan.smallest_bytes},
          {"total_bytes", plan.total_bytes},
          {"items", items},
          {"chunk_rows", plan.chunk_rows},
          {"ring_bytes", plan.stream.ring_bytes},
          {"expert_slots", plan.stream.passing_slots},
          {"cached_experts", plan.stream.cached_slots},
          {"pinned_matrices", pins},
          {"read_per_token",
           {{"bytes", plan.bytes_per_token()},
            {"trunk_bytes", plan.trunk_bytes_per_token},
            {"expert_bytes", plan.expert_bytes_per_token},
            {"head_bytes", plan.head_bytes_per_token},
            {"embedding_bytes", plan.embedding_bytes_per_token}}}};
}

uint64_t BytesOfPass(const Checkpoint& checkpoint, const MemoryPlan& plan, size_t rows,
                     bool with_head) {
  uint64_t bytes = plan.trunk_bytes_per_token + rows * plan.embedding_bytes_per_token;
  if (with_head) bytes += plan.head_bytes_per_token;
  if (plan.expert_bytes_per_token == 0) return bytes;
  return bytes + static_cast<uint64_t>(static_cast<double>(plan.expert_bytes_per_token) *
                                       DistinctExperts(checkpoint, rows));
}

double DistinctExperts(const Checkpoint& checkpoint, size_t rows) {
  const auto experts = static_cast<double>(checkpoint.config().experts_present());
  const auto chosen = static_cast<double>(checkpoint.config().moe.experts_per_token);
  return experts * (1.0 - std::pow(1.0 - chosen / experts, rows)) / chosen;
}

}  // namespace kimi_k3

// The order in which one pass over the model uses its matrices, and its check.
#include "residency/pass_schedule.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace kimi_k3 {
namespace {

// Granules of a tile, at most `most`: about equal tiles, in numbers that threads can share without
// one waiting for another.
uint64_t TileGranules(uint64_t granules, uint64_t most) {
  if (granules <= most) return granules;
  const uint64_t tiles = (granules + most - 1) / most;
  const uint64_t even = (granules + tiles - 1) / tiles;
  for (const uint64_t shared : {32, 16, 8}) {
    if (most >= shared) return std::min((even + shared - 1) / shared, most / shared) * shared;
  }
  return even;
}

std::string Describe(StepKind kind, Role role, size_t layer) {
  if (kind == StepKind::kHead) return "the head";
  if (kind == StepKind::kExperts) return fmt::format("the experts of layer {}", layer);
  return fmt::format("{} of layer {}", RoleName(role), layer);
}

[[noreturn]] void OutOfOrder(const std::string& came, const PassStep* due) {
  throw std::logic_error(fmt::format(
      "weight stream: {} asked for, but {} is due", came,
      due == nullptr ? "nothing more of this pass" : Describe(due->kind, due->role, due->layer)));
}

}  // namespace

size_t PassStep::RowsOf(size_t tile) const {
  return std::min(tile_rows, location.rows - FirstRow(tile));
}

ByteRange PassStep::RangeOf(size_t tile) const {
  return {location.range.shard, location.range.offset + FirstRow(tile) * row_bytes(),
          RowsOf(tile) * row_bytes()};
}

Tile PassStep::ViewRows(size_t first, size_t count, const std::byte* data) const {
  const size_t coded_row_bytes = location.dtype == Dtype::kCodedBf16 ? row_bytes() : 0;
  return {first,
          {WeightTypeOf(location.dtype), count, location.columns, data, nullptr, coded_row_bytes}};
}

kernels::WeightType WeightTypeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return kernels::WeightType::kF32;
    case Dtype::kBf16:
      return kernels::WeightType::kBf16;
    case Dtype::kCodedBf16:
      return kernels::WeightType::kCodedBf16;
    case Dtype::kQ8:
      return kernels::WeightType::kQ8;
    case Dtype::kQ4:
      return kernels::WeightType::kQ4;
    case Dtype::kU8:
      break;
  }
  Fail(ErrorKind::kCheckpoint, "a matrix of the trunk is stored as {}", DtypeName(dtype));
}

PassSchedule::PassSchedule(const Checkpoint& checkpoint, uint64_t tile_bytes) {
  const ModelConfig& config = checkpoint.config();
  layers_ = config.layers_run();
  for (size_t layer = config.first_layer(); layer < config.end_layer(); ++layer) {
    bool experts_seen = false;
    for (const TensorSpec& spec : TensorSpecs(config, layer)) {
      if (spec.kind == TensorKind::kMatrix) {
        Append({StepKind::kMatrix, spec.role, layer, checkpoint.Get(spec.role, layer),
                spec.row_granule, 0},
               tile_bytes);
      } else if (spec.kind == TensorKind::kExpert && !experts_seen) {
        experts_seen = true;
        steps_.push_back({StepKind::kExperts, Role::kExpertGate, layer, {}, 1, 0});
        const ExpertLocation expert = checkpoint.Expert(layer, config.part.experts.first);
        expert_bytes_ = 0;
        for (const ExpertMatrixLocation* m : {&expert.gate, &expert.up, &expert.down}) {
          expert_bytes_ += m->weights.bytes + m->scales.bytes;
        }
      }
    }
  }
  Append({StepKind::kHead, Role::kHead, config.end_layer(), checkpoint.Get(Role::kHead), 1, 0},
         tile_bytes);
}

void PassSchedule::Append(PassStep step, uint64_t tile_bytes) {
  const uint64_t granule_bytes = step.row_bytes() * step.row_granule;
  const uint64_t granules =
      (step.location.rows + step.row_granule - 1) / step.row_granule;  // the last may be short
  const uint64_t most = std::max<uint64_t>(1, tile_bytes / std::max<uint64_t>(1, granule_bytes));
  step.tile_rows = TileGranules(granules, most) * step.row_granule;
  largest_tile_bytes_ =
      std::max(largest_tile_bytes_,
               std::min<uint64_t>(step.tile_rows, step.location.rows) * step.row_bytes());
  (step.kind == StepKind::kHead ? head_bytes_ : trunk_bytes_) += step.location.range.bytes;
  steps_.push_back(step);
}

void Walk::Begin(bool with_head) {
  begun_ = true;
  with_head_ = with_head;
  requested_ = false;
  next_ = 0;
}

const PassStep* Walk::Due() const {
  const auto steps = schedule_->steps();
  if (!begun_ || next_ >= steps.size()) return nullptr;
  if (steps[next_].kind == StepKind::kHead && !with_head_) return nullptr;
  return &steps[next_];
}

size_t Walk::ExpectMatrix(MatrixId matrix) const {
  const PassStep* due = Due();
  const bool head = matrix.role == Role::kHead;
  if (due == nullptr || due->kind == StepKind::kExperts || due->role != matrix.role ||
      (!head && due->layer != matrix.layer)) {
    OutOfOrder(Describe(head ? StepKind::kHead : StepKind::kMatrix, matrix.role, matrix.layer),
               due);
  }
  return next_;
}

void Walk::ExpectRequest(size_t layer, std::span<const int32_t> experts, size_t expert_count) {
  const PassStep* due = Due();
  const auto steps = schedule_->steps();
  bool ahead = false;  // this layer's experts are still to come
  if (due != nullptr && due->layer == layer) {
    for (size_t i = next_; i < steps.size() && steps[i].layer == layer; ++i) {
      ahead = ahead || steps[i].kind == StepKind::kExperts;
    }
  }
  if (!ahead || requested_) OutOfOrder(fmt::format("a request of layer {}'s experts", layer), due);
  int32_t previous = -1;
  for (const int32_t expert : experts) {
    if (expert <= previous || static_cast<size_t>(expert) >= expert_count) {
      throw std::logic_error(fmt::format(
          "weight stream: experts requested of layer {} are not ascending, distinct and below {}",
          layer, expert_count));
    }
    previous = expert;
  }
  requested_ = true;
}

size_t Walk::ExpectExperts(size_t layer) const {
  const PassStep* due = Due();
  if (due == nullptr || due->kind != StepKind::kExperts || due->layer != layer || !requested_) {
    OutOfOrder(Describe(StepKind::kExperts, Role::kExpertGate, layer), due);
  }
  return next_;
}

void Walk::Advance() {
  if (schedule_->steps()[next_].kind == StepKind::kExperts) requested_ = false;
  ++next_;
}

}  // namespace kimi_k3

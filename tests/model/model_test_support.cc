// What the tests of the model's parts share: loops cut at random, random rows, one layer on its
// own.
#include "model/model_test_support.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/thread_pool.h"
#include "model/feed_forward.h"
#include "model/kda.h"
#include "model/mla.h"
#include "model/moe.h"

namespace kimi_k3 {
namespace {

std::unique_ptr<Parallel> MakeParallel(const ComputeVariant& variant) {
  if (variant.threads != 0) return std::make_unique<ThreadPool>(variant.threads);
  return std::make_unique<RandomCuts>(variant.parts, variant.stream.seed);
}

MatrixId FirstOfAttention(const ModelConfig& config, size_t layer) {
  if (!config.IsMla(layer)) return {Role::kKdaQ, layer};
  return {config.mla.q_lora_rank != 0 ? Role::kMlaQA : Role::kMlaQ, layer};
}

}  // namespace

void RandomCuts::For(size_t n, size_t grain, FunctionRef<void(size_t, size_t, size_t)> body) {
  std::vector<std::pair<size_t, size_t>> ranges;
  for (size_t begin = 0; begin < n;) {
    const size_t grains_left = (n - begin + grain - 1) / grain;
    const bool last = ranges.size() + 1 == parts_;
    const size_t grains = last ? grains_left : 1 + random_() % grains_left;
    const size_t end = std::min(n, begin + grains * grain);
    ranges.emplace_back(begin, end);
    begin = end;
  }
  std::vector<size_t> order(ranges.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::shuffle(order, random_);
  for (const size_t part : order) body(part, ranges[part].first, ranges[part].second);
}

std::vector<float> RandomRows(size_t rows, size_t width, uint64_t seed, float size) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> numbers(-size, size);
  std::vector<float> values(rows * width);
  for (float& value : values) value = numbers(random);
  return values;
}

Numbers RowOf(std::span<const float> rows, size_t width, size_t row) {
  const auto numbers = rows.subspan(row * width, width);
  return {numbers.begin(), numbers.end()};
}

double RelativeError(std::span<const float> actual, const std::vector<Numbers>& expected) {
  Numbers all;
  for (const Numbers& row : expected) all.insert(all.end(), row.begin(), row.end());
  if (all.size() != actual.size()) return HUGE_VAL;
  return RelativeError(actual.data(), all);
}

std::vector<ComputeVariant> ComputeVariants() {
  std::vector<ComputeVariant> variants;
  variants.push_back({.name = "row by row", .stream = {}, .rows_per_pass = 1});
  variants.push_back({.name = "tiles of one granule",
                      .stream = {.tile_granules = 1, .shuffle_arrivals = true},
                      .rows_per_pass = 7});
  variants.push_back({.name = "random tiles, cuts and arrivals",
                      .stream = {.seed = 5, .tile_granules = 9, .shuffle_arrivals = true},
                      .parts = 4,
                      .rows_per_pass = kArrivalOrderRows});
  variants.push_back({.name = "many parts, many rows",
                      .stream = {.seed = 6, .tile_granules = 3, .shuffle_arrivals = true},
                      .parts = 17,
                      .rows_per_pass = kArrivalOrderRows + 1});
  variants.push_back({.name = "three threads",
                      .stream = {.seed = 7, .tile_granules = 40, .shuffle_arrivals = true},
                      .threads = 3,
                      .rows_per_pass = 5});
  return variants;
}

LayerHarness::LayerHarness(const TestModel& model, const ComputeVariant& variant, size_t max_rows)
    : model_(model),
      variant_(variant),
      stream_(model, variant.stream),
      parallel_(MakeParallel(variant)),
      vectors_(LoadModelVectors(model.config(), stream_)),
      workspace_(model.config(), max_rows, parallel_->parts()) {}

std::vector<float> LayerHarness::Attention(size_t layer, std::span<const RowRun> runs,
                                           std::span<const float> x) {
  const size_t hidden = model_.config().hidden;
  std::vector<float> input(x.begin(), x.end());
  std::vector<float> output(x.size(), NAN);
  const RowsView in = {.data = input.data(), .stride = hidden, .count = x.size() / hidden};
  const RowsView out = {.data = output.data(), .stride = hidden, .count = in.count};
  stream_.BeginPassAt(FirstOfAttention(model_.config(), layer));
  if (model_.config().IsMla(layer)) {
    MlaAttention(compute(), layer, vectors_.layers[layer].mla, runs, in, out, workspace_);
  } else {
    KdaAttention(compute(), layer, vectors_.layers[layer].kda, runs, in, out, workspace_);
  }
  for (const RowRun& run : runs) run.sequence->Advance(run.count);
  return output;
}

std::vector<float> LayerHarness::FeedForward(size_t layer, std::span<const RowRun> runs,
                                             std::span<const float> x) {
  const size_t hidden = model_.config().hidden;
  std::vector<float> input(x.begin(), x.end());
  std::vector<float> output(x.size(), NAN);
  const RowsView in = {.data = input.data(), .stride = hidden, .count = x.size() / hidden};
  const RowsView out = {.data = output.data(), .stride = hidden, .count = in.count};
  if (model_.config().IsDense(layer)) {
    stream_.BeginPassAt({Role::kDenseGate, layer});
    DenseFeedForward(compute(), layer, in, out, workspace_);
  } else {
    stream_.BeginPassAt({Role::kRouter, layer});
    MoeFeedForward(compute(), layer, vectors_.layers[layer].moe, runs, in, out, workspace_);
  }
  return output;
}

std::vector<float> LayerHarness::AttentionInPasses(size_t layer, SequenceState& sequence,
                                                   std::span<const float> x) {
  const size_t hidden = model_.config().hidden;
  std::vector<float> outputs;
  for (size_t done = 0; done * hidden < x.size();) {
    const size_t count =
        std::min({variant_.rows_per_pass, workspace_.max_rows(), x.size() / hidden - done});
    const RowRun run = {.sequence = &sequence, .first = 0, .count = count};
    const auto part = Attention(layer, {&run, 1}, x.subspan(done * hidden, count * hidden));
    outputs.insert(outputs.end(), part.begin(), part.end());
    done += count;
  }
  return outputs;
}

}  // namespace kimi_k3

// What the tests of the model's parts share: loops cut at random, random rows, one layer on its
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "model/fake_weight_stream.h"
#include "model/layer_vectors.h"
#include "model/reference_model.h"
#include "model/rows.h"
#include "model/workspace.h"

namespace kimi_k3 {

// Runs every loop on the calling thread, cut into up to parts() unequal ranges that are taken in
// random order.
class RandomCuts final : public Parallel {
 public:
  explicit RandomCuts(size_t parts, uint64_t seed = 1) : parts_(parts), random_(seed) {}
  size_t parts() const override { return parts_; }
  void For(size_t n, size_t grain, FunctionRef<void(size_t, size_t, size_t)> body) override;
  void ForPieces(size_t n, size_t grain, FunctionRef<void(size_t, size_t)> body) override {
    For(n, grain, [&](size_t, size_t begin, size_t end) { body(begin, end); });
  }

 private:
  size_t parts_;
  std::mt19937_64 random_;
};

// [rows, width] of numbers between -size and size.
std::vector<float> RandomRows(size_t rows, size_t width, uint64_t seed, float size = 1.5F);
Numbers RowOf(std::span<const float> rows, size_t width, size_t row);
// ||actual - expected|| / ||expected|| over rows one after another.
double RelativeError(std::span<const float> actual, const std::vector<Numbers>& expected);

// How a result may be computed without a bit of it changing.
struct ComputeVariant {
  std::string name;
  FakeStreamOptions stream;
  size_t parts = 1;           // above 1: RandomCuts
  size_t threads = 0;         // above 0: a ThreadPool instead
  size_t rows_per_pass = 64;  // of one sequence
};
std::vector<ComputeVariant> ComputeVariants();

// The largest relative error of an f32 result that counts as right.
inline constexpr double kTolerance = 1e-5;

// One layer of a model, computed by itself.
class LayerHarness {
 public:
  // model must outlive the harness. max_rows: of one call.
  LayerHarness(const TestModel& model, const ComputeVariant& variant, size_t max_rows);

  // The layer's attention of rows x [rows, hidden], the sequences then being advanced.
  std::vector<float> Attention(size_t layer, std::span<const RowRun> runs,
                               std::span<const float> x);
  // Its dense or MoE feed-forward; advances nothing.
  std::vector<float> FeedForward(size_t layer, std::span<const RowRun> runs,
                                 std::span<const float> x);

  // Attention over all rows of one sequence, as many at a time as the variant says.
  std::vector<float> AttentionInPasses(size_t layer, SequenceState& sequence,
                                       std::span<const float> x);

  FakeWeightStream& stream() { return stream_; }
  LayerVectors& vectors(size_t layer) { return vectors_.layers[layer]; }

 private:
  Compute compute() { return {model_.config(), stream_, *parallel_}; }

  const TestModel& model_;
  ComputeVariant variant_;
  FakeWeightStream stream_;
  std::unique_ptr<Parallel> parallel_;
  ModelVectors vectors_;
  Workspace workspace_;
};

}  // namespace kimi_k3

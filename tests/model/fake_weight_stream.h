// A weight stream over a model in memory, as unhelpful as its contract allows.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "model/test_model.h"
#include "residency/weight_stream.h"

namespace kimi_k3 {

struct FakeStreamOptions {
  uint64_t seed = 1;
  // Tiles have 1 to this many granules, at random; 0: every matrix is one tile.
  size_t tile_granules = 0;
  // kArrival visits the experts at random instead of in ascending order.
  bool shuffle_arrivals = false;
  // The operation of this number (from 1) throws Error(kIo); 0: none. Every call is an operation,
  // and so is every delivery of a tile or an expert.
  uint64_t fail_at = 0;
};

// Tiles and experts are copies at odd addresses that die when the callback returns; runs have one
// to three tiles, at random. Whatever comes out of order throws std::logic_error.
class FakeWeightStream : public WeightStream {
 public:
  // `model` must outlive the stream.
  explicit FakeWeightStream(const TestModel& model, const FakeStreamOptions& options = {});

  void BeginPass(bool with_head) override;
  void ForEachRun(MatrixId matrix, FunctionRef<void(std::span<const Tile>)> visit) override;
  void RequestExperts(size_t layer, std::span<const int32_t> experts) override;
  void ForEachExpert(size_t layer, ExpertOrder order,
                     FunctionRef<void(int32_t, const ExpertWeights&)> visit) override;
  void ReadEmbeddingRow(size_t token, std::span<float> out) override;
  std::vector<float> ReadVector(Role role, size_t layer) override;
  uint64_t resident_bytes() const override { return 0; }

  // Begins a pass that has just come to this matrix, for tests of a part of the model.
  void BeginPassAt(MatrixId matrix);
  // Whether the pass has consumed everything it was to consume.
  bool PassIsOver() const;

  uint64_t operations() const { return operations_; }
  void FailAt(uint64_t operation) { fail_at_ = operation; }
  // The order of the latest ForEachExpert, and the experts in the order of their visits.
  ExpertOrder latest_order() const { return latest_order_; }
  const std::vector<int32_t>& latest_visits() const { return latest_visits_; }

 private:
  struct Step {
    Role role;  // kExpertGate stands for the experts
    size_t layer;
    size_t granule;
  };
  void CountOperation(const char* what);
  const Step& Due(Role role, size_t layer) const;

  const TestModel& model_;
  FakeStreamOptions options_;
  std::vector<Step> steps_;
  std::mt19937_64 random_;
  uint64_t operations_ = 0;
  uint64_t fail_at_ = 0;
  size_t next_ = 0;
  size_t end_ = 0;  // of this pass
  bool begun_ = false;
  bool requested_ = false;
  std::vector<int32_t> requests_;
  ExpertOrder latest_order_ = ExpertOrder::kAscending;
  std::vector<int32_t> latest_visits_;
};

}  // namespace kimi_k3

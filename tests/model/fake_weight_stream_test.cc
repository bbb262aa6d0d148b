// The fake stream is as strict as it claims.
#include "model/fake_weight_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "kimi_k3/error.h"

namespace kimi_k3 {
namespace {

class FakeStream : public testing::Test {
 protected:
  const TestModel model_{TestConfig("KimiK3Like"), 1};
};

TEST_F(FakeStream, TilesAreTheWholeMatrixInAscendingOrder) {
  FakeWeightStream stream(model_, {.tile_granules = 2});
  const size_t granule = 9 + 7;
  stream.BeginPassAt({Role::kMlaKvB, 2});
  const TestTensor& tensor = model_.Get(Role::kMlaKvB, 2);
  size_t next = 0;
  size_t tiles = 0;
  stream.ForEachTile({Role::kMlaKvB, 2}, [&](const Tile& tile) {
    EXPECT_EQ(tile.first_row, next);
    EXPECT_EQ(tile.weights.rows % granule, 0U);
    std::vector<float> row(tensor.columns);
    for (size_t r = 0; r < tile.weights.rows; ++r) {
      kernels::ExpandRow(tile.weights, r, row.data());
      EXPECT_TRUE(std::equal(row.begin(), row.end(), tensor.Row(next + r)));
    }
    next += tile.weights.rows;
    ++tiles;
  });
  EXPECT_EQ(next, tensor.rows);
  EXPECT_GT(tiles, 1U);
}

TEST_F(FakeStream, ExpertsStandForTheNumbersOfTheModel) {
  FakeWeightStream stream(model_, {.shuffle_arrivals = true});
  stream.BeginPassAt({Role::kRouter, 1});
  for (const Role role :
       {Role::kRouter, Role::kLatentDown, Role::kSharedGate, Role::kSharedUp, Role::kSharedDown}) {
    stream.ForEachTile({role, 1}, [](const Tile&) {});
    if (role == Role::kRouter) stream.RequestExperts(1, std::vector<int32_t>{2, 5, 10});
  }
  std::vector<int32_t> seen;
  stream.ForEachExpert(1, ExpertOrder::kArrival, [&](int32_t id, const ExpertWeights& weights) {
    seen.push_back(id);
    const TestTensor& down = model_.Get(Role::kExpertDown, 1, static_cast<size_t>(id));
    EXPECT_EQ(weights.down.type, kernels::WeightType::kMxfp4);
    std::vector<float> row(down.columns);
    kernels::ExpandRow(weights.down, 3, row.data());
    EXPECT_TRUE(std::equal(row.begin(), row.end(), down.Row(3)));
  });
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (std::vector<int32_t>{2, 5, 10}));
}

TEST_F(FakeStream, WhatIsOutOfOrderIsCaught) {
  FakeWeightStream stream(model_);
  const auto ignore = [](const Tile&) {};
  EXPECT_THROW(stream.ForEachTile({Role::kKdaQ, 0}, ignore), std::logic_error);
  stream.BeginPass(false);
  EXPECT_THROW(stream.ForEachTile({Role::kKdaK, 0}, ignore), std::logic_error);
  stream.ForEachTile({Role::kKdaQ, 0}, ignore);
  EXPECT_THROW(stream.ForEachTile({Role::kKdaQ, 0}, ignore), std::logic_error);
  EXPECT_THROW(stream.RequestExperts(0, std::vector<int32_t>{1}), std::logic_error);
  stream.BeginPassAt({Role::kRouter, 1});
  stream.ForEachTile({Role::kRouter, 1}, ignore);
  EXPECT_THROW(stream.RequestExperts(1, std::vector<int32_t>{2, 1}), std::logic_error);
  EXPECT_THROW(stream.RequestExperts(1, std::vector<int32_t>{11}), std::logic_error);
  EXPECT_THROW(stream.ForEachExpert(1, ExpertOrder::kArrival, [](int32_t, const auto&) {}),
               std::logic_error);
  EXPECT_FALSE(stream.PassIsOver());
}

TEST_F(FakeStream, FailsAtTheOperationAskedFor) {
  FakeWeightStream stream(model_, {.fail_at = 3});
  stream.BeginPass(false);
  stream.ReadVector(Role::kFinalNorm, 0);
  EXPECT_THROW(stream.ReadVector(Role::kFinalNorm, 0), Error);
  EXPECT_NO_THROW(stream.ReadVector(Role::kFinalNorm, 0));
}

}  // namespace
}  // namespace kimi_k3

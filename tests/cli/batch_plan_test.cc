// Plans by the number of sequences.
#include "cli/batch_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/process_meter.h"
#include "cli/program.h"
#include "engine/engine_plan.h"

namespace kimi_k3 {
namespace {

class BatchPlans : public testing::Test {
 protected:
  std::vector<BatchChoice> Plan(uint64_t memory_bytes, size_t most) {
    EngineOptions options;
    options.model_dir = SmallModel();
    options.memory_bytes = memory_bytes;
    options.context = 4096;
    options = ResolveOptions(options, checkpoint_.config());
    return PlanBatches(checkpoint_, options, {.resident_bytes = ReadProcessMeters().resident_bytes},
                       most);
  }
  static std::vector<size_t> Sequences(const std::vector<BatchChoice>& choices) {
    std::vector<size_t> sequences;
    for (const BatchChoice& choice : choices) sequences.push_back(choice.sequences);
    return sequences;
  }

  const Checkpoint checkpoint_ = [] {
    EngineOptions options;
    options.model_dir = SmallModel();
    return OpenCheckpoint(options);
  }();
};

TEST_F(BatchPlans, AreForPowersOfTwoAndForWhatIsAskedFor) {
  const auto choices = Plan(uint64_t{1} << 33, 12);
  EXPECT_EQ(Sequences(choices), (std::vector<size_t>{1, 2, 4, 8, 12}));
  EXPECT_EQ(choices[3].state_bytes, 8 * choices[0].state_bytes);
  for (const BatchChoice& choice : choices) {
    EXPECT_LE(choice.plan.total_bytes, choice.plan.budget_bytes);
    EXPECT_EQ(choice.bytes_per_token, choice.bytes_per_pass / choice.sequences);
  }
  EXPECT_EQ(Sequences(Plan(uint64_t{1} << 33, 1)), std::vector<size_t>{1});
}

TEST_F(BatchPlans, EndWithTheMostThatThereIsRoomFor) {
  const auto all = Plan(uint64_t{1} << 33, 1000);
  const uint64_t each = all[0].state_bytes;
  const auto some = Plan(all[0].plan.smallest_bytes + 11 * each, 1000);
  const size_t most = some.back().sequences;
  EXPECT_GE(most, 8U);
  EXPECT_LE(most, 13U);
  EXPECT_THROW(Plan(1000, 4), Error);
}

TEST_F(BatchPlans, EndWithTheMostWhoseStatesTheFolderHasRoomFor) {
  EngineOptions options;
  options.model_dir = SmallModel();
  options.context = 4096;
  options.state_dir = "states";
  options.sequences_in_memory = 1;
  options = ResolveOptions(options, checkpoint_.config());
  const uint64_t each = MakeStateLayout(checkpoint_.config(), options).sequence_bytes();
  options.memory_bytes = uint64_t{1} << 33;
  const auto most_with = [&](uint64_t room) {
    return PlanBatches(checkpoint_, options, {.resident_bytes = 0, .state_dir_bytes = room}, 64)
        .back()
        .sequences;
  };
  EXPECT_EQ(most_with(0), 1U);
  EXPECT_EQ(most_with(6 * each - 1), 6U);
  EXPECT_EQ(most_with(6 * each), 7U);
  options.sequences_in_memory = 0;
  EXPECT_EQ(most_with(6 * each), 6U);
  EXPECT_THROW(most_with(each - 1), Error);
}

TEST_F(BatchPlans, TheOneThatReadsLeastForATokenIsRecommended) {
  std::vector<BatchChoice> choices(3);
  for (size_t i = 0; i < 3; ++i) {
    choices[i].sequences = size_t{1} << i;
    choices[i].plan.chunk_rows = 2;
    choices[i].bytes_per_token = 10 - i;
  }
  EXPECT_EQ(RecommendedBatch(choices).sequences, 2U);  // a pass has no rows for four
  choices[2].plan.chunk_rows = 4;
  EXPECT_EQ(RecommendedBatch(choices).sequences, 4U);
  for (BatchChoice& choice : choices) choice.bytes_per_token = 0;
  EXPECT_EQ(RecommendedBatch(choices).sequences, 4U);
}

TEST_F(BatchPlans, TokensPerSecondAreRowsOverTheTimeOfAPass) {
  const auto choices = Plan(uint64_t{1} << 33, 4);
  PlanEstimate estimate;
  estimate.drive.bytes_per_second = 1e6;
  estimate.drive.in_turns_bytes_per_second = 1e6;
  estimate.trunk = {.one_row = 1e15, .many_rows = 1e15};
  estimate.experts = estimate.trunk;
  const BatchChoice& choice = choices.back();
  if (choice.bytes_per_pass == 0) GTEST_SKIP() << "all is held";
  EXPECT_NEAR(TokensPerSecond(checkpoint_, choice, estimate),
              4e6 / static_cast<double>(choice.bytes_per_pass), 1e-6);
}

}  // namespace
}  // namespace kimi_k3

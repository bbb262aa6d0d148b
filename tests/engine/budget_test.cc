// The first promise: no bit of the answer depends on memory, on the way of reading, or on
// read-ahead.
#include <gtest/gtest.h>

#include <fstream>

#include "base/process_meter.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine_plan.h"
#include "engine/golden_engine.h"
#include "kimi_k3/generation.h"

namespace kimi_k3 {
namespace {

struct Answer {
  std::vector<float> prompt_logits;
  std::vector<TokenId> tokens;
};

Answer Ask(const EngineOptions& options, const std::vector<TokenId>& prompt) {
  Engine engine = Engine::Open(options);
  Sequence sequence = engine.NewSequence();
  Answer answer;
  GenerationOptions generation;
  generation.max_tokens = 8;
  generation.ignore_eos = true;
  generation.on_prompt_logits = [&](size_t, std::span<const float> row) {
    answer.prompt_logits.insert(answer.prompt_logits.end(), row.begin(), row.end());
  };
  answer.tokens =
      Generate(engine, sequence, prompt, generation, [](TokenId) { return true; }).tokens;
  return answer;
}

// The least budget that a plan for these options accepts in this process, with room for what the
// process gains between two openings.
uint64_t LeastBudget(const EngineOptions& options) {
  const Checkpoint checkpoint = Checkpoint::Open(options.model_dir);
  EngineOptions resolved = ResolveOptions(options, checkpoint.config());
  resolved.memory_bytes = uint64_t{1} << 40;
  const uint64_t resident = ReadProcessMeters().resident_bytes + (uint64_t{8} << 20);
  return MakeMemoryPlan(checkpoint, MakePlanRequest(checkpoint, resolved, resident)).smallest_bytes;
}

class Budget : public testing::TestWithParam<const char*> {};

TEST_P(Budget, EveryBitIsTheSameForAllBudgetsReadersAndReadAheads) {
  const std::vector<TokenId> prompt = GoldenIds(GetParam(), "prompt_ids");
  EngineOptions options = GoldenOptions(GetParam());
  options.all_prompt_logits = true;
  const Answer expected = Ask(options, prompt);
  EXPECT_EQ(expected.tokens.front(), GoldenIds(GetParam(), "greedy_ids").front());
  for (const char* io : {"direct", "buffered", "mmap", "auto"}) {
    for (const uint64_t extra : {uint64_t{0}, uint64_t{100'000}, uint64_t{1} << 30}) {
      for (const std::optional<size_t> prefetch : {std::optional<size_t>(), {0}, {2}}) {
        options.io = io;
        options.memory_bytes.reset();
        options.memory_bytes = LeastBudget(options) + extra;
        options.prefetch_layers = prefetch;
        options.threads = 1 + (extra != 0 ? 1 : 0);
        const Answer answer = Ask(options, prompt);
        ASSERT_EQ(answer.prompt_logits, expected.prompt_logits) << io << " " << extra;
        ASSERT_EQ(answer.tokens, expected.tokens) << io << " " << extra;
      }
    }
  }
}

TEST_P(Budget, ManyRowsReadEachExpertOnceHoweverFewSlotsThereAre) {
  EngineOptions options = GoldenOptions(GetParam());
  options.sequences = 8;
  options.expert_cache_bytes = 0;
  options.memory_bytes = LeastBudget(options) + 2'000'000;
  Engine engine = Engine::Open(options);
  if (engine.max_rows() < 8) GTEST_SKIP() << "no room for 8 rows";
  const ModelConfig config = Checkpoint::Open(options.model_dir).config();
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < 8; ++i) sequences.push_back(engine.NewSequence());
  std::vector<float> logits(8 * engine.vocabulary());
  for (TokenId token = 0; token < 3; ++token) {
    const EngineCounters before = engine.counters();
    std::vector<PassRow> rows;
    for (size_t i = 0; i < 8; ++i) {
      rows.push_back({&sequences[i], static_cast<TokenId>(3 * i) + token, true});
    }
    engine.Forward(rows, logits);
    const EngineCounters after = engine.counters();
    const uint64_t used =
        after.expert_hits - before.expert_hits + after.expert_misses - before.expert_misses;
    EXPECT_LE(used, config.moe_layers() * config.experts_present());
    EXPECT_GE(used, config.moe_layers() * config.moe.experts_per_token);
  }
}

TEST_P(Budget, WhereTheBudgetHoldsEverythingNoWeightIsReadTwice) {
  EngineOptions options = GoldenOptions(GetParam());
  options.memory_bytes = uint64_t{1} << 32;
  Engine engine = Engine::Open(options);
  Sequence sequence = engine.NewSequence();
  std::vector<float> logits(engine.vocabulary());
  // Until every expert has been met, new ones are read; the trunk and the head are read once.
  const auto step = [&](TokenId token) {
    const PassRow row = {.sequence = &sequence, .token = token, .wants_logits = true};
    engine.Forward({&row, 1}, logits);
  };
  step(1);
  const EngineCounters first = engine.counters();
  uint64_t distinct_bytes = first.expert_bytes;
  for (TokenId token = 2; token < 40; ++token) step(token);
  const EngineCounters last = engine.counters();
  EXPECT_EQ(last.trunk_bytes, first.trunk_bytes);
  EXPECT_EQ(last.head_bytes, first.head_bytes);
  distinct_bytes = last.expert_bytes;
  sequence.Reset();
  for (TokenId token = 1; token < 40; ++token) step(token);
  EXPECT_EQ(engine.counters().expert_bytes, distinct_bytes);
}

INSTANTIATE_TEST_SUITE_P(Cases, Budget, testing::Values("k3", "kimi-linear", "odd-shapes"),
                         [](const auto& test_case) {
                           std::string name = test_case.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace kimi_k3

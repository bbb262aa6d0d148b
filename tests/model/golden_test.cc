// The model against the golden cases, and against itself under every way of computing.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "kernels/isa.h"
#include "model/golden_case.h"
#include "model/transformer.h"
#include "residency/mapped_stream.h"

namespace kimi_k3 {
namespace {

struct Logits {
  std::vector<float> prompt;  // [prompt, vocabulary]
  std::vector<float> greedy;  // [greedy, vocabulary]
  std::vector<int32_t> tokens;
  std::vector<float> kda_state;
};

// A model opened for testing.
struct Model {
  Model(const std::filesystem::path& folder, size_t threads, size_t max_rows)
      : checkpoint(Checkpoint::Open(folder)),
        pool(threads),
        weights(MakeMappedStream(checkpoint)),
        transformer(checkpoint.config(), *weights, pool, max_rows) {}
  const ModelConfig& config() const { return checkpoint.config(); }

  Checkpoint checkpoint;
  ThreadPool pool;
  std::unique_ptr<WeightStream> weights;
  Transformer transformer;
};

int32_t ArgMax(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// The prompt in pieces of `chunk` rows, then `greedy` tokens one by one.
Logits ComputeLogits(const GoldenCase& golden, size_t threads, size_t chunk, size_t greedy) {
  Model model(golden.checkpoint, threads, chunk);
  const size_t vocabulary = model.config().vocabulary;
  SequenceState sequence(model.config(), golden.prompt_ids.size() + golden.greedy_ids.size());
  Logits result;
  result.prompt.resize(golden.prompt_ids.size() * vocabulary);
  for (size_t done = 0; done < golden.prompt_ids.size(); done += chunk) {
    std::vector<Row> rows;
    for (size_t i = done; i < std::min(done + chunk, golden.prompt_ids.size()); ++i) {
      rows.push_back({.sequence = &sequence, .token = golden.prompt_ids[i], .wants_logits = true});
    }
    model.transformer.Forward(
        rows, std::span(result.prompt).subspan(done * vocabulary, rows.size() * vocabulary));
  }
  if (!golden.kda_state.empty()) {
    const std::span<const std::byte> state = sequence.KdaState(golden.state_layer);
    result.kda_state.resize(state.size() / sizeof(float));
    std::ranges::copy(state, std::as_writable_bytes(std::span(result.kda_state)).begin());
  }
  std::vector<float> last(result.prompt.end() - static_cast<ptrdiff_t>(vocabulary),
                          result.prompt.end());
  for (size_t n = 0; n < greedy; ++n) {
    result.greedy.insert(result.greedy.end(), last.begin(), last.end());
    result.tokens.push_back(ArgMax(last));
    const Row row = {.sequence = &sequence, .token = result.tokens.back(), .wants_logits = true};
    model.transformer.Forward({&row, 1}, last);
  }
  return result;
}

class Golden : public testing::TestWithParam<std::filesystem::path> {
 protected:
  void TearDown() override { kernels::UseIsa("auto"); }
};

TEST_P(Golden, LogitsTokensAndStateAreRight) {
  const GoldenCase golden = LoadGoldenCase(GetParam());
  const Logits logits =
      ComputeLogits(golden, 1, golden.prompt_ids.size(), golden.greedy_ids.size());
  ASSERT_EQ(logits.prompt.size(), golden.prompt_logits.size());
  EXPECT_LE(RelativeL2(logits.prompt.data(), golden.prompt_logits.data(), logits.prompt.size()),
            1e-5);
  EXPECT_EQ(logits.tokens, golden.greedy_ids);
  ASSERT_EQ(logits.greedy.size(), golden.greedy_logits.size());
  EXPECT_LE(RelativeL2(logits.greedy.data(), golden.greedy_logits.data(), logits.greedy.size()),
            1e-5);
  ASSERT_EQ(logits.kda_state.size(), golden.kda_state.size());
  if (!golden.kda_state.empty()) {
    EXPECT_LE(RelativeL2(logits.kda_state.data(), golden.kda_state.data(), golden.kda_state.size()),
              1e-5);
  }
}

TEST_P(Golden, EveryBitIsTheSameForAllChunksThreadsAndInstructionSets) {
  constexpr size_t kGreedy = 3;
  const GoldenCase golden = LoadGoldenCase(GetParam());
  const Logits expected = ComputeLogits(golden, 1, golden.prompt_ids.size(), kGreedy);
  for (const std::string& isa : kernels::UsableIsas()) {
    kernels::UseIsa(isa);
    for (const size_t threads : {1, 2}) {
      for (const size_t chunk : {size_t{1}, size_t{7}, golden.prompt_ids.size()}) {
        const Logits other = ComputeLogits(golden, threads, chunk, kGreedy);
        EXPECT_EQ(other.prompt, expected.prompt) << isa << " " << threads << " " << chunk;
        EXPECT_EQ(other.greedy, expected.greedy) << isa << " " << threads << " " << chunk;
        EXPECT_EQ(other.kda_state, expected.kda_state) << isa << " " << threads << " " << chunk;
      }
    }
  }
}

TEST_P(Golden, ASequenceIsTheSameAmongOthersAsAlone) {
  const GoldenCase golden = LoadGoldenCase(GetParam());
  const Logits alone = ComputeLogits(golden, 1, golden.prompt_ids.size(), 0);
  constexpr size_t kSequences = 4;
  constexpr size_t kMaxRows = 16;
  Model model(golden.checkpoint, 2, kMaxRows);
  const size_t vocabulary = model.config().vocabulary;
  std::vector<SequenceState> states;
  std::vector<size_t> done(kSequences, 0);
  for (size_t s = 0; s < kSequences; ++s) states.emplace_back(model.config(), 64);
  std::mt19937 random(7);
  // Every sequence takes the same prompt at its own pace, in changing company.
  for (;;) {
    std::vector<Row> rows;
    std::vector<float> expected;
    for (size_t s = 0; s < kSequences; ++s) {
      const size_t left = golden.prompt_ids.size() - done[s];
      const size_t count = std::min<size_t>(left, random() % 4);
      for (size_t i = 0; i < count; ++i) {
        const size_t at = (done[s] + i) * vocabulary;
        const bool wants = random() % 2 == 0;
        rows.push_back({&states[s], golden.prompt_ids[done[s] + i], wants});
        if (!wants) continue;
        expected.insert(expected.end(), alone.prompt.begin() + static_cast<ptrdiff_t>(at),
                        alone.prompt.begin() + static_cast<ptrdiff_t>(at + vocabulary));
      }
      done[s] += count;
    }
    if (!rows.empty()) {
      std::vector<float> logits(expected.size());
      model.transformer.Forward(rows, logits);
      ASSERT_EQ(logits, expected);
    }
    if (std::ranges::count(done, golden.prompt_ids.size()) == kSequences) break;
  }
}

std::string CaseName(const testing::TestParamInfo<std::filesystem::path>& test_case) {
  std::string name = test_case.param.filename();
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden, testing::ValuesIn(GoldenFolders()), CaseName);

// What the reference gives with a mistake put in on purpose; were the engine to make the same one,
// the tests above would fail.
TEST(GoldenMistakes, EachOfTheThreeSilentMistakesGivesOtherTokensThanTheGoldenOnes) {
  const std::filesystem::path root = KIMI_K3_SOURCE_DIR "/tests/data/golden";
  const auto mistakes =
      nlohmann::json::parse(ReadWholeFile(root / "mistakes.json", uint64_t{1} << 24));
  for (const char* name :
       {"a_log_per_channel", "clamped_softplus_decay", "experts_weighed_with_bias"}) {
    size_t caught = 0;
    for (const auto& [folder, tokens] : mistakes.at(name).items()) {
      const GoldenCase golden = LoadGoldenCase(root / folder);
      if (tokens.get<std::vector<int32_t>>() != golden.greedy_ids) ++caught;
    }
    EXPECT_GE(caught, 1U) << name;
  }
}

}  // namespace
}  // namespace kimi_k3

// Tests of guesses: how many are checked, that texts stay the same, and what that costs.
#include "engine/speculation.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/golden_engine.h"
#include "kimi_k3/generation.h"
#include "kimi_k3/session.h"

namespace kimi_k3 {
namespace {

// Proposes what a known text goes on with, each token wrong with the given probability.
class KnownText final : public Drafter {
 public:
  KnownText(std::vector<TokenId> text, double wrong) : text_(std::move(text)), wrong_(wrong) {}
  std::vector<TokenId> Propose(std::span<const TokenId> text, size_t most) override {
    std::vector<TokenId> guesses;
    std::uniform_real_distribution<double> draw(0, 1);
    for (size_t i = text.size(); i < text_.size() && guesses.size() < most; ++i) {
      guesses.push_back(draw(random_) < wrong_ ? (text_[i] + 1) % 5 : text_[i]);
    }
    return guesses;
  }

 private:
  std::vector<TokenId> text_;
  double wrong_;
  std::mt19937 random_{3};
};

std::vector<TokenId> Joined(std::vector<TokenId> a, std::span<const TokenId> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

bool GoOn(TokenId /*token*/) { return true; }

class Speculating : public testing::TestWithParam<std::string> {
 protected:
  static Engine Open(size_t tentative_rows, size_t chunk = 0) {
    EngineOptions options = GoldenOptions(GetParam(), 64, chunk);
    options.tentative_rows = tentative_rows;
    return Engine::Open(options);
  }
  const std::vector<TokenId> prompt_ = GoldenIds(GetParam(), "prompt_ids");
  const std::vector<TokenId> greedy_ = GoldenIds(GetParam(), "greedy_ids");
};

TEST_P(Speculating, TheTextIsTheGoldenOneWhateverIsGuessed) {
  for (const double wrong : {0.0, 0.3, 1.0}) {
    for (const size_t most : {1, 4, 9}) {
      Engine engine = Open(most);
      Sequence sequence = engine.NewSequence();
      KnownText drafter(Joined(prompt_, greedy_), wrong);
      std::vector<TokenId> seen;
      const GenerationResult result =
          Generate(engine, sequence, prompt_,
                   {.max_tokens = greedy_.size(), .ignore_eos = true, .drafter = &drafter},
                   [&](TokenId token) {
                     seen.push_back(token);
                     return true;
                   });
      EXPECT_EQ(result.tokens, greedy_);
      EXPECT_EQ(seen, greedy_);
      EXPECT_EQ(result.reason, StopReason::kMaxTokens);
      const std::vector<TokenId> known =
          Joined(prompt_, std::span(greedy_).first(greedy_.size() - 1));
      EXPECT_TRUE(std::ranges::equal(sequence.tokens(), known));
      const EngineCounters counters = engine.counters();
      EXPECT_GT(counters.tentative_rows, 0U);
      if (wrong == 0.0) {
        EXPECT_EQ(counters.accepted_rows, counters.tentative_rows);
      } else if (wrong == 1.0) {
        EXPECT_EQ(counters.accepted_rows, 0U);
      }
    }
  }
}

// One token after another, from a state that has seen guesses come and go.
TEST_P(Speculating, TheStateIsWhatItWouldBeWithout) {
  Engine engine = Open(4);
  Sequence plain = engine.NewSequence();
  Sequence sequence = engine.NewSequence();
  KnownText drafter(Joined(prompt_, greedy_), 0.3);
  const size_t half = greedy_.size() / 2;
  Generate(engine, plain, prompt_, {.max_tokens = half, .ignore_eos = true}, GoOn);
  Generate(engine, sequence, prompt_, {.max_tokens = half, .ignore_eos = true, .drafter = &drafter},
           GoOn);
  std::vector<float> expected(engine.vocabulary());
  std::vector<float> logits(engine.vocabulary());
  const TokenId next = greedy_[half - 1];
  engine.Forward({{{.sequence = &plain, .token = next, .wants_logits = true}}}, expected);
  engine.Forward({{{.sequence = &sequence, .token = next, .wants_logits = true}}}, logits);
  EXPECT_EQ(logits, expected);
}

// How many are guessed depends on how long passes take, but for the first.
TEST_P(Speculating, EveryRightGuessSavesAPass) {
  Engine engine = Open(4);
  Sequence sequence = engine.NewSequence();
  KnownText drafter(Joined(prompt_, greedy_), 0.0);
  Generate(engine, sequence, prompt_,
           {.max_tokens = greedy_.size(), .ignore_eos = true, .drafter = &drafter}, GoOn);
  const EngineCounters counters = engine.counters();
  EXPECT_GT(counters.accepted_rows, 0U);
  EXPECT_EQ(counters.passes + counters.accepted_rows, greedy_.size());
}

TEST_P(Speculating, SampledTextsAreTheSameToo) {
  Engine engine = Open(4);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const GenerationOptions options = {
        .max_tokens = 16,
        .sampling = {.temperature = 1.0F, .top_p = 0.95F, .repeat_penalty = 1.1F, .seed = seed},
        .ignore_eos = true};
    Sequence sequence = engine.NewSequence();
    const auto alone = Generate(engine, sequence, prompt_, options, GoOn).tokens;
    for (const double wrong : {0.0, 0.5}) {
      sequence.Reset();
      KnownText drafter(Joined(prompt_, alone), wrong);
      GenerationOptions guessing = options;
      guessing.drafter = &drafter;
      EXPECT_EQ(Generate(engine, sequence, prompt_, guessing, GoOn).tokens, alone);
    }
  }
}

TEST_P(Speculating, StoppingAtAnyTokenLeavesTheSequenceBeforeIt) {
  Engine engine = Open(4);
  for (size_t stop = 1; stop <= greedy_.size(); ++stop) {
    Sequence sequence = engine.NewSequence();
    KnownText drafter(Joined(prompt_, greedy_), 0.0);
    size_t seen = 0;
    const GenerationResult result = Generate(
        engine, sequence, prompt_, {.max_tokens = 1000, .ignore_eos = true, .drafter = &drafter},
        [&](TokenId) { return ++seen < stop; });
    EXPECT_EQ(result.reason, StopReason::kCaller);
    EXPECT_EQ(sequence.tokens().size(), prompt_.size() + stop - 1);
  }
}

TEST_P(Speculating, AFullContextEndsTheTextAsWithout) {
  EngineOptions options = GoldenOptions(GetParam(), prompt_.size() + 6);
  options.tentative_rows = 4;
  Engine engine = Engine::Open(options);
  Sequence sequence = engine.NewSequence();
  KnownText drafter(Joined(prompt_, greedy_), 0.0);
  const GenerationResult result =
      Generate(engine, sequence, prompt_,
               {.max_tokens = 1000, .ignore_eos = true, .drafter = &drafter}, GoOn);
  EXPECT_EQ(result.reason, StopReason::kContextFull);
  EXPECT_TRUE(std::ranges::equal(result.tokens, std::span(greedy_).first(7)));
}

TEST_P(Speculating, PassesOfOneRowHaveNoRoomForGuesses) {
  Engine engine = Open(4, 1);
  ASSERT_EQ(engine.max_rows(), 1U);
  Sequence sequence = engine.NewSequence();
  KnownText drafter(Joined(prompt_, greedy_), 0.0);
  EXPECT_EQ(Generate(engine, sequence, prompt_,
                     {.max_tokens = greedy_.size(), .ignore_eos = true, .drafter = &drafter}, GoOn)
                .tokens,
            greedy_);
  EXPECT_EQ(engine.counters().tentative_rows, 0U);
}

INSTANTIATE_TEST_SUITE_P(Golden, Speculating, testing::Values("k3", "kimi-linear"),
                         [](const auto& golden) {
                           return std::string(golden.param == "k3" ? "K3" : "KimiLinear");
                         });

// Counts how often it is asked, and guesses nothing but zeros.
class Zeros final : public Drafter {
 public:
  std::vector<TokenId> Propose(std::span<const TokenId> /*text*/, size_t most) override {
    ++asked;
    return std::vector<TokenId>(most, 0);
  }
  size_t asked = 0;
};

TEST(Speculation, ChecksMoreTheOftenerItIsRight) {
  Zeros drafter;
  const PassCost cost;
  Speculation speculation(drafter, 8);
  const size_t first = speculation.BestLength(cost, {});
  EXPECT_GT(first, 0U);
  for (int i = 0; i < 30; ++i) speculation.Checked(4, 4);
  EXPECT_GT(speculation.BestLength(cost, {}), first);
}

TEST(Speculation, LeavesGuessesOutWhereTheyAreWrongButForATrialNowAndThen) {
  Zeros drafter;
  PassCost cost;
  Speculation speculation(drafter, 8);
  const auto guess = [&] {
    PassOutlook pass;
    const size_t proposed = speculation.Propose({}, 100, cost, pass).size();
    EXPECT_EQ(pass.rows, 1 + proposed);
    cost.Saw(pass.rows, 1 + 0.2 * static_cast<double>(proposed));
    return proposed;
  };
  size_t guesses = 0;
  for (int i = 0; i < 1000; ++i) {
    const size_t proposed = guess();
    speculation.Checked(proposed, 0);
    guesses += proposed;
  }
  EXPECT_GT(guesses, 10U);
  EXPECT_LT(guesses, 60U);
  for (int i = 0; i < 1000; ++i) {
    const size_t proposed = guess();
    speculation.Checked(proposed, proposed);
  }
  EXPECT_EQ(speculation.BestLength(cost, {}), 8U);
}

TEST(Speculation, ChecksFewerTheMoreOneCosts) {
  const auto length_at = [](double share) {
    Zeros drafter;
    PassCost cost;
    Speculation speculation(drafter, 8);
    for (int i = 0; i < 100; ++i) {
      cost.Saw(1, 1.0);
      cost.Saw(5, 1 + 4 * share);
      speculation.Checked(4, 3);
    }
    return speculation.BestLength(cost, {});
  };
  EXPECT_GT(length_at(0.05), length_at(0.3));
  EXPECT_EQ(length_at(1.0), 0U);
}

// One row more costs a pass of many a smaller share, but it also brings a smaller share.
TEST(Speculation, ChecksFewerWhereOtherTextsShareThePass) {
  Zeros drafter;
  const PassCost cost;
  Speculation speculation(drafter, 8);
  for (int i = 0; i < 4; ++i) speculation.Checked(4, 3);
  const size_t alone = speculation.BestLength(cost, {});
  const size_t among_six = speculation.BestLength(cost, {.rows = 6, .tokens = 6});
  EXPECT_GT(alone, among_six);
  EXPECT_GT(among_six, 0U);
}

TEST(Speculation, NeverProposesMoreThanThereIsRoomFor) {
  Zeros drafter;
  const PassCost cost;
  Speculation speculation(drafter, 8);
  PassOutlook pass;
  EXPECT_LE(speculation.Propose({}, 1, cost, pass).size(), 1U);
  EXPECT_EQ(speculation.Propose({}, 0, cost, pass).size(), 0U);
}

}  // namespace
}  // namespace kimi_k3

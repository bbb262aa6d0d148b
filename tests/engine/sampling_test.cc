// Choosing tokens: what each option keeps, and that what is drawn has the right distribution.
#include "kimi_k3/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include "kimi_k3/error.h"

namespace kimi_k3 {
namespace {

std::vector<float> LogitsOf(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

std::vector<TokenId> HistoryOf(size_t length) { return std::vector<TokenId>(length, 0); }

// How often each token is drawn at positions 0 .. draws-1.
std::vector<size_t> Count(const SamplingOptions& options, const std::vector<float>& logits,
                          size_t draws) {
  Sampler sampler(options);
  const std::vector<TokenId> history = HistoryOf(draws);
  std::vector<size_t> counts(logits.size(), 0);
  for (size_t n = 0; n < draws; ++n) {
    ++counts.at(static_cast<size_t>(sampler.Sample(logits, std::span(history).first(n))));
  }
  return counts;
}

// Which tokens are ever drawn.
std::vector<TokenId> Drawn(const SamplingOptions& options, const std::vector<float>& logits) {
  const std::vector<size_t> counts = Count(options, logits, 4000);
  std::vector<TokenId> drawn;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) drawn.push_back(static_cast<TokenId>(i));
  }
  return drawn;
}

// Pearson's statistic of the counts, where token i is expected with probability p[i]; has one
// degree of freedom less than there are tokens of nonzero probability.
double ChiSquare(const std::vector<size_t>& counts, const std::vector<double>& p) {
  const double draws =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (p[i] == 0) {
      if (counts[i] != 0) return HUGE_VAL;
      continue;
    }
    const double difference = static_cast<double>(counts[i]) - draws * p[i];
    sum += difference * difference / (draws * p[i]);
  }
  return sum;
}

const std::vector<double> kSix = {0.05, 0.30, 0.02, 0.25, 0.28, 0.10};
// Exceeded once in a million times by chi-square with 5 degrees of freedom, and more rarely with
// fewer.
constexpr double kChiSquareBound = 35.9;

TEST(Greedy, TakesTheMostLikelyAndTheLowestIdOfEquals) {
  Sampler sampler({});
  EXPECT_EQ(sampler.Sample(std::vector<float>{1, 5, -3, 5, 5}, {}), 1);
  EXPECT_EQ(sampler.Sample(std::vector<float>{-2, -2}, {}), 0);
  EXPECT_EQ(sampler.Sample(std::vector<float>{7}, {}), 0);
  EXPECT_EQ(sampler.Sample(std::vector<float>{0.0F, -0.0F, 1e-30F}, {}), 2);
}

TEST(Greedy, DependsOnNeitherSeedNorFilters) {
  const std::vector<float> logits = LogitsOf(kSix);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Sampler sampler({.top_k = 3, .top_p = 0.1F, .min_p = 0.9F, .seed = seed});
    EXPECT_EQ(sampler.Sample(logits, HistoryOf(seed)), 1);
  }
}

TEST(Draws, FollowTheProbabilities) {
  for (const uint64_t seed : {0, 1, 12345}) {
    const auto counts = Count({.temperature = 1, .seed = seed}, LogitsOf(kSix), 20000);
    EXPECT_LT(ChiSquare(counts, kSix), kChiSquareBound) << seed;
  }
}

// The positions of one seed might be good and the seeds of one position bad.
TEST(Draws, FollowTheProbabilitiesOverTheSeedsOfOnePositionToo) {
  std::vector<size_t> counts(kSix.size(), 0);
  const std::vector<float> logits = LogitsOf(kSix);
  const std::vector<TokenId> history = HistoryOf(17);
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    ++counts.at(
        static_cast<size_t>(Sampler({.temperature = 1, .seed = seed}).Sample(logits, history)));
  }
  EXPECT_LT(ChiSquare(counts, kSix), kChiSquareBound);
}

// Nor may one draw tell the next: pairs of neighbours are distributed as a product.
TEST(Draws, AreIndependentFromOnePositionToTheNext) {
  constexpr size_t kPairs = 20000;
  const std::vector<double> half = {0.5, 0.5};
  const std::vector<float> logits = LogitsOf(half);
  Sampler sampler({.temperature = 1, .seed = 3});
  const std::vector<TokenId> history = HistoryOf(2 * kPairs);
  std::vector<size_t> counts(4, 0);
  for (size_t n = 0; n < kPairs; ++n) {
    const auto a = sampler.Sample(logits, std::span(history).first(2 * n));
    const auto b = sampler.Sample(logits, std::span(history).first(2 * n + 1));
    ++counts.at(static_cast<size_t>(2 * a + b));
  }
  EXPECT_LT(ChiSquare(counts, {0.25, 0.25, 0.25, 0.25}), kChiSquareBound);
}

// Nor may one seed give the draws of its neighbour a few positions later.
TEST(Draws, AreIndependentFromOneSeedToTheNext) {
  constexpr size_t kDraws = 2000;
  constexpr size_t kShifts = 5;
  const std::vector<float> logits(64, 0.0F);
  const std::vector<TokenId> history = HistoryOf(kDraws + kShifts);
  const auto draws = [&](uint64_t seed) {
    Sampler sampler({.temperature = 1, .seed = seed});
    std::vector<TokenId> tokens;
    for (size_t n = 0; n < kDraws + kShifts; ++n) {
      tokens.push_back(sampler.Sample(logits, std::span(history).first(n)));
    }
    return tokens;
  };
  const std::vector<TokenId> a = draws(6);
  const std::vector<TokenId> b = draws(7);
  for (size_t shift = 0; shift <= kShifts; ++shift) {
    size_t forwards = 0;
    size_t backwards = 0;
    for (size_t n = 0; n < kDraws; ++n) {
      forwards += a[n + shift] == b[n] ? 1U : 0U;
      backwards += a[n] == b[n + shift] ? 1U : 0U;
    }
    // One in 64 is 31; a hundred is twelve standard deviations away.
    EXPECT_LT(forwards, 100U) << shift;
    EXPECT_LT(backwards, 100U) << shift;
  }
}

TEST(Draws, TemperatureFlattensAndSharpens) {
  for (const double temperature : {0.5, 2.0}) {
    std::vector<double> expected;
    for (const double p : kSix) expected.push_back(std::pow(p, 1 / temperature));
    const double sum = std::accumulate(expected.begin(), expected.end(), 0.0);
    for (double& p : expected) p /= sum;
    const auto counts =
        Count({.temperature = static_cast<float>(temperature), .seed = 4}, LogitsOf(kSix), 20000);
    EXPECT_LT(ChiSquare(counts, expected), kChiSquareBound) << temperature;
  }
  EXPECT_EQ(Drawn({.temperature = 1e-30F}, LogitsOf(kSix)), (std::vector<TokenId>{1}));
}

TEST(Draws, AreTheSameForTheSameSeedPositionAndLogitsWhateverCameBefore) {
  std::mt19937 random(9);
  std::vector<std::vector<float>> logits(60, std::vector<float>(40));
  for (auto& row : logits) {
    for (float& logit : row) logit = static_cast<float>(random() % 1000) / 100.0F;
  }
  const SamplingOptions options = {.temperature = 1.3F, .top_k = 25, .top_p = 0.97F, .seed = 77};
  Sampler steady(options);
  std::vector<TokenId> expected;
  for (size_t n = 0; n < logits.size(); ++n) {
    expected.push_back(steady.Sample(logits[n], HistoryOf(n)));
  }
  // A sampler used at random positions, and one made anew each time, draw the same.
  Sampler wild(options);
  for (size_t i = 0; i < 200; ++i) {
    const size_t n = random() % logits.size();
    EXPECT_EQ(wild.Sample(logits[n], HistoryOf(n)), expected[n]);
    EXPECT_EQ(Sampler(options).Sample(logits[n], HistoryOf(n)), expected[n]);
  }
  SamplingOptions other = options;
  other.seed = 78;
  size_t different = 0;
  for (size_t n = 0; n < logits.size(); ++n) {
    different += Sampler(other).Sample(logits[n], HistoryOf(n)) != expected[n] ? 1U : 0U;
  }
  EXPECT_GT(different, 10U);
}

TEST(TopK, KeepsTheMostLikely) {
  const std::vector<float> logits = LogitsOf(kSix);
  EXPECT_EQ(Drawn({.temperature = 1, .top_k = 1}, logits), (std::vector<TokenId>{1}));
  EXPECT_EQ(Drawn({.temperature = 1, .top_k = 3}, logits), (std::vector<TokenId>{1, 3, 4}));
  for (const size_t all :
       {size_t{0}, kSix.size(), kSix.size() + 1, std::numeric_limits<size_t>::max()}) {
    EXPECT_EQ(Drawn({.temperature = 1, .top_k = all}, logits).size(), kSix.size()) << all;
  }
  // The lower ids of equals.
  EXPECT_EQ(Drawn({.temperature = 1, .top_k = 2}, {1, 3, 3, 3}), (std::vector<TokenId>{1, 2}));
}

TEST(TopK, KeepsTheProportionsOfWhatIsLeft) {
  const auto counts = Count({.temperature = 1, .top_k = 3, .seed = 5}, LogitsOf(kSix), 20000);
  EXPECT_LT(ChiSquare(counts, {0, 0.30 / 0.83, 0, 0.25 / 0.83, 0.28 / 0.83, 0}), kChiSquareBound);
}

TEST(TopP, KeepsTheFewestWhoseSumReachesIt) {
  const std::vector<float> logits = LogitsOf(kSix);
  const auto drawn = [&](float p) { return Drawn({.temperature = 1, .top_p = p}, logits); };
  EXPECT_EQ(drawn(0.0F), (std::vector<TokenId>{1}));
  EXPECT_EQ(drawn(0.29F), (std::vector<TokenId>{1}));
  EXPECT_EQ(drawn(0.31F), (std::vector<TokenId>{1, 4}));
  EXPECT_EQ(drawn(0.57F), (std::vector<TokenId>{1, 4}));
  EXPECT_EQ(drawn(0.59F), (std::vector<TokenId>{1, 3, 4}));
  EXPECT_EQ(drawn(0.97F), (std::vector<TokenId>{0, 1, 3, 4, 5}));
  EXPECT_EQ(drawn(1.0F).size(), kSix.size());
}

TEST(TopP, CountsWithinWhatTopKLeft) {
  // Of the three left 0.30 is 36 per cent.
  EXPECT_EQ(Drawn({.temperature = 1, .top_k = 3, .top_p = 0.35F}, LogitsOf(kSix)),
            (std::vector<TokenId>{1}));
  EXPECT_EQ(Drawn({.temperature = 1, .top_k = 3, .top_p = 0.38F}, LogitsOf(kSix)),
            (std::vector<TokenId>{1, 4}));
}

TEST(MinP, KeepsWhatIsLikelyBesideTheMostLikely) {
  const std::vector<float> logits = LogitsOf(kSix);
  const auto drawn = [&](float p) { return Drawn({.temperature = 1, .min_p = p}, logits); };
  EXPECT_EQ(drawn(1.0F), (std::vector<TokenId>{1}));
  EXPECT_EQ(drawn(0.9F), (std::vector<TokenId>{1, 4}));
  EXPECT_EQ(drawn(0.8F), (std::vector<TokenId>{1, 3, 4}));
  EXPECT_EQ(drawn(0.1F), (std::vector<TokenId>{0, 1, 3, 4, 5}));
  EXPECT_EQ(drawn(0.0F).size(), kSix.size());
  // Equals of the most likely are at least as likely.
  EXPECT_EQ(Drawn({.temperature = 1, .min_p = 1}, {2, 0, 2}), (std::vector<TokenId>{0, 2}));
  const auto counts = Count({.temperature = 1, .min_p = 0.8F, .seed = 6}, logits, 20000);
  EXPECT_LT(ChiSquare(counts, {0, 0.30 / 0.83, 0, 0.25 / 0.83, 0.28 / 0.83, 0}), kChiSquareBound);
}

TEST(RepeatPenalty, DividesPositiveLogitsAndMultipliesNegativeOnes) {
  Sampler sampler({.repeat_penalty = 2});
  const std::vector<float> positive = {4, 3, 1};
  EXPECT_EQ(sampler.Sample(positive, {}), 0);
  EXPECT_EQ(sampler.Sample(positive, std::vector<TokenId>{0}), 1);
  EXPECT_EQ(sampler.Sample(positive, std::vector<TokenId>{0, 1}), 0);
  EXPECT_EQ(sampler.Sample(std::vector<float>{-1, -1.5F}, std::vector<TokenId>{0}), 1);
  EXPECT_EQ(sampler.Sample(std::vector<float>{-1, -2.5F}, std::vector<TokenId>{0}), 0);
}

TEST(RepeatPenalty, CountsATokenOnceHoweverOftenItCame) {
  Sampler sampler({.repeat_penalty = 2});
  EXPECT_EQ(sampler.Sample(std::vector<float>{5, 2}, std::vector<TokenId>(50, 0)), 0);
}

TEST(RepeatPenalty, LooksAtTheRecentTokensAlone) {
  const std::vector<float> logits = {4, 3.5F, 2};
  const std::vector<TokenId> history = {0, 1, 1, 1};
  const auto sample = [&](size_t last) {
    return Sampler({.repeat_penalty = 3, .repeat_last = last}).Sample(logits, history);
  };
  EXPECT_EQ(sample(1), 0);
  EXPECT_EQ(sample(3), 0);
  // With the 0 at the far end both are recent.
  EXPECT_EQ(sample(4), 2);
  EXPECT_EQ(sample(0), 2);
  EXPECT_EQ(sample(99), 2);
}

TEST(RepeatPenalty, IgnoresIdsThatHaveNoLogit) {
  EXPECT_EQ(Sampler({.repeat_penalty = 2}).Sample({{4, 3}}, std::vector<TokenId>{-1, 2, 99999}), 0);
}

TEST(RepeatPenalty, AnExtremeOneStillDrawsByLikelihood) {
  const std::vector<TokenId> history = {1};
  const std::vector<float> logits = {130, 20, 129, 100};
  for (uint64_t seed = 0; seed < 100; ++seed) {
    EXPECT_EQ(
        Sampler({.temperature = 1, .repeat_penalty = 1e-38F, .seed = seed}).Sample(logits, history),
        1);
    EXPECT_NE(
        Sampler({.temperature = 1, .repeat_penalty = 1e38F, .seed = seed}).Sample(logits, history),
        1)
        << seed;
  }
}

// Logits as far apart as floats go; nothing improbable may ever come out.
TEST(Draws, ExtremeLogitsAreDrawnByLikelihood) {
  constexpr float kMost = std::numeric_limits<float>::max();
  EXPECT_EQ(Drawn({.temperature = 1}, {-kMost, kMost, 0, kMost, -kMost}),
            (std::vector<TokenId>{1, 3}));
  EXPECT_EQ(Drawn({.temperature = 1}, {-kMost, -kMost}), (std::vector<TokenId>{0, 1}));
  EXPECT_EQ(Drawn({.temperature = std::numeric_limits<float>::denorm_min()}, {1, 2, 1.5F}),
            (std::vector<TokenId>{1}));
  EXPECT_EQ(Drawn({.temperature = kMost}, {-50, 80}), (std::vector<TokenId>{0, 1}));
  EXPECT_EQ(Drawn({.temperature = 1, .top_p = 0.5F, .min_p = 0.5F}, {0, -kMost, -kMost}),
            (std::vector<TokenId>{0}));
}

TEST(SamplingOptions, ValuesOutOfRangeAreRefusedByName) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const auto expect_refused = [](const SamplingOptions& options, const std::string& name) {
    try {
      const Sampler sampler(options);
      ADD_FAILURE() << name << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  for (const float bad : {-0.1F, nan, infinity, -infinity}) {
    expect_refused({.temperature = bad}, "temperature");
  }
  for (const float bad : {-0.1F, 1.1F, nan, infinity}) {
    expect_refused({.top_p = bad}, "top-p");
    expect_refused({.min_p = bad}, "min-p");
  }
  for (const float bad : {0.0F, -1.0F, nan, infinity}) {
    expect_refused({.repeat_penalty = bad}, "repeat-penalty");
  }
  EXPECT_NO_THROW(Sampler({.temperature = 0, .top_p = 0, .min_p = 1, .repeat_penalty = 0.5F}));
}

}  // namespace
}  // namespace kimi_k3

// Routing: bias chooses and never weighs, ties, groups, softmax, refusal of what is not finite.
#include "kernels/router.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/elementwise.h"
#include "kernels/kernel_test_support.h"

namespace kimi_k3::kernels {
namespace {

using testing::ElementsAre;

KIMI_K3_ON_EVERY_ISA(RouterTest);

struct Choice {
  bool ok = false;
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Choice Route(const RouterRule& rule, std::vector<float> logits, const std::vector<float>& bias) {
  Choice choice;
  choice.ids.assign(rule.top_k, -1);
  choice.weights.assign(rule.top_k, -1.0F);
  std::vector<float> scratch(rule.experts);
  choice.ok = RouteRow(rule, logits.data(), bias.data(), scratch.data(), choice.ids.data(),
                       choice.weights.data());
  return choice;
}

// Sorts all experts, the plain way; groups by sorting too.
Choice PlainRoute(const RouterRule& rule, const std::vector<float>& logits,
                  const std::vector<float>& bias) {
  std::vector<double> scores;
  double total = 0.0;
  for (const float logit : logits) {
    scores.push_back(rule.softmax ? std::exp(double{logit})
                                  : 1.0 / (1.0 + std::exp(-double{logit})));
    total += scores.back();
  }
  std::vector<double> biased;
  for (size_t e = 0; e < rule.experts; ++e) {
    if (rule.softmax) scores[e] /= total;
    biased.push_back(scores[e] + bias[e]);
  }
  const size_t size = rule.experts / rule.groups;
  std::vector<std::pair<double, size_t>> groups;
  for (size_t g = 0; g < rule.groups; ++g) {
    std::vector<double> members(biased.begin() + g * size, biased.begin() + (g + 1) * size);
    std::sort(members.rbegin(), members.rend());
    groups.emplace_back(-(members[0] + (size > 1 ? members[1] : 0.0)), g);
  }
  std::sort(groups.begin(), groups.end());
  for (size_t k = rule.groups_kept; k < rule.groups; ++k) {
    const size_t g = groups[k].second;
    std::fill_n(biased.begin() + g * size, size, -std::numeric_limits<double>::infinity());
  }
  std::vector<int32_t> order(rule.experts);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return biased[a] > biased[b]; });
  order.resize(rule.top_k);
  double sum = 1e-20;
  for (const int32_t e : order) sum += scores[e];
  std::sort(order.begin(), order.end());
  Choice choice{true, order, {}};
  for (const int32_t e : order) {
    const double weight = rule.renormalize && rule.top_k > 1 ? scores[e] / sum : scores[e];
    choice.weights.push_back(static_cast<float>(weight * rule.scaling));
  }
  return choice;
}

TEST_P(RouterTest, AbsentExpertsAreNeverPickedAndChangeNoScore) {
  RouterRule rule = {.experts = 6, .top_k = 2};
  const std::vector<float> logits = {3.0F, 0.5F, -1.0F, 0.25F, 2.0F, 4.0F};
  const std::vector<float> bias(6, 0.0F);
  rule.first_present = 1;
  rule.last_present = 3;
  const Choice choice = Route(rule, logits, bias);
  ASSERT_TRUE(choice.ok);
  EXPECT_THAT(choice.ids, ElementsAre(1, 3));
  // Weights as if these two had been picked from all.
  const Choice forced = Route({.experts = 6, .top_k = 2}, logits, {0, 9.0F, 0, 9.0F, 0, 0});
  EXPECT_EQ(choice.weights, forced.weights);
  // However bad, what is present is picked.
  const Choice bad =
      Route(rule, {3.0F, -80.0F, -90.0F, -100.0F, 2.0F, 4.0F}, {0, -1e30F, -1e30F, -1e30F, 0, 0});
  EXPECT_THAT(bad.ids, ElementsAre(1, 2));
}

TEST_P(RouterTest, GroupsOfAbsentExpertsAreNotKept) {
  RouterRule rule = {.experts = 8, .top_k = 2, .groups = 4, .groups_kept = 1};
  const std::vector<float> bias(8, 0.0F);
  // Group 1 is the best, group 3 the best of those present; of group 2 one expert is there.
  const std::vector<float> logits = {0, 0, 5.0F, 5.0F, 4.0F, 4.0F, 1.0F, -3.0F};
  rule.first_present = 5;
  const Choice choice = Route(rule, logits, bias);
  ASSERT_TRUE(choice.ok);
  EXPECT_THAT(choice.ids, ElementsAre(6, 7));
}

TEST_P(RouterTest, AnAbsentExpertWhoseScoreIsNotFiniteIsDamageAllTheSame) {
  RouterRule rule = {.experts = 3, .top_k = 1};
  rule.last_present = 1;
  EXPECT_FALSE(Route(rule, {1.0F, 2.0F, std::numeric_limits<float>::quiet_NaN()}, {0, 0, 0}).ok);
}

TEST_P(RouterTest, AgreesWithSortingForManyRules) {
  uint32_t seed = 1;
  for (const bool softmax : {false, true}) {
    for (const size_t experts : {1, 8, 64, 384, 896, 1024}) {
      for (const size_t top_k : {1, 2, 8, 16, 100}) {
        if (top_k > experts) continue;
        for (const size_t groups : {1, 4, 8}) {
          if (experts % groups != 0 || experts < groups) continue;
          RouterRule rule{softmax, experts, top_k, groups, (groups + 1) / 2, true, 2.5F};
          if (top_k > experts / groups * rule.groups_kept) continue;
          for (const bool renormalize : {false, true}) {
            rule.renormalize = renormalize;
            const std::vector<float> logits = RandomFloats(experts, ++seed, -4.0F, 4.0F);
            const std::vector<float> bias = RandomFloats(experts, ++seed, -0.2F, 0.2F);
            const Choice choice = Route(rule, logits, bias);
            const Choice plain = PlainRoute(rule, logits, bias);
            ASSERT_TRUE(choice.ok);
            ASSERT_EQ(choice.ids, plain.ids) << experts << " experts, top " << top_k;
            for (size_t i = 0; i < top_k; ++i) {
              ASSERT_NEAR(choice.weights[i], plain.weights[i], 1e-5 * plain.weights[i]);
            }
          }
        }
      }
    }
  }
}

TEST_P(RouterTest, TheBiasChoosesAndNeverWeighs) {
  const Choice choice =
      Route({.experts = 4, .top_k = 2}, {0.0F, 0.0F, 0.0F, 0.0F}, {0.0F, 9.0F, 0.0F, 5.0F});
  ASSERT_TRUE(choice.ok);
  EXPECT_THAT(choice.ids, ElementsAre(1, 3));
  EXPECT_THAT(choice.weights, ElementsAre(0.5F, 0.5F));
}

TEST_P(RouterTest, TiesGoToTheLowerExpert) {
  const std::vector<float> bias(300);
  const Choice all_equal = Route({.experts = 300, .top_k = 4}, std::vector<float>(300), bias);
  EXPECT_THAT(all_equal.ids, ElementsAre(0, 1, 2, 3));
  std::vector<float> logits(300);
  logits[299] = logits[150] = logits[7] = 1.0F;
  EXPECT_THAT(Route({.experts = 300, .top_k = 2}, logits, bias).ids, ElementsAre(7, 150));
  EXPECT_THAT(Route({.experts = 300, .top_k = 5}, logits, bias).ids,
              ElementsAre(0, 1, 7, 150, 299));
}

TEST_P(RouterTest, TiesBetweenGroupsGoToTheLowerGroup) {
  const RouterRule rule{.experts = 12, .top_k = 2, .groups = 4, .groups_kept = 2};
  std::vector<float> logits(12);
  EXPECT_THAT(Route(rule, logits, std::vector<float>(12)).ids, ElementsAre(0, 1));
  logits[10] = 1.0F;  // the last group is best, of the others the first is kept
  EXPECT_THAT(Route(rule, logits, std::vector<float>(12)).ids, ElementsAre(0, 10));
}

TEST_P(RouterTest, TheBestExpertOfADroppedGroupIsNotPicked) {
  // Group 0 has the single best expert, groups 1 and 2 the better pairs.
  const RouterRule rule{.experts = 6, .top_k = 3, .groups = 3, .groups_kept = 2};
  const Choice choice = Route(rule, {3.0F, -9.0F, 2.0F, 2.0F, 1.9F, 1.8F}, std::vector<float>(6));
  EXPECT_THAT(choice.ids, ElementsAre(2, 3, 4));
}

TEST_P(RouterTest, NegativeBiasedScoresStillBeatDroppedGroups) {
  const RouterRule rule{.experts = 4, .top_k = 2, .groups = 2, .groups_kept = 1};
  const Choice choice = Route(rule, {0.0F, 0.0F, 0.0F, 0.0F}, {-5.0F, -5.0F, -4.0F, -4.0F});
  EXPECT_THAT(choice.ids, ElementsAre(2, 3));
}

TEST_P(RouterTest, OneExpertIsNotRenormalised) {
  const Choice choice =
      Route({.experts = 3, .top_k = 1, .scaling = 2.0F}, {0.0F, 1.0F, -1.0F}, {0.0F, 0.0F, 0.0F});
  EXPECT_THAT(choice.ids, ElementsAre(1));
  EXPECT_EQ(Bits(choice.weights[0]), Bits(2.0F * Sigmoid(1.0F)));
}

TEST_P(RouterTest, WeightsAreSummedFromTheBestDown) {
  const std::vector<float> logits = RandomFloats(64, 5, -4.0F, 4.0F);
  const std::vector<float> bias = RandomFloats(64, 6, -0.5F, 0.5F);
  const Choice choice = Route({.experts = 64, .top_k = 16}, logits, bias);
  std::vector<int32_t> order = choice.ids;
  const auto biased = [&](int32_t e) { return Sigmoid(logits[e]) + bias[e]; };
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return biased(a) > biased(b); });
  float sum = 0.0F;
  for (const int32_t e : order) sum += Sigmoid(logits[e]);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(Bits(choice.weights[i]), Bits(Sigmoid(logits[choice.ids[i]]) / (sum + 1e-20F)));
  }
}

TEST_P(RouterTest, RefusesWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const bool softmax : {false, true}) {
    for (const float bad : {std::nanf(""), kInfinity, -kInfinity}) {
      for (const size_t place : {0, 500, 895}) {
        std::vector<float> logits(896);
        logits[place] = bad;
        const RouterRule rule{.softmax = softmax, .experts = 896, .top_k = 16};
        EXPECT_FALSE(Route(rule, logits, std::vector<float>(896)).ok);
        std::vector<float> bias(896);
        bias[place] = bad;
        const Choice choice = Route(rule, std::vector<float>(896), bias);
        EXPECT_FALSE(choice.ok);
        EXPECT_EQ(choice.ids[0], -1);
      }
    }
  }
}

}  // namespace
}  // namespace kimi_k3::kernels

// Tests of guesses from what a text has said before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kimi_k3/drafter.h"

namespace kimi_k3 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<TokenId> Guess(const std::vector<TokenId>& text, size_t most = 3) {
  return MakeNgramDrafter()->Propose(text, most);
}

TEST(NgramDrafter, ProposesWhatFollowedTheSameTokensBefore) {
  EXPECT_THAT(Guess({1, 2, 3, 4, 5, 6, 1, 2}), ElementsAre(3, 4, 5));
  EXPECT_THAT(Guess({1, 2, 3, 4, 5, 6, 1, 2}, 1), ElementsAre(3));
  EXPECT_THAT(Guess({1, 2, 3, 1, 2}), ElementsAre(3, 1, 2));
}

TEST(NgramDrafter, TheLongestAgreementCountsThenTheLatest) {
  EXPECT_THAT(Guess({7, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2}, 1), ElementsAre(3));
  EXPECT_THAT(Guess({8, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2}, 1), ElementsAre(4));
}

TEST(NgramDrafter, ARunOfOneTokenGoesOn) {
  EXPECT_THAT(Guess({5, 5, 5, 5}), ElementsAre(5, 5, 5));
  EXPECT_THAT(Guess({1, 2, 1, 2, 1, 2}, 5), ElementsAre(1, 2, 1, 2, 1));
}

TEST(NgramDrafter, HasNoGuessWhereNothingRepeats) {
  EXPECT_THAT(Guess({}), IsEmpty());
  EXPECT_THAT(Guess({1}), IsEmpty());
  EXPECT_THAT(Guess({1, 2, 3, 4}), IsEmpty());
  EXPECT_THAT(Guess({1, 2, 9, 2}), IsEmpty());  // one token is too little
  EXPECT_THAT(Guess({1, 2, 1, 2}, 0), IsEmpty());
}

}  // namespace
}  // namespace kimi_k3

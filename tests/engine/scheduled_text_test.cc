// Texts as they are submitted: what is refused, and what is known of them.
#include "engine/scheduled_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/golden_engine.h"
#include "kimi_k3/error.h"

namespace kimi_k3 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string RefusalOf(const TextRequest& request) {
  const Engine engine = Engine::Open(GoldenOptions("k3", 8));
  try {
    CheckTextRequest(request, engine);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return {};
}

TEST(ScheduledText, WhatCannotBeServedIsRefused) {
  const std::vector<TokenId> eight(8, 1);
  EXPECT_THAT(RefusalOf({}), HasSubstr("empty"));
  EXPECT_THAT(RefusalOf({.prompt = std::vector<TokenId>(9, 1)}), HasSubstr("9 tokens"));
  EXPECT_THAT(RefusalOf({.prompt = eight, .begun = {1, 2}}), HasSubstr("no room"));
  EXPECT_THAT(RefusalOf({.prompt = {1}, .likely_tokens = 2, .begun = {1}}), HasSubstr("begun"));
  EXPECT_THAT(RefusalOf({.prompt = {1, 2}, .score_from = 0}), HasSubstr("scored"));
  EXPECT_THAT(RefusalOf({.prompt = {1, 2}, .score_from = 2}), HasSubstr("scored"));
  EXPECT_THAT(RefusalOf({.prompt = {1, -1}}), HasSubstr("token id -1"));
  EXPECT_THAT(RefusalOf({.prompt = {1}, .begun = {1'000'000}}), HasSubstr("token id 1000000"));
}

TEST(ScheduledText, WhatJustFitsIsNot) {
  const std::vector<TokenId> eight(8, 1);
  EXPECT_EQ(RefusalOf({.prompt = eight}), "");
  EXPECT_EQ(RefusalOf({.prompt = eight, .begun = {1}}), "");
  EXPECT_EQ(RefusalOf({.prompt = {1, 2}, .score_from = 1}), "");
}

TEST(ScheduledText, AnAnswerThatWasBegunIsPartOfItsHistory) {
  const ScheduledText text({.prompt = {1, 2}, .begun = {3}}, nullptr);
  EXPECT_THAT(text.history, ElementsAre(1, 2, 3));
  EXPECT_EQ(text.known_tokens(), 3U);
  EXPECT_THAT(text.reusable(), ElementsAre(1, 2, 3));
}

TEST(ScheduledText, OfAScoredTextWhatComesBeforeMayBeReused) {
  const ScheduledText text({.prompt = {1, 2, 3, 4}, .max_tokens = 0, .score_from = 2}, nullptr);
  EXPECT_THAT(text.reusable(), ElementsAre(1, 2));
  EXPECT_FALSE(text.IsScored(1));
  EXPECT_TRUE(text.IsScored(2));
  EXPECT_TRUE(text.IsScored(3));
  EXPECT_FALSE(text.IsScored(4));
  EXPECT_FALSE(text.WantsMore());
}

}  // namespace
}  // namespace kimi_k3

// How progress is told.
#include "server/progress_text.h"

#include <gtest/gtest.h>

namespace kimi_k3::server {
namespace {

using Phase = TextProgress::Phase;

TEST(ProgressText, SaysWhereATextStands) {
  EXPECT_EQ(DescribeProgress({.phase = Phase::kWaiting, .ahead = 0, .seconds_left = {}}),
            "waiting, next in line");
  EXPECT_EQ(DescribeProgress({.phase = Phase::kWaiting, .ahead = 1, .seconds_left = {}}),
            "waiting, 1 request before this one");
  EXPECT_EQ(DescribeProgress({.phase = Phase::kWaiting, .ahead = 2, .seconds_left = {}}),
            "waiting, 2 requests before this one");
  TextProgress progress = {.phase = Phase::kPrompt,
                           .prompt_tokens = 300,
                           .prompt_done = 256,
                           .layer = 34,
                           .layers = 93,
                           .seconds_left = 40.2};
  EXPECT_EQ(DescribeProgress(progress),
            "prefill 34/93 layers, 256 of 300 tokens done, about 40 s left");
  progress.seconds_left = 0.2;
  EXPECT_TRUE(DescribeProgress(progress).ends_with("about 1 s left"));
  progress.seconds_left = 600;
  EXPECT_TRUE(DescribeProgress(progress).ends_with("about 10 min left"));
  progress.seconds_left = 9000;
  EXPECT_TRUE(DescribeProgress(progress).ends_with("about 2.5 h left"));
  progress.seconds_left.reset();
  EXPECT_TRUE(DescribeProgress(progress).ends_with("tokens done"));
  EXPECT_EQ(
      DescribeProgress(
          {.phase = Phase::kAnswer, .generated = 4, .layer = 1, .layers = 93, .seconds_left = {}}),
      "token 5, 1/93 layers");
  // How long the answer takes nobody knows.
  EXPECT_EQ(
      DescribeProgress(
          {.phase = Phase::kAnswer, .generated = 4, .layer = 1, .layers = 93, .seconds_left = 9}),
      "token 5, 1/93 layers, this token in about 9 s");
}

}  // namespace
}  // namespace kimi_k3::server

// The flags that say how tokens are chosen.
#include "cli/sampling_flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace kimi_k3 {
namespace {

SamplingOptions Parsed(const std::string& line) {
  SamplingOptions sampling;
  CLI::App app;
  FlagGroup group(app, "Generation");
  AddSamplingFlags(group, sampling);
  app.parse(line);
  return sampling;
}

TEST(SamplingFlags, LeaveTheDefaultsWhereNothingIsSaid) {
  const SamplingOptions plain;
  const SamplingOptions parsed = Parsed("");
  EXPECT_EQ(parsed.temperature, plain.temperature);
  EXPECT_EQ(parsed.top_p, plain.top_p);
  EXPECT_EQ(parsed.seed, plain.seed);
}

TEST(SamplingFlags, EachSetsItsOwnOption) {
  const SamplingOptions parsed = Parsed(
      "--temp 0.5 --top-k 40 --top-p 0.9 --min-p 0.02 --repeat-penalty 1.1 --repeat-last-n 7 "
      "--seed 18446744073709551615");
  EXPECT_EQ(parsed.temperature, 0.5F);
  EXPECT_EQ(parsed.top_k, 40U);
  EXPECT_EQ(parsed.top_p, 0.9F);
  EXPECT_EQ(parsed.min_p, 0.02F);
  EXPECT_EQ(parsed.repeat_penalty, 1.1F);
  EXPECT_EQ(parsed.repeat_last, 7U);
  EXPECT_EQ(parsed.seed, UINT64_MAX);
}

TEST(SamplingFlags, RefuseWhatIsNoNumber) {
  EXPECT_THROW(Parsed("--temp warm"), Error);
  EXPECT_THROW(Parsed("--top-k 1.5"), Error);
  EXPECT_THROW(Parsed("--seed=-1"), Error);
}

TEST(SamplingFlags, TheHelpShowsWhatTheSeedIsWithoutOne) {
  SamplingOptions sampling;
  CLI::App app;
  FlagGroup group(app, "Generation");
  AddSamplingFlags(group, sampling, "another one each time");
  EXPECT_EQ(app.get_option("--seed")->get_default_str(), "another one each time");
}

}  // namespace
}  // namespace kimi_k3

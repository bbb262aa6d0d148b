// Flags of a batch: kept with its job, and compared.
#include "cli/batch_flags.h"

#include <gtest/gtest.h>

namespace kimi_k3 {
namespace {

TEST(BatchFlags, AreReadAsTheyWereWritten) {
  const BatchFlags flags = {{"--temp", "1"}, {"--model-name", "a \"b\"\n"}};
  const std::string line = BatchFlagsLine(flags);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(ReadBatchFlags(line), flags);
  EXPECT_EQ(ReadBatchFlags(BatchFlagsLine({})), BatchFlags{});
  for (const char* other : {"", "{}", "[]", "{\"flags\":[]}", "{\"flags\":{\"--temp\":1}}"}) {
    EXPECT_FALSE(ReadBatchFlags(other)) << other;
  }
}

TEST(BatchFlags, ThatChangedAreNamedWithBothValues) {
  EXPECT_EQ(ChangedBatchFlags({{"--temp", "1"}}, {{"--temp", "1"}}), "");
  EXPECT_EQ(ChangedBatchFlags({{"--seed", "0"}, {"--temp", "1"}}, {{"--seed", "2"}, {"-x", "y"}}),
            "--seed 0 then, 2 now; --temp 1 then, not given now; -x not given then, y now");
}

}  // namespace
}  // namespace kimi_k3

// Tests of finding a shard's header (what is refused of it: checkpoint_opener_test.cc).
#include "checkpoint/shard_header.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/checkpoint_fixture.h"

namespace kimi_k3 {
namespace {

TEST(ShardHeader, CountsOffsetsFromTheBeginningOfTheFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "m.safetensors";
  const std::string header = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  WriteShard(path, {header, "xyz"});
  SafetensorsHeaderParser parser;
  size_t seen = 0;
  VisitShardTensors(path, parser, [&](const HeaderTensor& tensor) {
    ++seen;
    EXPECT_EQ(tensor.name, "a");
    EXPECT_EQ(tensor.begin, 8 + header.size());
    EXPECT_EQ(tensor.end, 8 + header.size() + 3);
  });
  EXPECT_EQ(seen, 1U);
}

TEST(ShardHeader, ThrowsEveryProblemOfTheHeader) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "m.safetensors";
  WriteShard(path, {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "xyz!"});
  SafetensorsHeaderParser parser;
  EXPECT_THROW(VisitShardTensors(path, parser, [](const HeaderTensor&) {}), Error);
  WriteFile(path, "short");
  EXPECT_THROW(VisitShardTensors(path, parser, [](const HeaderTensor&) {}), Error);
}

}  // namespace
}  // namespace kimi_k3

// Names of shards are understood, and names that lead elsewhere are not taken.
#include "checkpoint/shard_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_fixture.h"

namespace kimi_k3 {
namespace {

TEST(ShardNames, ReadsNumberAndTotal) {
  const auto number = ParseShardNumber("model-00003-of-000096.safetensors");
  ASSERT_TRUE(number);
  EXPECT_EQ(number->number, 3U);
  EXPECT_EQ(number->total, 96U);
  for (const char* name : {"model.safetensors", "model-x-of-3.safetensors", "model-1-of-2.bin",
                           "xmodel-1-of-2.safetensors", "model-1-of-2.safetensors.partial"}) {
    EXPECT_FALSE(ParseShardNumber(name)) << name;
  }
  EXPECT_EQ(ShardLabel("model-00003-of-000096.safetensors"),
            "model-00003-of-000096.safetensors (number 3 of 96)");
  EXPECT_EQ(ShardLabel("weights"), "weights");
}

TEST(ShardNames, PlainNamesOnly) {
  EXPECT_TRUE(IsPlainFileName("model.safetensors"));
  for (const char* name : {"", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "._a"}) {
    EXPECT_FALSE(IsPlainFileName(name)) << name;
  }
  EXPECT_FALSE(IsPlainFileName(std::string_view("a\0b", 3)));
  EXPECT_FALSE(IsPlainFileName(std::string(256, 'a')));
}

TEST(ShardNames, ListsWithoutSideFilesAndSubfolders) {
  const TemporaryFolder folder;
  WriteFile(folder.path() / "b.safetensors", "");
  WriteFile(folder.path() / "a.safetensors", "");
  WriteFile(folder.path() / "._a.safetensors", "");
  WriteFile(folder.path() / "a.json", "");
  std::filesystem::create_directory(folder.path() / "sub");
  WriteFile(folder.path() / "sub" / "c.safetensors", "");
  EXPECT_THAT(ListSafetensors(folder.path()),
              testing::ElementsAre("a.safetensors", "b.safetensors"));
  EXPECT_TRUE(ListSafetensors(folder.path() / "none").empty());
}

}  // namespace
}  // namespace kimi_k3

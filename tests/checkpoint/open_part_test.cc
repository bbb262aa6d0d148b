// Opening a part of a model, and a model whose files lie in several folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_fixture.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kLayer = "language_model.model.layers.";

std::string OpenError(const std::vector<fs::path>& dirs, std::string_view part = {}) {
  try {
    Checkpoint::Open(dirs, part);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// Layers whose tensors all lie in shards other than `file`, as a part; "" where there are none.
std::string PartWithout(const CheckpointFixture& fixture, const std::string& file) {
  const nlohmann::json index = fixture.Index();
  for (size_t first = 0; first < 5; ++first) {
    for (size_t last = 4; last + 1 > first; --last) {
      bool free = true;
      for (const auto& [name, shard] : index.at("weight_map").items()) {
        const size_t at = name.find("layers.");
        if (at == std::string::npos) continue;
        const size_t layer = std::stoul(name.substr(at + 7));
        if (layer >= first && layer <= last && shard == file) free = false;
      }
      if (free) return "layers=" + std::to_string(first) + "-" + std::to_string(last);
      if (last == 0) break;
    }
  }
  return "";
}

TEST(OpenPart, ShardsThatItDoesNotNeedMayBeMissing) {
  size_t tried = 0;
  for (size_t number = 1; number <= 3; ++number) {
    CheckpointFixture fixture;
    const fs::path shard = fixture.ShardPath(number);
    // The head's shard is needed by every part.
    if (fixture.ShardOf("language_model.lm_head.weight") == shard) continue;
    const std::string part = PartWithout(fixture, shard.filename());
    ASSERT_NE(part, "");
    const Checkpoint whole = Checkpoint::Open({fixture.dir()}, part);
    fs::remove(shard);
    const Checkpoint pruned = Checkpoint::Open({fixture.dir()}, part);
    EXPECT_EQ(whole.shards().size(), 3U);
    EXPECT_EQ(pruned.shards().size(), 2U);
    for (const Shard& left : pruned.shards()) EXPECT_TRUE(fs::exists(left.path));
    const size_t layer = pruned.config().first_layer();
    EXPECT_EQ(pruned.ReadVector(Role::kInputNorm, layer),
              whole.ReadVector(Role::kInputNorm, layer));
    EXPECT_EQ(pruned.ReadVector(Role::kFinalNorm), whole.ReadVector(Role::kFinalNorm));
    EXPECT_THAT(OpenError({fixture.dir()}), HasSubstr("1 is missing"));
    ++tried;
  }
  EXPECT_EQ(tried, 2U);
}

TEST(OpenPart, ALinkToAShardOnAnAbsentDriveCountsAsMissing) {
  CheckpointFixture fixture;
  size_t number = 1;
  while (fixture.ShardOf("language_model.lm_head.weight") == fixture.ShardPath(number)) ++number;
  const fs::path shard = fixture.ShardPath(number);
  const std::string part = PartWithout(fixture, shard.filename());
  fs::remove(shard);
  fs::create_symlink("/nowhere/at/all", shard);
  EXPECT_EQ(OpenError({fixture.dir()}, part), "");
  EXPECT_THAT(OpenError({fixture.dir()}), HasSubstr(shard.string()));
}

TEST(OpenPart, OnlyMissingShardsThatItNeedsAreNamed) {
  CheckpointFixture fixture;
  const fs::path head = fixture.ShardOf("language_model.lm_head.weight");
  for (size_t number = 1; number <= 3; ++number) {
    const fs::path shard = fixture.ShardPath(number);
    if (shard == head) continue;
    const std::string part = PartWithout(fixture, shard.filename());
    CheckpointFixture broken;
    fs::remove(broken.ShardPath(number));
    fs::remove(broken.dir() / head.filename());
    EXPECT_THAT(OpenError({broken.dir()}, part),
                AllOf(HasSubstr("1 of the 3 files"), HasSubstr("1 that this part needs is missing"),
                      HasSubstr(head.filename().string()), Not(HasSubstr(shard.filename()))));
  }
}

TEST(OpenPart, TensorsOutsideAreNotRequiredButCheckedWhereTheyAreThere) {
  const std::string outside = kLayer + "2.block_sparse_moe.experts.7.w2.weight_packed";
  CheckpointFixture fixture;
  fixture.RemoveTensor(outside);
  EXPECT_THAT(OpenError({fixture.dir()}), HasSubstr(outside));
  EXPECT_EQ(OpenError({fixture.dir()}, "experts=0-6"), "");
  EXPECT_EQ(OpenError({fixture.dir()}, "layers=0-1"), "");
  EXPECT_THAT(OpenError({fixture.dir()}, "layers=2-3"), HasSubstr(outside));
  EXPECT_THAT(OpenError({fixture.dir()}, "experts=3-7"), HasSubstr(outside));
  CheckpointFixture damaged;
  damaged.EditEntry(outside, {{"dtype", "I8"}});
  EXPECT_THAT(OpenError({damaged.dir()}, "experts=0-6"), HasSubstr("is stored as I8"));
}

TEST(OpenPart, WhatIsOutsideCannotBeHad) {
  const CheckpointFixture fixture;
  const Checkpoint checkpoint = Checkpoint::Open({fixture.dir()}, "layers=1-2,experts=2-5");
  EXPECT_NO_THROW(checkpoint.Expert(1, 2));
  EXPECT_NO_THROW(checkpoint.Expert(2, 5));
  EXPECT_THROW(checkpoint.Expert(1, 1), Error);
  EXPECT_THROW(checkpoint.Expert(2, 6), Error);
  EXPECT_THROW(checkpoint.Expert(3, 2), Error);
}

TEST(OpenPart, AnImpossiblePartIsRefused) {
  const CheckpointFixture fixture;
  EXPECT_THAT(OpenError({fixture.dir()}, "layers=0-5"), HasSubstr("which has 5 layers"));
  EXPECT_THAT(OpenError({fixture.dir()}, "experts=6-7"), HasSubstr("too few"));
  EXPECT_THAT(OpenError({fixture.dir()}, "nonsense"), HasSubstr("--shard"));
}

TEST(OpenFolders, FilesMayLieInSeveralInAnyOrder) {
  const CheckpointFixture fixture;
  const Checkpoint whole = Checkpoint::Open(fixture.dir());
  const TemporaryFolder a, b;
  fs::copy(fixture.dir() / "config.json", b.path() / "config.json");
  fs::copy(fixture.IndexPath(), a.path() / fixture.IndexPath().filename());
  fs::copy(fixture.ShardPath(1), b.path());
  fs::copy(fixture.ShardPath(2), a.path());
  fs::create_symlink(fixture.ShardPath(3), b.path() / fixture.ShardPath(3).filename());
  for (const auto& dirs : {std::vector<fs::path>{a.path(), b.path()}, {b.path(), a.path()}}) {
    const Checkpoint split = Checkpoint::Open(dirs);
    ASSERT_EQ(split.shards().size(), 3U);
    EXPECT_EQ(split.tensor_bytes(), whole.tensor_bytes());
    EXPECT_TRUE(split.warnings().empty());
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(split.shards()[i].path.filename(), whole.shards()[i].path.filename());
      EXPECT_EQ(split.shards()[i].bytes, whole.shards()[i].bytes);
    }
    EXPECT_EQ(split.Expert(2, 3).up.scales.offset, whole.Expert(2, 3).up.scales.offset);
    EXPECT_EQ(split.Expert(2, 3).up.scales.shard, whole.Expert(2, 3).up.scales.shard);
  }
  EXPECT_THAT(OpenError({b.path()}), AllOf(HasSubstr("not model.safetensors.index.json")));
}

TEST(OpenFolders, OfAShardInTwoFoldersTheFirstIsTaken) {
  const CheckpointFixture fixture, other;
  WriteFile(other.ShardPath(2), "damaged");
  const Checkpoint first = Checkpoint::Open({fixture.dir(), other.dir()});
  EXPECT_EQ(first.shards()[1].path, fixture.ShardPath(2));
  ASSERT_EQ(first.warnings().size(), 3U);
  EXPECT_THAT(first.warnings()[1], AllOf(HasSubstr(other.ShardPath(2).string()),
                                         HasSubstr(fixture.ShardPath(2).string())));
  EXPECT_THAT(OpenError({other.dir(), fixture.dir()}), HasSubstr(other.ShardPath(2).string()));
  EXPECT_TRUE(Checkpoint::Open({fixture.dir(), fixture.dir()}).warnings().empty());
}

TEST(OpenFolders, MessagesNameAllOfThem) {
  const CheckpointFixture fixture;
  const TemporaryFolder empty;
  fs::remove(fixture.ShardPath(2));
  EXPECT_THAT(OpenError({fixture.dir(), empty.path()}),
              AllOf(HasSubstr(fixture.dir().string()), HasSubstr(empty.path().string()),
                    HasSubstr("1 is missing")));
  EXPECT_THAT(OpenError({fixture.dir(), empty.path() / "none"}), HasSubstr("does not exist"));
  EXPECT_THAT(OpenError({fixture.dir(), fixture.IndexPath()}), HasSubstr("is no folder"));
  EXPECT_THAT(OpenError({empty.path(), empty.path()}), HasSubstr("config.json"));
  EXPECT_THAT(OpenError(std::vector<fs::path>{}), HasSubstr("no model folder"));
}

TEST(OpenFolders, ASingleFileMayLieInTheSecond) {
  const CheckpointFixture fixture(0);
  const TemporaryFolder empty;
  EXPECT_EQ(OpenError({empty.path(), fixture.dir()}), "");
}

}  // namespace
}  // namespace kimi_k3

// Tests of which files a checkpoint should have, and where each is looked for.
#include "fetch/known_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fetch/fetch_test_support.h"

namespace kimi_k3 {
namespace {

using testing::ElementsAre;
using testing::Key;

constexpr const char* kHash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
constexpr const char* kFirst = "model-00001-of-000002.safetensors";
constexpr const char* kSecond = "model-00002-of-000002.safetensors";

TEST(KnownFiles, AreWhatTheIndexNamesAndTheModelsOwnFiles) {
  ScratchDir dir;
  PutCheckpoint(dir.path(), 2);
  PutFile(dir / "notes.txt", "no part of it");
  const KnownFiles known = GatherKnownFiles({dir.path()}, {});
  EXPECT_THAT(known.files, ElementsAre(Key("config.json"), Key(kFirst), Key(kSecond),
                                       Key("model.safetensors.index.json")));
  EXPECT_TRUE(known.files.at(kFirst).shard);
  EXPECT_FALSE(known.files.at("config.json").shard);
  EXPECT_FALSE(known.files.at(kFirst).hash);
}

TEST(KnownFiles, OfAListAreThoseToo) {
  ScratchDir dir;
  PutCheckpoint(dir.path(), 2);
  PutFile(dir / "sums", std::string(kHash) + "  LICENSE\n" + kHash + "  " + kSecond + "\n");
  const KnownFiles known = GatherKnownFiles({dir.path()}, dir / "sums");
  EXPECT_EQ(known.files.at("LICENSE").hash->hex, kHash);
  EXPECT_EQ(known.files.at("LICENSE").folder, dir.path());
  EXPECT_TRUE(known.files.at(kSecond).shard);
  EXPECT_EQ(known.files.at(kSecond).hash->hex, kHash);
}

TEST(KnownFiles, AreInTheFirstFolderThatHasThem) {
  ScratchDir first;
  ScratchDir second;
  PutCheckpoint(first.path(), 2);
  std::filesystem::rename(first / kSecond, second / kSecond);
  const KnownFiles known = GatherKnownFiles({first.path(), second.path()}, {});
  EXPECT_EQ(known.files.at(kFirst).folder, first.path());
  EXPECT_EQ(known.files.at(kSecond).folder, second.path());
  EXPECT_EQ(known.manifests.size(), 2U);
}

TEST(KnownFiles, OfAManifestSayWhatWasFetchedOfThem) {
  ScratchDir dir;
  PutCheckpoint(dir.path(), 2);
  Manifest manifest;
  manifest.part = "layers=0-1";
  manifest.Set({kFirst, 1000, kHash});
  manifest.Set({kSecond, 2000, ""});
  manifest.Save(dir.path());
  std::filesystem::remove(dir / kSecond);
  const KnownFiles known = GatherKnownFiles({dir.path()}, {});
  EXPECT_EQ(known.part, "layers=0-1");
  EXPECT_FALSE(known.files.at(kFirst).part);
  EXPECT_EQ(known.files.at(kFirst).bytes, 1000U);
  EXPECT_TRUE(known.files.at(kSecond).part);
  EXPECT_FALSE(known.files.at(kSecond).hash);
}

}  // namespace
}  // namespace kimi_k3

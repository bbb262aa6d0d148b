// Fingerprints: alike for the same model anywhere, different for any other.
#include "engine/model_fingerprint.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/golden_engine.h"
#include "engine/temporary_folder.h"

namespace kimi_k3 {
namespace {

std::string Of(const std::filesystem::path& folder, const std::string& shard = "") {
  return ModelFingerprint(Checkpoint::Open({folder}, shard));
}

TEST(ModelFingerprint, TellsModelsAndPartsApart) {
  const std::vector<std::string> names = {"k3",          "all-mla",      "expert-ties",
                                          "kimi-linear", "many-experts", "odd-shapes",
                                          "small-norms", "unaligned"};
  std::set<std::string> seen;
  for (const std::string& name : names) seen.insert(Of(GoldenFolder(name) / "checkpoint"));
  EXPECT_EQ(seen.size(), names.size());
  seen.insert(Of(GoldenFolder("k3") / "checkpoint", "layers=0-2"));
  seen.insert(Of(GoldenFolder("k3") / "checkpoint", "layers=0-3"));
  EXPECT_EQ(seen.size(), names.size() + 2);
}

TEST(ModelFingerprint, IsTheSameInAnotherFolderAndSpreadOverTwo) {
  const auto original = GoldenFolder("k3") / "checkpoint";
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "a");
  std::filesystem::create_directories(folder.path() / "b");
  bool second = false;
  for (const auto& entry : std::filesystem::directory_iterator(original)) {
    const bool weights = entry.path().extension() == ".safetensors";
    std::filesystem::copy(entry.path(), folder.path() / (weights && second ? "b" : "a"));
    second = second != weights;
  }
  EXPECT_EQ(Of(original),
            ModelFingerprint(Checkpoint::Open({folder.path() / "a", folder.path() / "b"}, "")));
  EXPECT_EQ(Of(original).size(), 16U);
}

}  // namespace
}  // namespace kimi_k3

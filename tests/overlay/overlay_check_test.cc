// Tests of verifying an overlay.
#include "overlay/overlay_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "overlay/overlay_test_support.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

VerifyReport Check(const std::filesystem::path& overlay, bool quick = false,
                   const std::filesystem::path& model = TrainedModel()) {
  OverlayCheckOptions options;
  options.base_folders = {model};
  options.overlay = overlay;
  options.quick = quick;
  return CheckOverlay(options);
}

TEST(OverlayCheck, FindsAWholeOverlayGood) {
  const ScratchFolder folder;
  const VerifyReport report = Check(MakeOverlay(folder, Dtype::kQ4));
  EXPECT_TRUE(report.good());
  ASSERT_EQ(report.files.size(), 10U);
  for (const FileFinding& file : report.files) EXPECT_TRUE(file.hash_holds);
}

TEST(OverlayCheck, NamesTheFileThatHasChanged) {
  const ScratchFolder folder;
  const auto overlay = MakeOverlay(folder, Dtype::kQ8);
  FlipByte(overlay / "layer-00005.safetensors", 20000);
  const VerifyReport report = Check(overlay);
  EXPECT_EQ(report.bad(), 1U);
  EXPECT_EQ(report.files[6].name, "layer-00005.safetensors");
  EXPECT_EQ(report.files[6].state, FileState::kBad);
  EXPECT_THAT(report.files[6].problems.front(), HasSubstr("kimi_k3 quantize makes it anew"));
  EXPECT_TRUE(Check(overlay, true).good());
}

TEST(OverlayCheck, AHoleIsFoundWithoutReadingAndToldOfWhereTheOverlayIsUsed) {
  const ScratchFolder folder;
  const auto overlay = MakeOverlay(folder, Dtype::kQ8);
  const auto file = overlay / "layer-00004.safetensors";
  const uint64_t bytes = std::filesystem::file_size(file);
  std::filesystem::resize_file(file, 20000);
  std::filesystem::resize_file(file, bytes);
  const VerifyReport report = Check(overlay, true);
  EXPECT_EQ(report.bad(), 1U);
  EXPECT_THAT(report.files[5].problems.front(), HasSubstr("has a hole from byte 20480 to"));
  Checkpoint checkpoint = Checkpoint::Open(TrainedModel());
  checkpoint.UseOverlay(overlay);
  ASSERT_FALSE(checkpoint.warnings().empty());
  EXPECT_THAT(checkpoint.warnings().back(),
              HasSubstr("layer-00004.safetensors: has a hole from byte 20480 to"));
}

TEST(OverlayCheck, TellsOfAMissingFileAndOfAnotherCheckpoint) {
  const ScratchFolder folder;
  const auto overlay = MakeOverlay(folder, Dtype::kQ8);
  const auto model = CopyOfTrainedModel(folder);
  const TensorLocation head = Checkpoint::Open(model).Get(Role::kHead);
  FlipByte(Checkpoint::Open(model).shards()[head.range.shard].path,
           head.range.offset + head.range.bytes / 2);
  const VerifyReport other = Check(overlay, false, model);
  EXPECT_FALSE(other.good());
  EXPECT_THAT(other.problems.front(), HasSubstr("another checkpoint"));
  std::filesystem::remove(overlay / "layer-00001.safetensors");
  const VerifyReport report = Check(overlay);
  EXPECT_EQ(report.files[2].state, FileState::kMissing);
  EXPECT_FALSE(report.good());
}

TEST(OverlayCheck, RefusesAFolderWithoutARecord) { EXPECT_THROW(Check(TrainedModel()), Error); }

}  // namespace
}  // namespace kimi_k3

// Tests of making an overlay, and of going on where that was stopped.
#include "overlay/overlay_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/error.h"
#include "checkpoint/overlay_record.h"
#include "checkpoint/synth.h"
#include "checkpoint/synth_config.h"
#include "fetch/digest.h"
#include "fetch/folder_lock.h"
#include "overlay/overlay_test_support.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

OverlayOptions Options(const fs::path& output, Dtype form = Dtype::kQ8) {
  OverlayOptions options;
  options.output = output;
  options.form = form;
  return options;
}

OverlayReport Write(const OverlayOptions& options, const fs::path& model = TrainedModel()) {
  return WriteOverlay(Checkpoint::Open(model), options);
}

std::string WriteRefusal(ErrorKind kind, const OverlayOptions& options,
                         const fs::path& model = TrainedModel()) {
  try {
    Write(options, model);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(OverlayWriter, WritesTheSameBytesWhateverTheThreads) {
  const ScratchFolder folder;
  for (const Dtype form : {Dtype::kQ8, Dtype::kQ4, Dtype::kCodedBf16}) {
    OverlayOptions one = Options(folder / fmt::format("one{}", static_cast<int>(form)), form);
    OverlayOptions three = Options(folder / fmt::format("three{}", static_cast<int>(form)), form);
    three.threads = 3;
    const OverlayReport report = Write(one);
    EXPECT_EQ(Write(three).fingerprint, report.fingerprint);
    EXPECT_EQ(FilesOf(one.output), FilesOf(three.output));
    EXPECT_EQ(report.files, 10U);
    EXPECT_EQ(report.files_before, 0U);
    EXPECT_EQ(report.left, 0U);
    EXPECT_LT(report.bytes, report.base_bytes * 3 / 4 + 1);
  }
}

TEST(OverlayWriter, EntersTheHashOfEveryFile) {
  const ScratchFolder folder;
  const fs::path overlay = MakeOverlay(folder, Dtype::kQ8);
  const auto record = OverlayRecord::Load(overlay);
  ASSERT_TRUE(record);
  EXPECT_TRUE(record->complete);
  for (const OverlayFile& file : record->files) {
    const std::string content = ContentOf(overlay / file.name);
    Digest digest(DigestKind::kSha256);
    digest.Update(content);
    EXPECT_EQ(digest.Finish(), file.sha256);
    EXPECT_EQ(content.size(), file.bytes);
  }
}

TEST(OverlayWriter, GoesOnWhereItWasStopped) {
  const ScratchFolder folder;
  for (const Dtype form : {Dtype::kQ4, Dtype::kCodedBf16}) {
    const std::string kind = fmt::to_string(static_cast<int>(form));
    const OverlayReport whole = Write(Options(folder / ("whole" + kind), form));
    for (size_t stop_at = 1; stop_at < 60; stop_at += 19) {
      const fs::path output = folder / fmt::format("stopped{}at{}", kind, stop_at);
      OverlayOptions options = Options(output, form);
      std::atomic<bool> stop{false};
      size_t calls = 0;
      options.stop = &stop;
      options.progress = [&](const OverlayProgress&) {
        if (++calls >= stop_at) stop = true;
      };
      WriteRefusal(ErrorKind::kInterrupted, options);
      EXPECT_FALSE(OverlayRecord::Load(output)->complete);
      const OverlayReport rest = Write(Options(output, form));
      EXPECT_EQ(rest.fingerprint, whole.fingerprint);
      EXPECT_EQ(rest.bytes, whole.bytes);
      EXPECT_EQ(FilesOf(output), FilesOf(folder / ("whole" + kind)));
    }
  }
}

TEST(OverlayWriter, ChangesNothingThatIsThereAlready) {
  const ScratchFolder folder;
  const fs::path overlay = MakeOverlay(folder, Dtype::kQ8);
  const auto before = FilesOf(overlay);
  const auto written = fs::last_write_time(overlay / "layer-00003.safetensors");
  EXPECT_EQ(Write(Options(overlay)).files_before, 10U);
  EXPECT_EQ(FilesOf(overlay), before);
  EXPECT_EQ(fs::last_write_time(overlay / "layer-00003.safetensors"), written);
}

TEST(OverlayWriter, MakesAnewWhatWasCutOrRemovedAndClearsAwayWhatIsHalfWritten) {
  const ScratchFolder folder;
  const fs::path overlay = MakeOverlay(folder, Dtype::kQ8);
  const auto before = FilesOf(overlay);
  fs::resize_file(overlay / "layer-00002.safetensors", 1000);
  fs::remove(overlay / "head.safetensors");
  std::ofstream(overlay / "layer-00004.safetensors.4711.partial") << "half";
  std::ofstream(overlay / "overlay.json.4711.partial") << "half";
  EXPECT_EQ(Write(Options(overlay)).files_before, 8U);
  EXPECT_EQ(FilesOf(overlay), before);
}

TEST(OverlayWriter, RefusesAFolderThatIsNotItsOwn) {
  const ScratchFolder folder;
  const fs::path model = CopyOfTrainedModel(folder);
  const auto before = FilesOf(model);
  EXPECT_THAT(WriteRefusal(ErrorKind::kUsage, Options(model)), HasSubstr("holds other files"));
  EXPECT_EQ(FilesOf(model), before);
  EXPECT_FALSE(fs::exists(model / ".kimi_k3"));
  EXPECT_THAT(WriteRefusal(ErrorKind::kUsage, Options(model / "config.json")),
              HasSubstr("is no folder"));
}

TEST(OverlayWriter, RefusesAnOverlayMadeOtherwiseOrOfAnotherCheckpoint) {
  const ScratchFolder folder;
  const fs::path overlay = MakeOverlay(folder, Dtype::kQ8);
  const auto before = FilesOf(overlay);
  EXPECT_THAT(WriteRefusal(ErrorKind::kUsage, Options(overlay, Dtype::kQ4)),
              HasSubstr("made with --trunk q8, not with --trunk q4"));
  OverlayOptions patterns = Options(overlay);
  patterns.except = {"*lm_head*"};
  EXPECT_THAT(WriteRefusal(ErrorKind::kUsage, patterns), HasSubstr("--except '*lm_head*'"));
  const fs::path other = CopyOfTrainedModel(folder);
  const TensorLocation matrix = Checkpoint::Open(other).Get(Role::kKdaQ, 4);
  FlipByte(Checkpoint::Open(other).shards()[matrix.range.shard].path,
           matrix.range.offset + matrix.range.bytes / 2);
  EXPECT_THAT(WriteRefusal(ErrorKind::kUsage, Options(overlay), other),
              HasSubstr("overlay of another checkpoint"));
  EXPECT_EQ(FilesOf(overlay), before);
}

TEST(OverlayWriter, LeavesMatricesThatWouldGainTooLittle) {
  const ScratchFolder folder;
  const fs::path model = CopyOfTrainedModel(folder);
  const Checkpoint checkpoint = Checkpoint::Open(model);
  const TensorLocation matrix = checkpoint.Get(Role::kKdaV, 1);
  std::mt19937 random(7);
  std::string noise(matrix.range.bytes, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  std::fstream shard(checkpoint.shards()[matrix.range.shard].path,
                     std::ios::binary | std::ios::in | std::ios::out);
  shard.seekp(static_cast<std::streamoff>(matrix.range.offset));
  shard << noise << std::flush;
  const OverlayReport report = Write(Options(folder / "overlay", Dtype::kCodedBf16), model);
  EXPECT_EQ(report.left, 1U);
  EXPECT_EQ(report.matrices, 117U);
  EXPECT_EQ(Write(Options(folder / "overlay", Dtype::kCodedBf16), model).left, 1U);
}

TEST(OverlayWriter, NamesTheRowThatHoldsNoNumber) {
  const ScratchFolder folder;
  const fs::path model = CopyOfTrainedModel(folder);
  const Checkpoint checkpoint = Checkpoint::Open(model);
  const TensorLocation matrix = checkpoint.Get(Role::kMlaO, 3);
  std::fstream shard(checkpoint.shards()[matrix.range.shard].path,
                     std::ios::binary | std::ios::in | std::ios::out);
  shard.seekp(static_cast<std::streamoff>(matrix.range.offset + 5 * matrix.columns * 2));
  shard << "\xff\x7f" << std::flush;
  EXPECT_THAT(WriteRefusal(ErrorKind::kCheckpoint, Options(folder / "overlay"), model),
              testing::AllOf(HasSubstr("layers.3.self_attn.o_proj.weight"), HasSubstr("row 5 ")));
}

TEST(OverlayWriter, GrowsFromAPartOfTheModelToAllOfIt) {
  const ScratchFolder folder;
  const OverlayReport part =
      WriteOverlay(Checkpoint::Open({TrainedModel()}, "layers=0-2"), Options(folder / "overlay"));
  EXPECT_EQ(part.files, 4U);
  const OverlayReport whole = Write(Options(folder / "overlay"));
  EXPECT_EQ(whole.files_before, 4U);
  EXPECT_EQ(FilesOf(folder / "overlay"), FilesOf(MakeOverlay(folder, Dtype::kQ8, "other")));
}

TEST(OverlayWriter, LeavesAFolderAloneThatAnotherProgramIsAtWorkIn) {
  const ScratchFolder folder;
  const fs::path overlay = MakeOverlay(folder, Dtype::kQ8);
  const FolderLock lock(overlay);
  WriteRefusal(ErrorKind::kIo, Options(overlay));
}

}  // namespace
}  // namespace kimi_k3

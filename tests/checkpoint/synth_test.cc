// Made-up checkpoints: they open, are repeatable, and never replace something unasked.
#include "checkpoint/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <set>

#include "base/error.h"
#include "base/process_meter.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/synth_config.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

SynthOptions Tiny(const fs::path& output) {
  SynthOptions options;
  options.config_json = GeometryConfig("tiny", {5, 8, 64});
  options.output = output;
  options.shards = 2;
  return options;
}

std::set<std::string> FilesOf(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST(Synth, WritesACheckpointThatOpens) {
  const TemporaryFolder folder;
  const SynthReport report = WriteSynthCheckpoint(Tiny(folder.path() / "new" / "model"));
  const Checkpoint checkpoint = Checkpoint::Open(folder.path() / "new" / "model");
  EXPECT_EQ(checkpoint.tensor_count(), report.tensors);
  EXPECT_EQ(checkpoint.tensor_bytes(), report.tensor_bytes);
  EXPECT_EQ(checkpoint.shards().size(), report.shards);
  EXPECT_EQ(FilesOf(checkpoint.model_dir()),
            (std::set<std::string>{
                "config.json", "generation_config.json", "model-00001-of-000002.safetensors",
                "model-00002-of-000002.safetensors", "model.safetensors.index.json"}));
}

TEST(Synth, TheDefaultTinyGeometryIsSmall) {
  const TemporaryFolder folder;
  SynthOptions options = Tiny(folder.path());
  options.config_json = GeometryConfig("tiny", {});
  EXPECT_LT(WriteSynthCheckpoint(options).tensor_bytes, 7'000'000U);
}

TEST(Synth, TheSameSeedWritesTheSameBytesInAnyNumberOfShards) {
  const TemporaryFolder a;
  const TemporaryFolder b;
  WriteSynthCheckpoint(Tiny(a.path()));
  SynthOptions options = Tiny(b.path());
  options.shards = 2;
  WriteSynthCheckpoint(options);
  for (const std::string& name : FilesOf(a.path())) {
    EXPECT_EQ(ReadFile(a.path() / name), ReadFile(b.path() / name)) << name;
  }
  options.force = true;
  options.shards = 1;
  WriteSynthCheckpoint(options);
  EXPECT_EQ(Checkpoint::Open(a.path()).ReadVector(Role::kKdaDtBias, 1),
            Checkpoint::Open(b.path()).ReadVector(Role::kKdaDtBias, 1));
  options.seed = 1;
  WriteSynthCheckpoint(options);
  EXPECT_NE(Checkpoint::Open(a.path()).ReadVector(Role::kKdaDtBias, 1),
            Checkpoint::Open(b.path()).ReadVector(Role::kKdaDtBias, 1));
}

TEST(Synth, VectorsHaveSensibleValues) {
  const CheckpointFixture fixture;
  const Checkpoint checkpoint = Checkpoint::Open(fixture.dir());
  for (size_t layer = 0; layer < 5; ++layer) {
    for (const TensorSpec& spec : TensorSpecs(checkpoint.config(), layer)) {
      if (spec.kind != TensorKind::kVector) continue;
      for (const float value : checkpoint.ReadVector(spec.role, layer)) {
        EXPECT_LT(std::fabs(value), 12.0F) << RoleName(spec.role);
      }
    }
  }
  double sum = 0;
  for (const float value : checkpoint.ReadVector(Role::kFinalNorm)) sum += value;
  EXPECT_NEAR(sum / 128, 1.0, 0.05);
}

TEST(Synth, RefusesToReplaceACheckpointUnasked) {
  const TemporaryFolder folder;
  SynthOptions options = Tiny(folder.path());
  options.shards = 4;
  WriteSynthCheckpoint(options);
  options.shards = 2;
  try {
    WriteSynthCheckpoint(options);
    FAIL() << "replaced";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("--force"));
  }
  EXPECT_EQ(Checkpoint::Open(folder.path()).shards().size(), 4U);
  options.force = true;
  WriteSynthCheckpoint(options);
  EXPECT_EQ(FilesOf(folder.path()).size(), 5U);
  EXPECT_EQ(Checkpoint::Open(folder.path()).shards().size(), 2U);
}

TEST(Synth, BeingStoppedLeavesNothingThatLooksWhole) {
  const TemporaryFolder folder;
  SynthOptions options = Tiny(folder.path());
  options.progress = [](const SynthProgress& progress) {
    if (progress.shards_done == 1) throw Error(ErrorKind::kInterrupted, "stop");
  };
  EXPECT_THROW(WriteSynthCheckpoint(options), Error);
  EXPECT_EQ(FilesOf(folder.path()), (std::set<std::string>{"config.json", "generation_config.json",
                                                           "model-00001-of-000002.safetensors"}));
  EXPECT_THROW(Checkpoint::Open(folder.path()), Error);
}

TEST(Synth, ProgressReachesTheTotal) {
  const TemporaryFolder folder;
  for (const bool sparse : {false, true}) {
    SynthOptions options = Tiny(folder.path());
    options.sparse = sparse;
    options.force = true;
    SynthProgress last;
    options.progress = [&](const SynthProgress& progress) {
      EXPECT_GE(progress.bytes_done, last.bytes_done);
      last = progress;
    };
    const SynthReport report = WriteSynthCheckpoint(options);
    EXPECT_EQ(last.bytes_done, report.tensor_bytes);
    EXPECT_EQ(last.bytes_total, report.tensor_bytes);
    EXPECT_EQ(last.shards_done, 2U);
  }
}

TEST(Synth, SparseFilesTakeNoRoomForData) {
  const TemporaryFolder folder;
  SynthOptions options = Tiny(folder.path());
  options.config_json = GeometryConfig("k3", {8, 16, {}});
  options.sparse = true;
  options.shards = 0;
  WriteSynthCheckpoint(options);
  const Checkpoint checkpoint = Checkpoint::Open(folder.path());
  EXPECT_EQ(checkpoint.shards().size(), 8U + 3);
  uint64_t allocated = 0;
  for (const Shard& shard : checkpoint.shards()) {
    struct stat info = {};
    ASSERT_EQ(stat(shard.path.c_str(), &info), 0);
    allocated += static_cast<uint64_t>(info.st_blocks) * 512;
  }
  EXPECT_GT(checkpoint.tensor_bytes(), 10'000'000'000U);
  EXPECT_LT(allocated, 4'000'000U);
  EXPECT_EQ(checkpoint.ReadVector(Role::kFinalNorm), std::vector<float>(7168, 0.0F));
  // Layer L lies in shard L + 1, as published.
  for (size_t layer = 0; layer < 8; ++layer) {
    EXPECT_EQ(checkpoint.Get(Role::kInputNorm, layer).range.shard, layer);
  }
  EXPECT_EQ(checkpoint.Get(Role::kHead).range.shard, 8U);
}

TEST(Synth, AnExpertsTensorsAreContiguous) {
  const CheckpointFixture fixture;
  const Checkpoint checkpoint = Checkpoint::Open(fixture.dir());
  const ExpertLocation a = checkpoint.Expert(1, 2);
  EXPECT_EQ(a.gate.weights.offset + a.gate.weights.bytes, a.gate.scales.offset);
  EXPECT_EQ(a.gate.scales.offset + a.gate.scales.bytes, a.up.weights.offset);
  EXPECT_EQ(a.down.scales.offset + a.down.scales.bytes,
            checkpoint.Expert(1, 3).gate.weights.offset);
}

TEST(Synth, CopiesATokenizer) {
  const TemporaryFolder folder;
  const TemporaryFolder tokenizer;
  SynthOptions options = Tiny(folder.path());
  options.tokenizer = tokenizer.path();
  EXPECT_THROW(WriteSynthCheckpoint(options), Error);
  WriteFile(tokenizer.path() / "tiktoken.model", "a 1\n");
  WriteFile(tokenizer.path() / "tokenizer_config.json", "{}");
  options.force = true;
  WriteSynthCheckpoint(options);
  EXPECT_EQ(ReadFile(folder.path() / "tiktoken.model"), "a 1\n");
  EXPECT_EQ(ReadFile(folder.path() / "tokenizer_config.json"), "{}");
}

TEST(Synth, RefusesWhatCannotBe) {
  const TemporaryFolder folder;
  SynthOptions options = Tiny(folder.path());
  options.shards = 9;
  EXPECT_THROW(WriteSynthCheckpoint(options), Error);
  options = Tiny(folder.path());
  options.config_json = "{}";
  EXPECT_THROW(WriteSynthCheckpoint(options), Error);
  WriteFile(folder.path() / "file", "");
  EXPECT_THROW(WriteSynthCheckpoint(Tiny(folder.path() / "file")), Error);
}

TEST(Synth, ADiskThatIsTooSmallIsSaidToBe) {
  const TemporaryFolder folder;
  SynthOptions options = Tiny(folder.path());
  options.config_json = GeometryConfig("k3", {});
  if (fs::space(folder.path()).available > 1'500'000'000'000U) {
    GTEST_SKIP() << "the disk has room for the whole model";
  }
  try {
    WriteSynthCheckpoint(options);
    FAIL() << "began to write";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), HasSubstr("but the disk has"));
  }
  EXPECT_TRUE(FilesOf(folder.path()).empty());
}

TEST(Synth, ForceRemovesWhatAnInterruptedWriterLeft) {
  const TemporaryFolder folder;
  SynthOptions options = Tiny(folder.path());
  WriteSynthCheckpoint(options);
  const std::vector<std::string> left = {"model-00001-of-000003.safetensors.123.partial",
                                         "config.json.7.partial"};
  const std::vector<std::string> kept = {"notes.txt.1.partial", "config.json.x.partial",
                                         "config.json.partial"};
  for (const std::string& name : left) WriteFile(folder.path() / name, "x");
  for (const std::string& name : kept) WriteFile(folder.path() / name, "x");
  options.force = true;
  WriteSynthCheckpoint(options);
  for (const std::string& name : left) EXPECT_FALSE(fs::exists(folder.path() / name)) << name;
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(folder.path() / name)) << name;
}

}  // namespace
}  // namespace kimi_k3

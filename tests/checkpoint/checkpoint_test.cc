// What an opened checkpoint gives: places, names and small vectors.
#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>

#include "base/bf16.h"
#include "base/error.h"
#include "base/process_meter.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/synth.h"
#include "checkpoint/synth_config.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

// Place of a tensor by the JSON of its shard, read in the plainest way.
ByteRange PlainPlace(const CheckpointFixture& fixture, const Checkpoint& checkpoint,
                     const std::string& name) {
  const fs::path path = fixture.ShardOf(name);
  const ShardParts parts = ReadShard(path);
  const json offsets = json::parse(parts.header)[name]["data_offsets"];
  ByteRange range;
  while (checkpoint.shards()[range.shard].path != path) ++range.shard;
  range.offset = 8 + parts.header.size() + offsets[0].get<uint64_t>();
  range.bytes = offsets[1].get<uint64_t>() - offsets[0].get<uint64_t>();
  return range;
}

void ExpectSame(const ByteRange& a, const ByteRange& b, const std::string& name) {
  EXPECT_EQ(a.shard, b.shard) << name;
  EXPECT_EQ(a.offset, b.offset) << name;
  EXPECT_EQ(a.bytes, b.bytes) << name;
}

TEST(Checkpoint, EveryTensorIsWhereItsHeaderSays) {
  const CheckpointFixture fixture;
  const Checkpoint checkpoint = Checkpoint::Open(fixture.dir());
  const ModelConfig& config = checkpoint.config();
  for (size_t layer = 0; layer < config.layers; ++layer) {
    for (const TensorSpec& spec : TensorSpecs(config, layer)) {
      if (IsExpertRole(spec.role)) continue;
      const std::string name = checkpoint.TensorName(spec.role, layer);
      const TensorLocation location = checkpoint.Get(spec.role, layer);
      EXPECT_EQ(location.rows, spec.rows);
      EXPECT_EQ(location.columns, spec.columns);
      ByteRange plain = PlainPlace(fixture, checkpoint, name);
      if (spec.role == Role::kKdaALog) plain.bytes = config.kda.heads * sizeof(float);
      ExpectSame(location.range, plain, name);
    }
  }
  for (const size_t expert : {0, 3, 7}) {
    const ExpertLocation location = checkpoint.Expert(2, expert);
    const std::string name = checkpoint.TensorName(Role::kExpertDown, 2, expert);
    EXPECT_EQ(name, fmt::format("language_model.model.layers.2.block_sparse_moe.experts.{}.w2."
                                "weight_packed",
                                expert));
    ExpectSame(location.down.weights, PlainPlace(fixture, checkpoint, name), name);
    const std::string scales = fmt::format(
        "language_model.model.layers.2.block_sparse_moe.experts.{}.w3.weight_scale", expert);
    ExpectSame(location.up.scales, PlainPlace(fixture, checkpoint, scales), scales);
    EXPECT_EQ(location.gate.dtype, Dtype::kU8);
  }
}

TEST(Checkpoint, CountsTensorsAndBytes) {
  const CheckpointFixture fixture;
  const Checkpoint checkpoint = Checkpoint::Open(fixture.dir());
  EXPECT_EQ(checkpoint.tensor_count(), fixture.Index()["weight_map"].size());
  EXPECT_EQ(checkpoint.tensor_bytes(), fixture.Index()["metadata"]["total_size"].get<uint64_t>());
  EXPECT_EQ(checkpoint.ignored_tensor_count(), 12U);
  EXPECT_EQ(checkpoint.shards().size(), 3U);
  for (const Shard& shard : checkpoint.shards()) EXPECT_EQ(shard.bytes, fs::file_size(shard.path));
  EXPECT_TRUE(checkpoint.warnings().empty());
}

TEST(Checkpoint, HeaderOrderDoesNotMatter) {
  const CheckpointFixture fixture;
  const Checkpoint before = Checkpoint::Open(fixture.dir());
  for (size_t number = 1; number <= 3; ++number) {
    ShardParts parts = ReadShard(fixture.ShardPath(number));
    const json header = json::parse(parts.header);
    std::string reversed;
    for (const auto& [name, value] : header.items()) {
      reversed.insert(0,
                      fmt::format("{}\"{}\":{}", reversed.empty() ? "" : ",", name, value.dump()));
      if (reversed.front() != ',') continue;
      // The separator belongs behind what is put in front.
      const std::string entry = fmt::format("\"{}\":{}", name, value.dump());
      reversed.erase(0, 1 + entry.size());
      reversed.insert(0, entry + ",");
    }
    parts.header = "{" + reversed + "}";
    parts.header.append(ReadShard(fixture.ShardPath(number)).header.size() - parts.header.size(),
                        ' ');
    WriteShard(fixture.ShardPath(number), parts);
  }
  const Checkpoint after = Checkpoint::Open(fixture.dir());
  for (size_t layer = 1; layer < 5; ++layer) {
    ExpectSame(before.Expert(layer, 5).up.weights, after.Expert(layer, 5).up.weights, "up");
  }
}

TEST(Checkpoint, TensorsMayLieAtOddOffsets) {
  CheckpointFixture fixture(1);
  const fs::path path = fixture.dir() / "model.safetensors";
  ShardParts parts = ReadShard(path);
  const Checkpoint before = Checkpoint::Open(fixture.dir());
  const std::vector<float> wanted = before.ReadVector(Role::kKdaDtBias, 1);
  parts.header += ' ';
  WriteShard(path, parts);
  const Checkpoint after = Checkpoint::Open(fixture.dir());
  EXPECT_EQ(after.Get(Role::kKdaDtBias, 1).range.offset,
            before.Get(Role::kKdaDtBias, 1).range.offset + 1);
  EXPECT_EQ(after.ReadVector(Role::kKdaDtBias, 1), wanted);
}

TEST(Checkpoint, RolesThatTheModelLacks) {
  const CheckpointFixture fixture;
  const Checkpoint checkpoint = Checkpoint::Open(fixture.dir());
  EXPECT_FALSE(checkpoint.Find(Role::kRouter, 0));
  EXPECT_FALSE(checkpoint.Find(Role::kKdaQ, 4));
  EXPECT_FALSE(checkpoint.Find(Role::kInputNorm, 5));
  EXPECT_TRUE(checkpoint.Find(Role::kHead, 99));
  EXPECT_THROW(checkpoint.Get(Role::kKdaQ, 4), Error);
  EXPECT_THROW(checkpoint.Expert(0, 0), Error);
  EXPECT_THROW(checkpoint.Expert(1, 8), Error);
  EXPECT_THROW(checkpoint.Expert(5, 0), Error);
}

TEST(Checkpoint, VectorsAreWidened) {
  CheckpointFixture fixture;
  const std::string bf16 = "language_model.model.norm.weight";
  const std::string f32 = "language_model.model.layers.1.self_attn.A_log";
  const Checkpoint checkpoint = Checkpoint::Open(fixture.dir());
  const auto stored = [&](const std::string& name) {
    const ByteRange place = PlainPlace(fixture, checkpoint, name);
    return ReadFile(fixture.ShardOf(name)).substr(place.offset, place.bytes);
  };
  const std::vector<float> norm = checkpoint.ReadVector(Role::kFinalNorm);
  ASSERT_EQ(norm.size(), 128U);
  for (size_t i = 0; i < norm.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, stored(bf16).data() + 2 * i, sizeof(bits));
    EXPECT_EQ(norm[i], Bf16ToFloat(bits));
  }
  // Three heads, padded to the width of a head on disk.
  const std::vector<float> decay = checkpoint.ReadVector(Role::kKdaALog, 1);
  ASSERT_EQ(decay.size(), 3U);
  EXPECT_EQ(std::memcmp(decay.data(), stored(f32).data(), 3 * sizeof(float)), 0);
}

TEST(Checkpoint, AVectorWithANanIsRefused) {
  CheckpointFixture fixture;
  const std::string name = "language_model.model.norm.weight";
  for (const uint16_t bits : {uint16_t{0x7fc0}, uint16_t{0x7f80}, uint16_t{0xff80}}) {
    const Checkpoint checkpoint = Checkpoint::Open(fixture.dir());
    const ByteRange place = checkpoint.Get(Role::kFinalNorm).range;
    std::string file = ReadFile(fixture.ShardOf(name));
    std::memcpy(file.data() + place.offset + 2 * 17, &bits, sizeof(bits));
    WriteFile(fixture.ShardOf(name), file);
    try {
      checkpoint.ReadVector(Role::kFinalNorm);
      FAIL() << "read " << bits;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
      EXPECT_THAT(error.what(), HasSubstr(name + ": element 17"));
    }
  }
}

TEST(Checkpoint, AShardThatShrinksLaterIsAnIoError) {
  CheckpointFixture fixture(1);
  const Checkpoint checkpoint = Checkpoint::Open(fixture.dir());
  fs::resize_file(fixture.dir() / "model.safetensors", 100);
  try {
    checkpoint.ReadVector(Role::kFinalNorm);
    FAIL() << "read past the end";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
  }
}

TEST(Checkpoint, TheSmallerRelativeOpens) {
  json config = json::parse(GeometryConfig("tiny", {5, 8, 64}))["text_config"];
  for (const char* name : {"attn_res_block_size", "routed_expert_hidden_size",
                           "latent_moe_use_norm", "mla_use_output_gate", "q_lora_rank",
                           "quantization_config", "activation_situ_linear_beta"}) {
    config.erase(name);
  }
  config["hidden_act"] = "silu";
  config["moe_intermediate_size"] = 50;
  config["linear_attn_config"].erase("gate_lower_bound");
  config["linear_attn_config"].erase("use_full_rank_gate");
  const TemporaryFolder folder;
  SynthOptions options;
  options.config_json = config.dump();
  options.output = folder.path();
  options.shards = 2;
  WriteSynthCheckpoint(options);
  const Checkpoint checkpoint = Checkpoint::Open(folder.path());
  EXPECT_EQ(checkpoint.config().name_prefix, "");
  EXPECT_EQ(checkpoint.TensorName(Role::kExpertUp, 1, 2),
            "model.layers.1.block_sparse_moe.experts.2.w3.weight");
  const ExpertLocation expert = checkpoint.Expert(1, 2);
  EXPECT_EQ(expert.up.weights.bytes, 50U * 128 * 2);
  EXPECT_EQ(expert.up.scales.bytes, 0U);
  EXPECT_EQ(expert.up.dtype, Dtype::kBf16);
  EXPECT_EQ(checkpoint.ReadVector(Role::kKdaALog, 0).size(), 3U);
  EXPECT_EQ(checkpoint.ignored_tensor_count(), 0U);
}

TEST(Checkpoint, OpensSharedCases) {
  const fs::path golden = KIMI_K3_SOURCE_DIR "/../shared/golden";
  if (!fs::exists(golden)) GTEST_SKIP() << "the golden cases are not here";
  size_t opened = 0;
  for (const auto& entry : fs::directory_iterator(golden)) {
    if (!fs::exists(entry.path() / "checkpoint")) continue;
    const Checkpoint checkpoint = Checkpoint::Open(entry.path() / "checkpoint");
    EXPECT_FALSE(checkpoint.ReadVector(Role::kFinalNorm).empty());
    ++opened;
  }
  EXPECT_GT(opened, 0U);
}

// The published size: 497,220 tensors in 96 shards, with holes for data.
TEST(Checkpoint, TheFullSizeOpensFastAndSmall) {
  const TemporaryFolder folder;
  SynthOptions options;
  options.config_json = GeometryConfig("k3", {});
  options.output = folder.path();
  options.sparse = true;
  WriteSynthCheckpoint(options);
  const uint64_t before = ReadProcessMeters().peak_resident_bytes;
  const std::clock_t start = std::clock();
  const Checkpoint checkpoint = Checkpoint::Open(folder.path());
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_EQ(checkpoint.tensor_count(), 497220U);
  EXPECT_EQ(checkpoint.tensor_bytes(), 1560860324864U);
  EXPECT_EQ(checkpoint.ignored_tensor_count(), 168U);
  EXPECT_EQ(checkpoint.shards().size(), 96U);
  EXPECT_EQ(checkpoint.Expert(92, 895).down.weights.bytes, 3584U * 1536);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(seconds, 0.5);
  EXPECT_LT(ReadProcessMeters().peak_resident_bytes - before, 40'000'000U);
#else
  RecordProperty("seconds", std::to_string(seconds));
  RecordProperty("before", std::to_string(before));
#endif
}

TEST(Checkpoint, HalfAMillionTensorsInOneFileOpen) {
  const TemporaryFolder folder;
  SynthOptions options;
  options.config_json = GeometryConfig("tiny", {94, 900, 64});
  options.output = folder.path();
  options.sparse = true;
  options.shards = 1;
  WriteSynthCheckpoint(options);
  const uint64_t before = ReadProcessMeters().peak_resident_bytes;
  const Checkpoint checkpoint = Checkpoint::Open(folder.path());
  EXPECT_GT(checkpoint.tensor_count(), 495'000U);
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // The header is about 80 MB long.
  EXPECT_LT(ReadProcessMeters().peak_resident_bytes - before, 600'000'000U);
#else
  RecordProperty("before", std::to_string(before));
#endif
}

}  // namespace
}  // namespace kimi_k3

// Damaged checkpoints: each fault is named with file and tensor, and nothing opens by luck.
#include "checkpoint/checkpoint_opener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/process_meter.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/synth.h"
#include "checkpoint/synth_config.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kLayer = "language_model.model.layers.";
const std::string kALog = kLayer + "1.self_attn.A_log";
const std::string kKProj = kLayer + "1.self_attn.k_proj.weight";
const std::string kVProj = kLayer + "1.self_attn.v_proj.weight";
const std::string kFinalNorm = "language_model.model.norm.weight";
const std::string kExpert = kLayer + "2.block_sparse_moe.experts.3.";

void Append(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::app) << bytes;
}

TEST(OpenDamaged, TheUndamagedOpens) {
  EXPECT_EQ(CheckpointFixture(3).OpenError(), "");
  EXPECT_EQ(CheckpointFixture(1).OpenError(), "");
  EXPECT_EQ(CheckpointFixture(0).OpenError(), "");
}

// Files that are missing, and what lies about in their place.

TEST(OpenDamaged, MissingShardsAreNamedAndNumbered) {
  CheckpointFixture fixture;
  fs::remove(fixture.ShardPath(1));
  EXPECT_THAT(fixture.OpenError(),
              AllOf(HasSubstr("2 of the 3 files"),
                    HasSubstr("1 is missing: model-00001-of-000003.safetensors (number 1 of 3)"),
                    HasSubstr("Fetching just this file again is enough")));
  fs::remove(fixture.ShardPath(3));
  EXPECT_THAT(fixture.OpenError(), AllOf(HasSubstr("2 are missing"), HasSubstr("number 1 of 3"),
                                         HasSubstr("number 3 of 3"), Not(HasSubstr("number 2"))));
  // Nothing is said of the tensors in them, only of the files.
  EXPECT_THAT(fixture.OpenError(), Not(HasSubstr(" tensor ")));
}

TEST(OpenDamaged, AShardUnderAWrongNumberIsPointedOut) {
  CheckpointFixture fixture;
  fs::rename(fixture.ShardPath(2), fixture.ShardPath(7));
  EXPECT_THAT(fixture.OpenError(),
              AllOf(HasSubstr("model-00002-of-000003.safetensors (number 2 of 3)"),
                    HasSubstr("does not name: model-00007-of-000003.safetensors")));
}

TEST(OpenDamaged, ShardsWithoutAnIndexAreNotGuessed) {
  CheckpointFixture fixture;
  fs::remove(fixture.IndexPath());
  EXPECT_THAT(fixture.OpenError(), AllOf(HasSubstr("holds 3 of 3 shards"),
                                         HasSubstr("not model.safetensors.index.json")));
}

TEST(OpenDamaged, AFolderWithoutWeightsIsSaidToBeOne) {
  CheckpointFixture fixture(1);
  fs::remove(fixture.dir() / "model.safetensors");
  EXPECT_THAT(fixture.OpenError(), HasSubstr("is this a model's folder?"));
  fs::remove(fixture.dir() / "config.json");
  EXPECT_THAT(fixture.OpenError(), HasSubstr("config.json: is missing"));
}

TEST(OpenDamaged, ForeignFilesDoNoHarm) {
  CheckpointFixture fixture;
  const std::string side_file("\x00\x05\x16\x07\x00\x02\x00\x00", 8);
  for (const char* name : {"._model-00001-of-000003.safetensors", "._config.json",
                           "._model.safetensors.index.json", "._tiktoken.model"}) {
    WriteFile(fixture.dir() / name, side_file + std::string(4088, '\0'));
  }
  WriteFile(fixture.dir() / "x.safetensors", "");
  WriteFile(fixture.dir() / "five.safetensors", "12345");
  fs::create_directory(fixture.dir() / "other");
  fs::copy(fixture.ShardPath(1), fixture.dir() / "other");
  fs::create_symlink("nowhere", fixture.dir() / "link.safetensors");
  fs::create_directory(fixture.dir() / "y.safetensors");
  EXPECT_EQ(fixture.OpenError(), "");
  const Checkpoint checkpoint = Checkpoint::Open(fixture.dir());
  EXPECT_THAT(checkpoint.warnings(),
              testing::UnorderedElementsAre(HasSubstr("/x.safetensors"), HasSubstr("/five.safe"),
                                            HasSubstr("/link.safe"), HasSubstr("/y.safe")));
}

TEST(OpenDamaged, ASideFileInPlaceOfAShardIsRefusedWithoutAllocating) {
  CheckpointFixture fixture;
  const std::string side_file("\x00\x05\x16\x07\x00\x02\x00\x00", 8);
  WriteFile(fixture.ShardPath(1), side_file + std::string(4088, '\0'));
  EXPECT_THAT(fixture.OpenError(), HasSubstr("declares a header of 2199142139136 bytes"));
}

TEST(OpenDamaged, LinksToShardsAreFine) {
  CheckpointFixture fixture;
  const TemporaryFolder blobs;
  fs::copy(fixture.ShardPath(2), blobs.path() / "blob");
  fs::remove(fixture.ShardPath(2));
  fs::create_symlink(blobs.path() / "blob", fixture.ShardPath(2));
  EXPECT_EQ(fixture.OpenError(), "");
  fs::remove(blobs.path() / "blob");
  EXPECT_THAT(fixture.OpenError(), HasSubstr("link to a file that is not there"));
}

TEST(OpenDamaged, WhatIsNoFileIsSaidToBeNone) {
  CheckpointFixture fixture;
  fs::remove(fixture.ShardPath(1));
  fs::create_directory(fixture.ShardPath(1));
  fs::remove(fixture.ShardPath(2));
  ASSERT_EQ(mkfifo(fixture.ShardPath(2).c_str(), 0600), 0);
  EXPECT_THAT(fixture.OpenError(),
              AllOf(HasSubstr("model-00001-of-000003.safetensors: is a folder"),
                    HasSubstr("model-00002-of-000003.safetensors: is a pipe")));
}

TEST(OpenDamaged, LargeFilePointersAreRecognised) {
  constexpr std::string_view kPointer =
      "version https://git-lfs.github.com/spec/v1\noid "
      "sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
  for (const char* name :
       {"model-00002-of-000003.safetensors", "model.safetensors.index.json", "config.json"}) {
    const CheckpointFixture fixture;
    WriteFile(fixture.dir() / name, kPointer);
    EXPECT_THAT(fixture.OpenError(), AllOf(HasSubstr(name), HasSubstr("never downloaded")));
  }
}

// Files that were cut.

TEST(OpenDamaged, AllBadShardsAreListedAtOnce) {
  CheckpointFixture fixture(5);
  const std::string third = ReadFile(fixture.ShardPath(3, 5));
  WriteFile(fixture.ShardPath(1, 5), "");
  WriteFile(fixture.ShardPath(2, 5), "1234567");
  WriteFile(fixture.ShardPath(3, 5), third.substr(0, 1000));
  const std::string error = fixture.OpenError();
  EXPECT_THAT(error, AllOf(HasSubstr("00001-of-000005.safetensors: is 0 bytes long, too short"),
                           HasSubstr("00002-of-000005.safetensors: is 7 bytes long, too short"),
                           HasSubstr("00003-of-000005.safetensors: is 1000 bytes long, but its")));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 2);
}

TEST(OpenDamaged, EveryCutShardIsNamedInALineOfItsOwn) {
  const CheckpointFixture fixture(5);
  const auto cut = [&](size_t number, uint64_t bytes) {
    const fs::path path = fixture.ShardPath(number, 5);
    fs::resize_file(path, fs::file_size(path) - bytes);
  };
  cut(2, fs::file_size(fixture.ShardPath(2, 5)) / 3);
  cut(3, 1);
  Append(fixture.ShardPath(4, 5), std::string(1234, 'x'));
  const std::string error = fixture.OpenError();
  EXPECT_THAT(error,
              AllOf(HasSubstr("00002-of-000005.safetensors: has "), HasSubstr("cut short by"),
                    HasSubstr("00003-of-000005.safetensors: has "), HasSubstr("short by 1;"),
                    HasSubstr("00004-of-000005.safetensors: has "), HasSubstr("too long by 1,234;"),
                    Not(HasSubstr("tensor "))));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 2) << error;
}

TEST(OpenDamaged, OneMessOfOffsetsDoesNotHideACutShard) {
  const CheckpointFixture fixture;
  ShardParts parts = ReadShard(fixture.ShardPath(2));
  json header = json::parse(parts.header);
  for (auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    for (json& offset : entry["data_offsets"]) offset = offset.get<uint64_t>() + 8;
  }
  parts.header = header.dump();
  WriteShard(fixture.ShardPath(2), parts);
  fs::resize_file(fixture.ShardPath(3), fs::file_size(fixture.ShardPath(3)) - 5);
  const std::string error = fixture.OpenError();
  EXPECT_THAT(
      error, AllOf(HasSubstr("00003-of-000003.safetensors: has "), HasSubstr("do not lie in order"),
                   HasSubstr("8 bytes between the header")));
  EXPECT_LE(std::count(error.begin(), error.end(), '\n'), 7) << error;
}

TEST(OpenDamaged, EveryInterestingCutOfAShardIsSeen) {
  CheckpointFixture fixture;
  const fs::path path = fixture.ShardPath(2);
  const std::string whole = ReadFile(path);
  uint64_t header = 0;
  std::memcpy(&header, whole.data(), sizeof(header));
  std::vector<size_t> lengths = {0,
                                 1,
                                 7,
                                 8,
                                 9,
                                 8 + header - 1,
                                 8 + header,
                                 8 + header + 1,
                                 whole.size() * 7 / 10,
                                 whole.size() - 4096,
                                 whole.size() - 1};
  for (size_t length = 10; length < whole.size(); length += whole.size() / 100) {
    lengths.push_back(length);
  }
  for (const size_t length : lengths) {
    WriteFile(path, whole.substr(0, length));
    EXPECT_THAT(fixture.OpenError(), HasSubstr("model-00002-of-000003.safetensors")) << length;
  }
  WriteFile(path, whole);
  EXPECT_EQ(fixture.OpenError(), "");
}

TEST(OpenDamaged, TrailingBytesAreRefused) {
  for (const size_t bytes : {size_t{1}, size_t{511}, size_t{1} << 20}) {
    const CheckpointFixture fixture;
    Append(fixture.ShardPath(2), std::string(bytes, '\0'));
    EXPECT_THAT(fixture.OpenError(),
                HasSubstr(fmt::format("too long by {};", GroupedDigits(bytes))));
  }
}

TEST(OpenDamaged, LengthFieldsOfAllSizesAreRefusedWithoutAllocating) {
  CheckpointFixture fixture(1);
  const fs::path path = fixture.dir() / "model.safetensors";
  const uint64_t before = ReadProcessMeters().peak_resident_bytes;
  constexpr uint64_t kFileBytes = 16;
  for (const uint64_t length :
       {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{1} << 31, (uint64_t{1} << 32) + 10,
        uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 4, kFileBytes - 8, kFileBytes - 7}) {
    std::string file(kFileBytes, ' ');
    std::memcpy(file.data(), &length, sizeof(length));
    WriteFile(path, file);
    const std::string error = fixture.OpenError();
    EXPECT_THAT(error, HasSubstr("model.safetensors: ")) << length;
    EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 0) << error;
  }
  EXPECT_LT(ReadProcessMeters().peak_resident_bytes - before, 50'000'000U);
}

TEST(OpenDamaged, HeadersOfRoundSizesLoadAlike) {
  CheckpointFixture fixture(1);
  const fs::path path = fixture.dir() / "model.safetensors";
  const ShardParts original = ReadShard(path);
  std::vector<size_t> sizes;
  for (size_t size = 99'992; size <= 100'008; ++size) sizes.push_back(size);
  for (const size_t middle : {size_t{65'536}, size_t{262'144}, size_t{1'048'576}}) {
    for (size_t size = middle - 8; size <= middle + 8; ++size) sizes.push_back(size);
  }
  for (const size_t size : sizes) {
    ShardParts padded = original;
    if (padded.header.size() > size) continue;
    padded.header.append(size - padded.header.size(), ' ');
    WriteShard(path, padded);
    EXPECT_EQ(fixture.OpenError(), "") << size;
  }
}

// Index and headers that disagree.

TEST(OpenDamaged, ATensorInAnotherShardThanTheIndexSays) {
  CheckpointFixture fixture;
  json index = fixture.Index();
  json& entry = index["weight_map"][kExpert + "w1.weight_packed"];
  const std::string right = entry;
  entry = right == "model-00001-of-000003.safetensors" ? "model-00003-of-000003.safetensors"
                                                       : "model-00001-of-000003.safetensors";
  const std::string wrong = entry;
  fixture.SetIndex(index);
  EXPECT_THAT(fixture.OpenError(),
              HasSubstr(fmt::format("tensor {}w1.weight_packed is in {}, but it is in {}", kExpert,
                                    wrong, right)));
}

TEST(OpenDamaged, ATensorThatOnlyTheIndexKnows) {
  CheckpointFixture fixture;
  json index = fixture.Index();
  index["weight_map"]["nowhere.weight"] = "model-00001-of-000003.safetensors";
  fixture.SetIndex(index);
  EXPECT_THAT(fixture.OpenError(), HasSubstr("tensor nowhere.weight is missing, though"));
}

TEST(OpenDamaged, ATensorThatTheIndexDoesNotKnow) {
  for (const std::string& name : {kFinalNorm, std::string("mm_projector.proj.0.weight")}) {
    CheckpointFixture fixture;
    json index = fixture.Index();
    index["weight_map"].erase(name);
    fixture.SetIndex(index);
    EXPECT_THAT(fixture.OpenError(), HasSubstr("tensor " + name + " is not named by"));
  }
}

TEST(OpenDamaged, TensorsMissingFromBothAreListedTogether) {
  CheckpointFixture fixture;
  fixture.RemoveTensor(kFinalNorm);
  fixture.RemoveTensor(kLayer + "3.self_attn.g_proj.weight");
  fixture.RemoveTensor(kExpert + "w2.weight_scale");
  EXPECT_THAT(fixture.OpenError(),
              AllOf(HasSubstr(kFinalNorm + " is missing, and config.json demands it"),
                    HasSubstr("3.self_attn.g_proj.weight is missing"),
                    HasSubstr("experts.3.w2.weight_scale is missing")));
}

TEST(OpenDamaged, ATensorTakenOutOfItsShard) {
  CheckpointFixture fixture;
  fixture.RemoveTensor(kFinalNorm, /*keep_in_index=*/true);
  EXPECT_THAT(fixture.OpenError(), HasSubstr(kFinalNorm + " is missing, though"));
}

TEST(OpenDamaged, MoreThanTwentyProblemsAreCounted) {
  CheckpointFixture fixture;
  json config = fixture.Config();
  config["text_config"]["num_experts"] = 16;
  fixture.SetConfig(config);
  EXPECT_THAT(fixture.OpenError(), HasSubstr("more problems like these"));
}

TEST(OpenDamaged, ATensorInTwoShards) {
  for (const std::string& name : {kALog, std::string("vision_tower.encoder.blocks.0.wo.weight")}) {
    CheckpointFixture fixture;
    const fs::path home = fixture.ShardOf(name);
    const fs::path other =
        home == fixture.ShardPath(1) ? fixture.ShardPath(3) : fixture.ShardPath(1);
    const json entry = json::parse(ReadShard(home).header)[name];
    const size_t bytes =
        entry["data_offsets"][1].get<size_t>() - entry["data_offsets"][0].get<size_t>();
    ShardParts parts = ReadShard(other);
    json header = json::parse(parts.header);
    header[name] = entry;
    header[name]["data_offsets"] = {parts.data.size(), parts.data.size() + bytes};
    parts.header = header.dump();
    parts.data.append(bytes, '\0');
    WriteShard(other, parts);
    EXPECT_THAT(fixture.OpenError(), AllOf(HasSubstr(name), HasSubstr("too"))) << name;
  }
}

TEST(OpenDamaged, ARepeatedNameInTheIndex) {
  CheckpointFixture fixture;
  std::string text = fixture.Index().dump();
  const std::string entry =
      fmt::format("\"{}\":\"model-00003-of-000003.safetensors\",", kFinalNorm);
  const size_t at = text.find("\"weight_map\":{") + std::string("\"weight_map\":{").size();
  text.insert(at, entry);
  WriteFile(fixture.IndexPath(), text);
  EXPECT_THAT(fixture.OpenError(), HasSubstr("tensor " + kFinalNorm + " is named twice"));
}

TEST(OpenDamaged, PathsOutOfTheFolderAreRefused) {
  for (const char* path : {"../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", "",
                           "._model.safetensors", "a\\b"}) {
    CheckpointFixture fixture;
    json index = fixture.Index();
    index["weight_map"][kFinalNorm] = path;
    fixture.SetIndex(index);
    EXPECT_THAT(fixture.OpenError(), HasSubstr("own folder under a plain name")) << path;
  }
}

TEST(OpenDamaged, AnEmptyIndexIsRefused) {
  CheckpointFixture fixture;
  WriteFile(fixture.IndexPath(), "{\"metadata\": {}, \"weight_map\": {}}");
  EXPECT_THAT(fixture.OpenError(), HasSubstr("weight_map is missing or empty"));
}

// Tensors that are not what the config demands.

TEST(OpenDamaged, SmallTensorsOfAnotherSizeAreRefused) {
  for (const std::string name :
       {"1.self_attn.A_log", "1.self_attn.dt_bias", "1.self_attn.q_conv1d.weight",
        "1.self_attn.o_norm.weight", "1.input_layernorm.weight", "1.mlp_res_proj.weight",
        "1.block_sparse_moe.gate.e_score_correction_bias",
        "1.block_sparse_moe.routed_expert_norm.weight", "3.self_attn.kv_a_layernorm.weight"}) {
    for (const bool longer : {true, false}) {
      CheckpointFixture fixture;
      const json entry =
          json::parse(ReadShard(fixture.ShardOf(kLayer + name)).header)[kLayer + name];
      auto shape = entry["shape"].get<std::vector<uint64_t>>();
      shape[shape.size() - 1] = longer ? shape.back() * 100 : shape.back() - 1;
      fixture.ReplaceTensor(kLayer + name, entry["dtype"], shape);
      EXPECT_THAT(fixture.OpenError(), AllOf(HasSubstr(kLayer + name + " has the shape"),
                                             HasSubstr("but config.json demands")));
    }
  }
}

TEST(OpenDamaged, MatricesTransposedOrFlattenedAreRefused) {
  CheckpointFixture fixture;
  fixture.EditEntry(kKProj, {{"shape", {128, 96}}});
  fixture.EditEntry(kVProj, {{"shape", {96 * 128}}});
  EXPECT_THAT(fixture.OpenError(), AllOf(HasSubstr("[128, 96], but config.json demands [96, 128]"),
                                         HasSubstr("[12288], but config.json demands [96, 128]")));
}

TEST(OpenDamaged, NeededTensorsOfOtherDtypesAreRefusedInWords) {
  for (const char* dtype : {"F16", "F64", "F8_E4M3", "I32", "F4X", "f32", ""}) {
    CheckpointFixture fixture;
    fixture.ReplaceTensor(kFinalNorm, dtype, {128});
    if (std::string_view(dtype) == "f32") fixture.EditEntry(kFinalNorm, {{"dtype", "f32"}});
    EXPECT_THAT(fixture.OpenError(),
                HasSubstr(fmt::format("is stored as {}; here it must be BF16 or F32", dtype)))
        << dtype;
  }
}

TEST(OpenDamaged, F32AndBf16AreAcceptedForEveryUnpackedTensor) {
  CheckpointFixture fixture;
  fixture.ReplaceTensor(kFinalNorm, "F32", {128});
  fixture.ReplaceTensor(kKProj, "F32", {96, 128});
  fixture.ReplaceTensor(kALog, "BF16", {1, 1, 3, 1});
  EXPECT_EQ(fixture.OpenError(), "");
  const Checkpoint checkpoint = Checkpoint::Open(fixture.dir());
  EXPECT_EQ(checkpoint.Get(Role::kKdaK, 1).dtype, Dtype::kF32);
  EXPECT_EQ(checkpoint.Get(Role::kKdaALog, 1).dtype, Dtype::kBf16);
  EXPECT_EQ(checkpoint.Get(Role::kKdaALog, 1).range.bytes, 6U);
}

TEST(OpenDamaged, PackedWeightsAndScalesMustAgreeWithTheConfig) {
  const auto with = [](const std::string& part, const char* dtype, std::vector<uint64_t> shape) {
    CheckpointFixture fixture;
    fixture.ReplaceTensor(kExpert + part, dtype, shape);
    return fixture.OpenError();
  };
  EXPECT_THAT(with("w1.weight_scale", "U8", {96, 1}), HasSubstr("demands [96, 2]"));
  EXPECT_THAT(with("w1.weight_scale", "F32", {96, 2}), HasSubstr("must be U8 (MXFP4)"));
  EXPECT_THAT(with("w1.weight_packed", "U8", {96, 31}), HasSubstr("demands [96, 32]"));
  EXPECT_THAT(with("w1.weight_packed", "U8", {96, 33}), HasSubstr("demands [96, 32]"));
  EXPECT_THAT(with("w1.weight_packed", "U8", {64, 48}), HasSubstr("demands [96, 32]"));
  EXPECT_THAT(with("w2.weight_packed", "BF16", {64, 96}), HasSubstr("must be U8 (MXFP4)"));
  CheckpointFixture fixture;
  json config = fixture.Config();
  config["text_config"]["quantization_config"]["config_groups"]["group_0"]["weights"]
        ["group_size"] = 16;
  fixture.SetConfig(config);
  EXPECT_THAT(fixture.OpenError(), HasSubstr("group_size is 16"));
}

TEST(OpenDamaged, UnpackedExpertsAreAllBf16OrAllF32) {
  json config = json::parse(GeometryConfig("tiny", {2, 2, 64}));
  config["text_config"].erase("quantization_config");
  const TemporaryFolder folder;
  SynthOptions options;
  options.config_json = config.dump();
  options.output = folder.path();
  options.shards = 1;
  WriteSynthCheckpoint(options);
  const fs::path path = folder.path() / "model.safetensors";
  // Lays the data out anew, as zeros, with some tensors in f32.
  const auto store_as_f32 = [&](std::string_view part_of_name) {
    ShardParts parts = ReadShard(path);
    json header = json::parse(parts.header);
    std::string data;
    for (auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const bool widen = name.find(part_of_name) != std::string::npos && entry["dtype"] == "BF16";
      const size_t bytes =
          entry["data_offsets"][1].get<size_t>() - entry["data_offsets"][0].get<size_t>();
      if (widen) entry["dtype"] = "F32";
      entry["data_offsets"] = {data.size(), data.size() + bytes * (widen ? 2 : 1)};
      data.append(bytes * (widen ? 2 : 1), '\0');
    }
    WriteShard(path, {header.dump(), data});
  };
  store_as_f32(".experts.1.w2.");
  try {
    Checkpoint::Open(folder.path());
    FAIL() << "experts of two sizes";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("experts.1.w2.weight is stored as F32"),
                                    HasSubstr("experts before it as BF16")));
  }
  store_as_f32(".experts.");
  const Checkpoint checkpoint = Checkpoint::Open(folder.path());
  EXPECT_EQ(checkpoint.Expert(1, 1).gate.dtype, Dtype::kF32);
  EXPECT_EQ(checkpoint.Expert(1, 1).gate.weights.bytes, 96U * 64 * 4);
}

TEST(OpenDamaged, UnknownTensorsOfTheTextModelAreRefused) {
  CheckpointFixture fixture;
  const fs::path path = fixture.ShardPath(1);
  ShardParts parts = ReadShard(path);
  json header = json::parse(parts.header);
  const std::string name = kLayer + "0.self_attn.rotary_emb.inv_freq";
  header[name] = {{"dtype", "F32"},
                  {"shape", {2}},
                  {"data_offsets", {parts.data.size(), parts.data.size() + 8}}};
  WriteShard(path, {header.dump(), parts.data + std::string(8, '\0')});
  json index = fixture.Index();
  index["weight_map"][name] = path.filename().string();
  fixture.SetIndex(index);
  EXPECT_THAT(fixture.OpenError(), HasSubstr("tensor " + name + " is not part of the model"));
}

TEST(OpenDamaged, TensorsThatTheConfigTurnsOffAreSurplus) {
  CheckpointFixture fixture;
  json config = fixture.Config();
  config["text_config"].erase("attn_res_block_size");
  fixture.SetConfig(config);
  EXPECT_THAT(fixture.OpenError(), AllOf(HasSubstr("mlp_res_norm.weight is not part of the model"),
                                         Not(HasSubstr("is missing"))));
}

TEST(OpenDamaged, IgnoredTensorsAreCheckedForTheirRange) {
  CheckpointFixture fixture;
  fixture.EditEntry("mm_projector.post_norm.weight", {{"dtype", "F4X"}});
  EXPECT_EQ(fixture.OpenError(), "");
  fixture.EditEntry("mm_projector.post_norm.weight", {{"data_offsets", {0, 1ULL << 40}}});
  EXPECT_THAT(fixture.OpenError(), HasSubstr("mm_projector.post_norm.weight: its data_offsets"));
}

TEST(OpenDamaged, KAndVMayNotShareTheirBytes) {
  CheckpointFixture fixture;
  const json header = json::parse(ReadShard(fixture.ShardOf(kKProj)).header);
  fixture.EditEntry(kVProj, {{"data_offsets", header[kKProj]["data_offsets"]}});
  EXPECT_THAT(fixture.OpenError(), AllOf(HasSubstr("overlap"), HasSubstr(kVProj)));
}

// Names with and without the prefix.

std::string Unprefixed(std::string text) {
  constexpr std::string_view kPrefix = "language_model.";
  for (size_t at = 0; (at = text.find(kPrefix, at)) != std::string::npos;) {
    text.erase(at, kPrefix.size());
  }
  return text;
}

TEST(OpenDamaged, ThePrefixIsFoundFromTheTensors) {
  CheckpointFixture fixture;
  EXPECT_EQ(Checkpoint::Open(fixture.dir()).config().name_prefix, "language_model.");
  fixture.SetConfig(fixture.Config()["text_config"]);
  EXPECT_EQ(Checkpoint::Open(fixture.dir()).config().name_prefix, "language_model.");
  for (size_t number = 1; number <= 3; ++number) {
    ShardParts parts = ReadShard(fixture.ShardPath(number));
    parts.header = Unprefixed(parts.header);
    WriteShard(fixture.ShardPath(number), parts);
  }
  WriteFile(fixture.IndexPath(), Unprefixed(ReadFile(fixture.IndexPath())));
  const Checkpoint checkpoint = Checkpoint::Open(fixture.dir());
  EXPECT_EQ(checkpoint.config().name_prefix, "");
  EXPECT_EQ(checkpoint.TensorName(Role::kFinalNorm), "model.norm.weight");
}

TEST(OpenDamaged, AMixtureOfPrefixesIsRefused) {
  CheckpointFixture fixture(1);
  const fs::path path = fixture.dir() / "model.safetensors";
  ShardParts parts = ReadShard(path);
  parts.header.replace(parts.header.find(kFinalNorm), 15, "");
  WriteShard(path, parts);
  EXPECT_THAT(fixture.OpenError(), HasSubstr("and some without (model.norm.weight)"));
}

// Forms of the config around the same weights.

TEST(OpenDamaged, TheConfigMayBeFlatNestedOrBoth) {
  CheckpointFixture fixture;
  const json nested = fixture.Config();
  json both = nested;
  for (const auto& [name, value] : nested["text_config"].items()) {
    if (name != "model_type") both[name] = value;
  }
  fixture.SetConfig(both);
  EXPECT_EQ(fixture.OpenError(), "");
  both["num_experts"] = 9;
  fixture.SetConfig(both);
  EXPECT_THAT(fixture.OpenError(), HasSubstr("num_experts is 9 but text_config.num_experts is 8"));
  json without = nested;
  without["text_config"].erase("quantization_config");
  fixture.SetConfig(without);
  EXPECT_THAT(fixture.OpenError(),
              HasSubstr("packed as MXFP4, but config.json has no quantization_config"));
  without["text_config"] = nullptr;
  fixture.SetConfig(without);
  EXPECT_THAT(fixture.OpenError(), HasSubstr("hidden_size is missing"));
}

// Flipped bytes of a header: it opens with the very same places, or it is refused.
TEST(OpenDamaged, FlippedHeaderBytesNeverMoveATensor) {
  CheckpointFixture fixture(1);
  const fs::path path = fixture.dir() / "model.safetensors";
  const std::string whole = ReadFile(path);
  uint64_t header = 0;
  std::memcpy(&header, whole.data(), sizeof(header));
  const auto places = [&] {
    const Checkpoint checkpoint = Checkpoint::Open(fixture.dir());
    std::vector<uint64_t> offsets;
    for (size_t layer = 0; layer < checkpoint.config().layers; ++layer) {
      offsets.push_back(checkpoint.Get(Role::kInputNorm, layer).range.offset);
      if (layer == 0) continue;
      for (size_t expert = 0; expert < checkpoint.config().moe.experts; ++expert) {
        offsets.push_back(checkpoint.Expert(layer, expert).down.scales.offset);
      }
    }
    return offsets;
  };
  const std::vector<uint64_t> undamaged = places();
  std::mt19937_64 random(7);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto write = [&](size_t at, char byte) {
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    file.flush();
  };
  size_t opened = 0;
  for (int round = 0; round < 300; ++round) {
    const size_t at = random() % (header + 8);
    write(at, static_cast<char>(whole[at] ^ (1 << (random() % 8))));
    try {
      EXPECT_EQ(places(), undamaged) << at;
      ++opened;
    } catch (const Error& error) {
      EXPECT_STRNE(error.what(), "");
    }
    write(at, whole[at]);
  }
  // Names of vision tensors may change their letters.
  EXPECT_LT(opened, 30U);
}

}  // namespace
}  // namespace kimi_k3

// Tests of putting an overlay in place of a checkpoint's matrices; nothing of it is believed.
#include "checkpoint/overlay_binder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "overlay/overlay_test_support.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kFile = "layer-00001.safetensors";
constexpr const char* kMatrix = "language_model.model.layers.1.self_attn.k_proj.weight.q8";

// An overlay on disk that is damaged in one place.
struct Damaged {
  fs::path folder;
  json record;
  json header;  // of kFile
  std::string data;
};

Damaged Load(const fs::path& overlay) {
  const std::string text = ContentOf(overlay / kFile);
  uint64_t length = 0;
  std::memcpy(&length, text.data(), sizeof length);
  return {overlay, json::parse(ContentOf(overlay / kOverlayRecordName)),
          json::parse(text.substr(8, length)), text.substr(8 + length)};
}

json& EntryOf(json& record) {
  for (json& file : record["files"]) {
    if (file["name"] == kFile) return file;
  }
  throw std::logic_error("no such file");
}

json& MatrixOf(json& record) {
  for (json& matrix : EntryOf(record)["matrices"]) {
    if (matrix["name"] == kMatrix) return matrix;
  }
  throw std::logic_error("no such matrix");
}

void Store(Damaged& damaged) {
  const std::string header = damaged.header.dump();
  const uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  text += header + damaged.data;
  std::ofstream(damaged.folder / kFile, std::ios::binary) << text;
  EntryOf(damaged.record)["bytes"] = text.size();
  std::ofstream(damaged.folder / kOverlayRecordName) << damaged.record.dump();
}

std::string UseRefusal(const fs::path& overlay, const fs::path& model = TrainedModel()) {
  Checkpoint checkpoint = Checkpoint::Open(model);
  const size_t shards = checkpoint.shards().size();
  try {
    checkpoint.UseOverlay(overlay);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint) << error.what();
    EXPECT_EQ(checkpoint.shards().size(), shards);
    EXPECT_FALSE(checkpoint.overlay());
    EXPECT_EQ(checkpoint.Get(Role::kKdaK, 1).dtype, Dtype::kBf16);
    return error.what();
  }
  return {};
}

TEST(OverlayBinder, PutsTheMatricesInPlaceOfTheModels) {
  const ScratchFolder folder;
  const fs::path overlay = MakeOverlay(folder, Dtype::kQ8);
  Checkpoint checkpoint = Checkpoint::Open(TrainedModel());
  const TensorLocation before = checkpoint.Get(Role::kKdaK, 1);
  const TensorLocation router = checkpoint.Get(Role::kRouter, 1);
  checkpoint.UseOverlay(overlay);
  const TensorLocation after = checkpoint.Get(Role::kKdaK, 1);
  EXPECT_EQ(after.dtype, Dtype::kQ8);
  EXPECT_EQ(after.rows, before.rows);
  EXPECT_EQ(after.columns, before.columns);
  EXPECT_EQ(after.range.bytes, before.range.bytes / 64 * 34);
  EXPECT_EQ(checkpoint.shards()[after.range.shard].path.filename(), kFile);
  EXPECT_EQ(checkpoint.GetInBase(Role::kKdaK, 1).range.offset, before.range.offset);
  EXPECT_EQ(checkpoint.Get(Role::kRouter, 1).range.offset, router.range.offset);
  ASSERT_TRUE(checkpoint.overlay());
  EXPECT_EQ(checkpoint.overlay()->trunk, "q8");
  EXPECT_EQ(checkpoint.overlay()->matrices, 110U);
  EXPECT_FALSE(checkpoint.overlay()->exact);
  Checkpoint lossless = Checkpoint::Open(TrainedModel());
  lossless.UseOverlay(MakeOverlay(folder, Dtype::kCodedBf16, "lossless"));
  EXPECT_TRUE(lossless.overlay()->exact);
}

TEST(OverlayBinder, TakesOfAPartOfTheModelWhatThatRuns) {
  const ScratchFolder folder;
  Checkpoint part = Checkpoint::Open({TrainedModel()}, "layers=0-2");
  part.UseOverlay(MakeOverlay(folder, Dtype::kQ8));
  EXPECT_EQ(part.Get(Role::kKdaK, 1).dtype, Dtype::kQ8);
}

TEST(OverlayBinder, RefusesFoldersThatHoldNoFinishedOverlay) {
  const ScratchFolder folder;
  EXPECT_THAT(UseRefusal(TrainedModel()), HasSubstr("it is no overlay"));
  EXPECT_THAT(UseRefusal(folder / "nothing"), HasSubstr("nothing"));
  const fs::path overlay = MakeOverlay(folder, Dtype::kQ8);
  Damaged damaged = Load(overlay);
  damaged.record["complete"] = false;
  Store(damaged);
  EXPECT_THAT(UseRefusal(overlay), HasSubstr("goes on where it was stopped"));
}

TEST(OverlayBinder, RefusesAnOverlayOfAnotherCheckpointAndSaysSoOnce) {
  const ScratchFolder folder;
  const fs::path overlay = MakeOverlay(folder, Dtype::kQ8);
  const fs::path model = CopyOfTrainedModel(folder);
  const Checkpoint checkpoint = Checkpoint::Open(model);
  for (const Role role : {Role::kKdaQ, Role::kKdaO}) {
    const TensorLocation matrix = checkpoint.Get(role, 2);
    FlipByte(checkpoint.shards()[matrix.range.shard].path,
             matrix.range.offset + matrix.range.bytes / 2);
  }
  const std::string message = UseRefusal(overlay, model);
  EXPECT_THAT(message, HasSubstr("made from another checkpoint"));
  EXPECT_THAT(message, HasSubstr("layers.2.self_attn.q_proj"));
  EXPECT_EQ(message.find("o_proj"), std::string::npos);
}

TEST(OverlayBinder, RefusesFilesOfAnotherLengthAndMissingOnes) {
  const ScratchFolder folder;
  const fs::path overlay = MakeOverlay(folder, Dtype::kQ8);
  fs::resize_file(overlay / kFile, fs::file_size(overlay / kFile) - 1);
  EXPECT_THAT(UseRefusal(overlay),
              HasSubstr("it was cut or replaced: remove it and give the kimi_k3 quantize command"));
  fs::remove(overlay / kFile);
  EXPECT_THAT(UseRefusal(overlay),
              HasSubstr(std::string(kFile) + ": is missing: give the kimi_k3"));
}

TEST(OverlayBinder, TellsTheWayOutOfWhateverIsDamaged) {
  const ScratchFolder folder;
  const fs::path overlay = MakeOverlay(folder, Dtype::kQ8);
  std::fstream(overlay / kFile, std::ios::in | std::ios::out).write("\1\0\0\0\0\0\0", 8);
  EXPECT_THAT(UseRefusal(overlay), HasSubstr("remove it and give the kimi_k3 quantize command"));
  fs::resize_file(overlay / "overlay.json", 10);
  EXPECT_THAT(UseRefusal(overlay), HasSubstr("remove this overlay and make it anew"));
}

struct OverlayDamage {
  const char* name;
  std::function<void(Damaged&)> change;
  const char* message;
};

class DamagedOverlay : public testing::TestWithParam<OverlayDamage> {};

TEST_P(DamagedOverlay, IsRefusedWithTheFileAndTheTensor) {
  const ScratchFolder folder;
  const fs::path overlay = MakeOverlay(folder, Dtype::kQ8);
  Damaged damaged = Load(overlay);
  GetParam().change(damaged);
  Store(damaged);
  EXPECT_THAT(UseRefusal(overlay), HasSubstr(GetParam().message));
}

void Rename(Damaged& damaged, const std::string& name) {
  damaged.header[name] = damaged.header[kMatrix];
  damaged.header.erase(kMatrix);
  MatrixOf(damaged.record)["name"] = name;
}

INSTANTIATE_TEST_SUITE_P(
    Overlays, DamagedOverlay,
    testing::Values(
        OverlayDamage{"NotInTheRecord",
                      [](Damaged& d) { MatrixOf(d.record)["name"] = "something"; },
                      "does not say that it is here"},
        OverlayDamage{
            "NotInTheFile",
            [](Damaged& d) {
              EntryOf(d.record)["matrices"].push_back(
                  {{"name", "more.q8"}, {"bytes", 1}, {"base", "0000000000000001"}, {"error", 0}});
            },
            "more.q8 is missing"},
        OverlayDamage{
            "NamedTwice",
            [](Damaged& d) { EntryOf(d.record)["matrices"].push_back(MatrixOf(d.record)); },
            "twice"},
        OverlayDamage{"NoForm", [](Damaged& d) { Rename(d, "language_model.lm_head.weight"); },
                      "is no matrix of this model"},
        OverlayDamage{"NoDot", [](Damaged& d) { Rename(d, "q8"); }, "is no matrix of this model"},
        OverlayDamage{"Vector",
                      [](Damaged& d) {
                        Rename(d, "language_model.model.layers.1.input_layernorm.weight.q8");
                      },
                      "is no matrix of this model"},
        OverlayDamage{"Expert",
                      [](Damaged& d) {
                        Rename(d,
                               "language_model.model.layers.1.block_sparse_moe.experts.0.w1."
                               "weight_packed.q8");
                      },
                      "is no matrix of this model"},
        OverlayDamage{"AnotherShape",
                      [](Damaged& d) {
                        d.header[kMatrix]["shape"] = {204, 128};
                      },
                      "does not hold a 128 by 192 matrix as q8"},
        OverlayDamage{"FewerDimensions", [](Damaged& d) { d.header[kMatrix]["shape"] = {26112}; },
                      "does not hold a 128 by 192 matrix as q8"},
        OverlayDamage{"AnotherType",
                      [](Damaged& d) {
                        d.header[kMatrix]["dtype"] = "BF16";
                        d.header[kMatrix]["shape"] = {256, 51};
                      },
                      "does not hold a 128 by 192 matrix as q8"},
        OverlayDamage{"AnotherForm",
                      [](Damaged& d) {
                        std::string name = kMatrix;
                        name.replace(name.size() - 2, 2, "q4");
                        Rename(d, name);
                      },
                      "does not hold a 128 by 192 matrix as q4"},
        OverlayDamage{"OtherBytes", [](Damaged& d) { MatrixOf(d.record)["bytes"] = 1; },
                      "does not hold"},
        OverlayDamage{"Offsets",
                      [](Damaged& d) {
                        d.header[kMatrix]["data_offsets"] = {0, 1 << 30};
                      },
                      kFile},
        OverlayDamage{"DataIsCut", [](Damaged& d) { d.data.resize(d.data.size() - 7); }, kFile}),
    [](const auto& damage) { return damage.param.name; });

}  // namespace
}  // namespace kimi_k3

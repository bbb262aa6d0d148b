// Tests of overlay.json.
#include "checkpoint/overlay_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/checkpoint_fixture.h"

namespace kimi_k3 {
namespace {

using nlohmann::json;
using testing::HasSubstr;

OverlayRecord SomeRecord() {
  return {.trunk = "q4",
          .only = {"*.self_attn.*"},
          .except = {"*\"odd\"*"},
          .complete = true,
          .files = {{"a.safetensors", 17, std::string(64, 'a'), {{"w.q4", 9, 0x12, 0.25}}},
                    {"b.safetensors", 4, std::string(64, '0'), {}}}};
}

TEST(OverlayRecord, ComesBackAsItWasSaved) {
  const TemporaryFolder folder;
  EXPECT_FALSE(OverlayRecord::Load(folder.path()));
  const OverlayRecord record = SomeRecord();
  record.Save(folder.path());
  const auto loaded = OverlayRecord::Load(folder.path());
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->trunk, "q4");
  EXPECT_EQ(loaded->only, record.only);
  EXPECT_EQ(loaded->except, record.except);
  EXPECT_TRUE(loaded->complete);
  ASSERT_EQ(loaded->files.size(), 2U);
  EXPECT_EQ(loaded->files[0].bytes, 17U);
  EXPECT_EQ(loaded->files[0].sha256, std::string(64, 'a'));
  ASSERT_EQ(loaded->files[0].matrices.size(), 1U);
  EXPECT_EQ(loaded->files[0].matrices[0].name, "w.q4");
  EXPECT_EQ(loaded->files[0].matrices[0].bytes, 9U);
  EXPECT_EQ(loaded->files[0].matrices[0].base_fingerprint, 0x12U);
  EXPECT_EQ(loaded->files[0].matrices[0].error, 0.25);
  EXPECT_EQ(loaded->Fingerprint(), record.Fingerprint());
}

TEST(OverlayRecord, HasAFingerprintOfWhatItsFilesHold) {
  OverlayRecord record = SomeRecord();
  const std::string before = record.Fingerprint();
  EXPECT_EQ(before.size(), 8U);
  record.only.clear();
  EXPECT_EQ(record.Fingerprint(), before);
  record.files[1].sha256.back() = '1';
  EXPECT_NE(record.Fingerprint(), before);
}

struct Damage {
  const char* name;
  std::function<void(json&)> change;
  const char* message;
};

class DamagedOverlayRecord : public testing::TestWithParam<Damage> {};

TEST_P(DamagedOverlayRecord, IsRefusedWithTheFileAndTheField) {
  const TemporaryFolder folder;
  SomeRecord().Save(folder.path());
  const auto path = folder.path() / kOverlayRecordName;
  json root = json::parse(ReadFile(path));
  GetParam().change(root);
  WriteFile(path, root.dump());
  try {
    OverlayRecord::Load(folder.path());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_THAT(error.what(), HasSubstr("overlay.json: "));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Overlays, DamagedOverlayRecord,
    testing::Values(
        Damage{"Format", [](json& r) { r["format"] = "kimi_k3 overlay 2"; }, "this version"},
        Damage{"NoFormat", [](json& r) { r.erase("format"); }, "this version"},
        Damage{"NoObject", [](json& r) { r = json::array(); }, "this version"},
        Damage{"Trunk", [](json& r) { r["trunk"] = "q3\n"; }, "\"trunk\" is \"q3\\x0a\""},
        Damage{"Complete", [](json& r) { r["complete"] = 1; }, "\"complete\""},
        Damage{"Pattern", [](json& r) { r["only"] = {1}; }, "\"only\""},
        Damage{"NoFiles", [](json& r) { r.erase("files"); }, "\"files\""},
        Damage{"FileIsNoObject", [](json& r) { r["files"][0] = 7; }, "\"name\""},
        Damage{"Path", [](json& r) { r["files"][0]["name"] = "../a"; }, "plain name"},
        Damage{"Twice", [](json& r) { r["files"][1]["name"] = "a.safetensors"; }, "order"},
        Damage{"Bytes", [](json& r) { r["files"][0]["bytes"] = -1; }, "\"bytes\""},
        Damage{"Hash", [](json& r) { r["files"][0]["sha256"] = "ABC"; }, "SHA-256"},
        Damage{"Base", [](json& r) { r["files"][0]["matrices"][0]["base"] = "12"; }, "\"base\""},
        Damage{"BaseDigits",
               [](json& r) { r["files"][0]["matrices"][0]["base"] = "000000000000001g"; },
               "\"base\""},
        Damage{"MatrixBytes", [](json& r) { r["files"][0]["matrices"][0]["bytes"] = 0.5; },
               "\"bytes\""},
        Damage{"Error", [](json& r) { r["files"][0]["matrices"][0]["error"] = -0.5; },
               "\"error\""}),
    [](const auto& damage) { return damage.param.name; });

TEST(OverlayRecord, KnowsWhichRowsAFormCanHave) {
  EXPECT_TRUE(OverlayRowFits(Dtype::kQ8, 64, 68));
  EXPECT_FALSE(OverlayRowFits(Dtype::kQ8, 64, 67));
  EXPECT_FALSE(OverlayRowFits(Dtype::kQ8, 63, 34));
  EXPECT_TRUE(OverlayRowFits(Dtype::kQ4, 32, 18));
  EXPECT_TRUE(OverlayRowFits(Dtype::kCodedBf16, 32, 3 * 4 + 32 + 8));
  EXPECT_TRUE(OverlayRowFits(Dtype::kCodedBf16, 32, 3 * 4 + 32 + 8 + 32));
  EXPECT_FALSE(OverlayRowFits(Dtype::kCodedBf16, 32, 3 * 4 + 32 + 7));
  EXPECT_FALSE(OverlayRowFits(Dtype::kCodedBf16, 32, 3 * 4 + 32 + 8 + 33));
}

}  // namespace
}  // namespace kimi_k3

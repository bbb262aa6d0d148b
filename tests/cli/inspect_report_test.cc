// Tests of the report on what a checkpoint holds.
#include "cli/inspect_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/program.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

uint64_t SumOfLayers(const InspectReport& report) {
  uint64_t sum = 0;
  for (const LayerBytes& layer : report.layers) {
    sum += std::accumulate(layer.bytes.begin(), layer.bytes.end(), uint64_t{0});
  }
  return sum;
}

TEST(InspectReport, AddsUpToTheWholeCheckpoint) {
  const TensorListing listing({SmallModel()});
  const InspectReport report = MakeInspectReport(listing);
  EXPECT_EQ(report.tensors, listing.checkpoint().tensor_count());
  EXPECT_EQ(report.bytes, listing.checkpoint().tensor_bytes());
  uint64_t tensors = 0, bytes = 0, parameters = 0;
  for (const RoleTotal& role : report.roles) {
    tensors += role.tensors;
    bytes += role.bytes;
    parameters += role.parameters;
  }
  EXPECT_EQ(tensors, report.tensors);
  EXPECT_EQ(bytes, report.bytes);
  EXPECT_EQ(parameters, report.parameters);
  EXPECT_EQ(SumOfLayers(report), report.bytes);
  const ModelConfig& config = listing.checkpoint().config();
  EXPECT_EQ(report.kda_layers + report.mla_layers, config.layers);
  EXPECT_EQ(report.dense_layers + report.moe_layers, config.layers);
  EXPECT_GT(report.floor.smallest_bytes, 0U);
  EXPECT_EQ(report.floor.budget_bytes, report.floor.smallest_bytes);
}

TEST(InspectReport, TableAndJsonSayTheSame) {
  const TensorListing listing({TinyModel()});
  const InspectReport report = MakeInspectReport(listing);
  const std::string text = FormatReport(report);
  const auto json = ReportToJson(report);
  EXPECT_EQ(json["tensors"], report.tensors);
  EXPECT_EQ(json["read_per_token"]["bytes"], report.floor.bytes_per_token());
  EXPECT_THAT(text, HasSubstr(Grouped(json["bytes"].get<uint64_t>()) + " bytes"));
  EXPECT_THAT(text, HasSubstr(FormatParameters(json["parameters"].get<uint64_t>())));
  for (const auto& role : json["roles"]) {
    if (role["group"] == std::string(GroupName(ByteGroup::kIgnored))) continue;
    EXPECT_THAT(text, HasSubstr("  " + role["role"].get<std::string>() + " "));
  }
}

// The published index and config, without one shard: what it will hold once it is there.
TEST(InspectReport, OfThePublishedIndexHasItsTotals) {
  const std::string shared = KIMI_K3_SOURCE_DIR "/../shared/data/";
  if (!std::filesystem::exists(shared + "k3_index.json.gz")) {
    GTEST_SKIP() << shared << " is not there: the published index cannot be looked at";
  }
  const TemporaryFolder folder;
  std::filesystem::copy_file(shared + "k3_config.json", folder / "config.json");
  const std::string unpack = "gunzip -c '" + shared + "k3_index.json.gz' > '" +
                             (folder / "model.safetensors.index.json") + "'";
  ASSERT_EQ(std::system(unpack.c_str()), 0);
  const auto start = std::chrono::steady_clock::now();
  const TensorListing listing({folder.path()});
  const InspectReport report = MakeInspectReport(listing);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", static_cast<int>(seconds.count() * 1000));
  EXPECT_EQ(report.files, 96U);
  EXPECT_EQ(report.missing.size(), 96U);
  EXPECT_EQ(report.tensors, 497220U);
  EXPECT_EQ(report.bytes, 1560860324864U);
  EXPECT_EQ(report.routed_experts, 82432U);
  EXPECT_EQ(report.expert_bytes, 17547264U);
  EXPECT_EQ(FormatParameters(report.parameters), "2.78 T");
  EXPECT_EQ(FormatParameters(report.parameters_per_token), "104 B");
  EXPECT_EQ(report.kda_layers, 69U);
  EXPECT_EQ(report.mla_layers, 24U);
  EXPECT_NEAR(static_cast<double>(report.floor.bytes_per_token()), 137e9, 0.5e9);
  EXPECT_THAT(FormatReport(report), HasSubstr("96 files are not there"));
}

TEST(InspectReport, WritesNumbersForPeople) {
  EXPECT_EQ(Grouped(7), "7");
  EXPECT_EQ(Grouped(497220), "497,220");
  EXPECT_EQ(Grouped(1560860324864), "1,560,860,324,864");
  EXPECT_EQ(FormatParameters(2780000000000), "2.78 T");
  EXPECT_EQ(FormatParameters(12), "12");
}

}  // namespace
}  // namespace kimi_k3

// Only the published way of packing experts is accepted.
#include "checkpoint/quantization_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/synth_config.h"

namespace kimi_k3 {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json Published() {
  return json::parse(GeometryConfig("tiny", {}))["text_config"]["quantization_config"];
}

std::string ProblemsOf(const json& object) {
  ProblemList problems;
  CheckQuantizationConfig(object, "c.json", "quantization_config", problems);
  return problems.Text();
}

TEST(QuantizationConfig, AcceptsThePublishedForm) { EXPECT_EQ(ProblemsOf(Published()), ""); }

TEST(QuantizationConfig, RefusesWhatChangesTheMeaningOfTheBytes) {
  const std::pair<const char*, json> changes[] = {
      {"/quant_method", "gptq"},
      {"/format", "pack-quantized"},
      {"/quantization_status", "frozen"},
      {"/kv_cache_scheme", {{"num_bits", 8}}},
      {"/config_groups/group_0/format", "nvfp4-pack-quantized"},
      {"/config_groups/group_0/input_activations", {{"num_bits", 8}}},
      {"/config_groups/group_0/weights/num_bits", 8},
      {"/config_groups/group_0/weights/group_size", 16},
      {"/config_groups/group_0/weights/type", "int"},
      {"/config_groups/group_0/weights/strategy", "channel"},
      {"/config_groups/group_0/weights/symmetric", false},
      {"/config_groups/group_0/weights/dynamic", true},
      {"/config_groups/group_0/weights/actorder", "group"},
      {"/config_groups/group_0/weights/scale_dtype", "torch.float8_e4m3fn"},
      {"/config_groups/group_0/weights", nullptr},
      {"/config_groups/group_0", 5},
      {"/config_groups", json::object()},
      {"/config_groups", nullptr},
  };
  for (const auto& [path, value] : changes) {
    json object = Published();
    object[json::json_pointer(path)] = value;
    std::string last = path;
    last = last.substr(last.rfind('/') + 1);
    EXPECT_THAT(ProblemsOf(object), HasSubstr(last)) << path;
  }
}

TEST(QuantizationConfig, RefusesAnEmptyObject) {
  EXPECT_THAT(ProblemsOf(json::object()), HasSubstr("quant_method is missing"));
}

}  // namespace
}  // namespace kimi_k3

// Parts of a model: how they are written, and which are refused.
#include "checkpoint/model_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/model_config.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

// 10 layers, the first two dense; 16 experts of which 4 are chosen.
ModelConfig Config() {
  ModelConfig config;
  config.layers = 10;
  config.attn_res_block = 4;
  config.dense_layers.assign(10, false);
  config.dense_layers[0] = config.dense_layers[1] = true;
  config.mla_layers.assign(10, false);
  config.moe.experts = 16;
  config.moe.experts_per_token = 4;
  return config;
}

ModelConfig ConfigOf(const char* part) {
  ModelConfig config = Config();
  config.part = ParseModelPart(part);
  CheckModelPart(config.part, config);
  return config;
}

std::string Refusal(const std::string& part, const ModelConfig& config = Config()) {
  try {
    CheckModelPart(ParseModelPart(part), config);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("--shard"));
    return error.what();
  }
  return "";
}

TEST(ModelPart, IsTheWholeModelUnlessSaidOtherwise) {
  const ModelConfig config = Config();
  EXPECT_FALSE(config.is_part());
  EXPECT_EQ(config.first_layer(), 0U);
  EXPECT_EQ(config.end_layer(), 10U);
  EXPECT_EQ(config.moe_layers(), 8U);
  EXPECT_EQ(config.experts_present(), 16U);
  EXPECT_EQ(DescribeModelPart(config), "");
  EXPECT_FALSE(ConfigOf("layers=0-9,experts=0-15").is_part());
}

TEST(ModelPart, EitherRangeMayBeLeftOutAndTheOrderIsFree) {
  const ModelConfig layers = ConfigOf("layers=1-3");
  EXPECT_TRUE(layers.is_part());
  EXPECT_EQ(layers.layers_run(), 3U);
  EXPECT_EQ(layers.moe_layers(), 2U);
  EXPECT_EQ(layers.experts_present(), 16U);
  EXPECT_EQ(DescribeModelPart(layers), "layers 1-3 of 10");
  const ModelConfig experts = ConfigOf("experts=4-9");
  EXPECT_TRUE(experts.is_part());
  EXPECT_EQ(experts.layers_run(), 10U);
  EXPECT_EQ(experts.experts_present(), 6U);
  EXPECT_EQ(DescribeModelPart(experts), "layers 0-9 of 10, experts 4-9 of 16");
  const ModelConfig both = ConfigOf("experts=15-15,layers=0-0");
  EXPECT_EQ(both.end_layer(), 1U);
  EXPECT_EQ(both.experts_present(), 1U);
}

TEST(ModelPart, BlocksAreCountedFromTheFirstBoundaryInside) {
  EXPECT_EQ(Config().BlocksBefore(0), 0U);
  EXPECT_EQ(Config().BlocksBefore(1), 1U);
  EXPECT_EQ(Config().BlocksBefore(10), 3U);
  const ModelConfig inside = ConfigOf("layers=2-9");
  EXPECT_EQ(inside.BlocksBefore(2), 0U);
  EXPECT_EQ(inside.BlocksBefore(4), 0U);
  EXPECT_EQ(inside.BlocksBefore(5), 1U);
  EXPECT_EQ(inside.BlocksBefore(10), 2U);
  const ModelConfig boundary = ConfigOf("layers=4-9");
  EXPECT_EQ(boundary.BlocksBefore(4), 0U);
  EXPECT_EQ(boundary.BlocksBefore(5), 1U);
  EXPECT_EQ(ConfigOf("layers=1-3").BlocksBefore(4), 0U);
}

TEST(ModelPart, WhatIsNotOfTheFormIsRefused) {
  for (const char* text :
       {"", "layers", "layers=", "layers=3", "layers=-3", "layers=3-", "layers=3-x", "layers=3-4-5",
        "layers=3- 4", " layers=3-4", "layer=0-3", "layers=0-3,", ",layers=0-3", "layers=0x1-3",
        "layers=0-3;experts=0-3", "layers=+0-3", "layers=0-99999999999999999999",
        "layers=0-18446744073709551615", "layers=0-3\x1b[2J"}) {
    const std::string message = Refusal(text);
    EXPECT_THAT(message, HasSubstr("layers=0-11,experts=0-63")) << text;
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
  }
  EXPECT_THAT(Refusal("layers=3-2"), HasSubstr("3-2 ends before it begins"));
  EXPECT_THAT(Refusal("layers=0-1,layers=2-3"), HasSubstr("layers= is given twice"));
}

TEST(ModelPart, RangesBeyondTheModelAreRefused) {
  EXPECT_THAT(Refusal("layers=0-10"),
              HasSubstr("layers=0-10 reaches beyond the model, which has 10"));
  EXPECT_THAT(Refusal("experts=3-16"), HasSubstr("which has 16 experts"));
  EXPECT_EQ(Refusal("layers=9-9,experts=12-15"), "");
}

TEST(ModelPart, TooFewExpertsAreRefusedWhereALayerChoosesFromThem) {
  EXPECT_THAT(Refusal("experts=0-2"), HasSubstr("3 experts of each layer are too few: every token "
                                                "goes to 4"));
  EXPECT_EQ(Refusal("experts=0-3"), "");
  EXPECT_EQ(Refusal("layers=0-1,experts=0-0"), "");  // dense layers alone
}

TEST(ModelPart, GroupsThatMayBeKeptMustHoldEnoughExpertsEach) {
  ModelConfig config = Config();
  config.moe.groups = 4;
  config.moe.groups_kept = 2;
  EXPECT_EQ(Refusal("experts=0-15", config), "");
  EXPECT_EQ(Refusal("experts=0-3", config), "");  // one whole group holds four
  EXPECT_EQ(Refusal("experts=2-5", config), "");  // two groups of two
  EXPECT_THAT(Refusal("experts=3-6", config), HasSubstr("only 3 are sure"));  // one, and three
  EXPECT_EQ(Refusal("experts=2-9", config), "");  // the two least together hold four
  config.moe.experts_per_token = 5;
  EXPECT_THAT(Refusal("experts=2-9", config), HasSubstr("whole groups of 4"));
}

}  // namespace
}  // namespace kimi_k3

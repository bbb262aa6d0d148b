// Every tensor has one number and one name, and each leads to the other.
#include "checkpoint/tensor_slots.h"

#include <gtest/gtest.h>

#include "checkpoint/location_table.h"
#include "checkpoint/synth_config.h"

namespace kimi_k3 {
namespace {

ModelConfig Tiny() { return ParseModelConfig(GeometryConfig("tiny", {}), "config.json"); }

TEST(TensorSlots, EverySlotsNameLeadsBackToIt) {
  const TensorSlots slots(Tiny());
  for (size_t slot = 0; slot < slots.count(); ++slot) {
    const std::string name = TensorSlots::Name(slots.Describe(slot));
    const auto plain = slots.Find(name);
    ASSERT_TRUE(plain) << name;
    EXPECT_EQ(plain->slot, slot);
    EXPECT_FALSE(plain->prefixed);
    const auto prefixed = slots.Find("language_model." + name);
    ASSERT_TRUE(prefixed) << name;
    EXPECT_EQ(prefixed->slot, slot);
    EXPECT_TRUE(prefixed->prefixed);
  }
}

TEST(TensorSlots, RolesLeadToTheSameSlots) {
  const ModelConfig config = Tiny();
  const TensorSlots slots(config);
  EXPECT_EQ(slots.TrunkSlot(Role::kHead, 3), slots.Find("lm_head.weight")->slot);
  EXPECT_EQ(slots.TrunkSlot(Role::kMlaO, 3),
            slots.Find("model.layers.3.self_attn.o_proj.weight")->slot);
  EXPECT_EQ(slots.TrunkSlot(Role::kKdaO, 4),
            slots.Find("model.layers.4.self_attn.o_proj.weight")->slot);
  EXPECT_EQ(slots.ExpertSlot(5, 15, Role::kExpertDown, true),
            slots.Find("model.layers.5.block_sparse_moe.experts.15.w2.weight_scale")->slot);
  EXPECT_FALSE(slots.TrunkSlot(Role::kKdaO, 3));
  EXPECT_FALSE(slots.TrunkSlot(Role::kRouter, 0));
  EXPECT_FALSE(slots.TrunkSlot(Role::kRouter, 9));
}

TEST(TensorSlots, NamesThatAreAlmostRightAreStrangers) {
  const TensorSlots slots(Tiny());
  for (const char* name : {"",
                           "model.layers.",
                           "model.layers.9.input_layernorm.weight",
                           "model.layers.01.input_layernorm.weight",
                           "model.layers.-1.input_layernorm.weight",
                           "model.layers.+1.input_layernorm.weight",
                           "model.layers.1",
                           "model.layers.1.",
                           "model.layers.99999999999999999999.input_layernorm.weight",
                           "model.layers.1.input_layernorm.weight ",
                           "Model.layers.1.input_layernorm.weight",
                           "model.layers.1.block_sparse_moe.experts.16.w1.weight_packed",
                           "model.layers.1.block_sparse_moe.experts.00.w1.weight_packed",
                           "model.layers.1.block_sparse_moe.experts.1.w4.weight_packed",
                           "model.layers.1.block_sparse_moe.experts.1.w1.weight",
                           "model.layers.1.block_sparse_moe.experts.1.",
                           "model.layers.0.block_sparse_moe.experts.1.w1.weight_packed",
                           "model.layers.3.self_attn.A_log",
                           "model.layers.0.self_attn.kv_b_proj.weight",
                           "language_model.language_model.lm_head.weight",
                           "language_model.",
                           "vision_tower.patch_embed.proj.weight"}) {
    EXPECT_FALSE(slots.Find(name)) << name;
  }
}

TEST(TensorSlots, UnquantisedExpertsHaveOneSlotAMatrix) {
  ModelConfig config = Tiny();
  const size_t packed = TensorSlots(config).count();
  config.mxfp4_experts = false;
  const TensorSlots slots(config);
  EXPECT_EQ(packed - slots.count(), 8U * 16 * 3);
  EXPECT_TRUE(slots.Find("model.layers.1.block_sparse_moe.experts.1.w1.weight"));
  EXPECT_FALSE(slots.Find("model.layers.1.block_sparse_moe.experts.1.w1.weight_scale"));
}

TEST(LocationTable, KeepsWhatWasSet) {
  LocationTable table(3);
  EXPECT_FALSE(table.Get(1));
  const LocationTable::Location last = {LocationTable::kShardLimit - 1,
                                        LocationTable::kOffsetLimit - 1, true};
  table.Set(1, last);
  table.Set(2, {0, 0, false});
  EXPECT_FALSE(table.Get(0));
  EXPECT_EQ(table.Get(1)->shard, last.shard);
  EXPECT_EQ(table.Get(1)->offset, last.offset);
  EXPECT_TRUE(table.Get(1)->is_f32);
  EXPECT_EQ(table.Get(2)->offset, 0U);
  EXPECT_FALSE(table.Get(2)->is_f32);
}

}  // namespace
}  // namespace kimi_k3

// The table follows a config: which tensors there are, of which shape.
#include "checkpoint/tensor_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "checkpoint/synth_config.h"

namespace kimi_k3 {
namespace {

using testing::ElementsAre;

ModelConfig K3() { return ParseModelConfig(GeometryConfig("k3", {}), "config.json"); }

const TensorSpec* Find(const std::vector<TensorSpec>& specs, Role role) {
  const auto found = std::find_if(specs.begin(), specs.end(),
                                  [&](const TensorSpec& spec) { return spec.role == role; });
  return found == specs.end() ? nullptr : &*found;
}

std::set<Role> RolesOf(const ModelConfig& config, std::optional<size_t> layer) {
  std::set<Role> roles;
  for (const TensorSpec& spec : TensorSpecs(config, layer)) roles.insert(spec.role);
  return roles;
}

TEST(TensorTable, GivesRolesInTheirOrder) {
  const ModelConfig config = K3();
  for (size_t layer = 0; layer < config.layers; ++layer) {
    const std::vector<TensorSpec> specs = TensorSpecs(config, layer);
    EXPECT_TRUE(std::is_sorted(specs.begin(), specs.end(),
                               [](const auto& a, const auto& b) { return a.role < b.role; }));
  }
  EXPECT_THAT(RolesOf(config, std::nullopt),
              ElementsAre(Role::kEmbedding, Role::kOutputResNorm, Role::kOutputResProj,
                          Role::kFinalNorm, Role::kHead));
}

TEST(TensorTable, CountsWhatThePublishedModelHolds) {
  const ModelConfig config = K3();
  uint64_t tensors = TensorSpecs(config, std::nullopt).size();
  uint64_t parameters = 0;
  for (size_t layer = 0; layer < config.layers; ++layer) {
    for (const TensorSpec& spec : TensorSpecs(config, layer)) {
      const uint64_t count = IsExpertRole(spec.role) ? config.moe.experts : 1;
      tensors += IsExpertRole(spec.role) ? 2 * count : 1;
      parameters += count * spec.rows * spec.columns;
    }
  }
  // All but the 168 vision tensors of the published index.
  EXPECT_EQ(tensors, 497220U - 168U);
  EXPECT_NEAR(static_cast<double>(parameters), 2.78e12, 0.01e12);
}

TEST(TensorTable, ShapesOfAKdaLayer) {
  const ModelConfig config = K3();
  const std::vector<TensorSpec> specs = TensorSpecs(config, 1);
  const auto shape = [&](Role role) { return DiskShape(*Find(specs, role), config); };
  EXPECT_THAT(shape(Role::kKdaQ), ElementsAre(12288, 7168));
  EXPECT_THAT(shape(Role::kKdaQConv), ElementsAre(12288, 1, 4));
  EXPECT_THAT(shape(Role::kKdaFA), ElementsAre(128, 7168));
  EXPECT_THAT(shape(Role::kKdaFB), ElementsAre(12288, 128));
  EXPECT_THAT(shape(Role::kKdaB), ElementsAre(96, 7168));
  EXPECT_THAT(shape(Role::kKdaALog), ElementsAre(128));
  EXPECT_THAT(shape(Role::kKdaDtBias), ElementsAre(12288));
  EXPECT_THAT(shape(Role::kKdaONorm), ElementsAre(128));
  EXPECT_THAT(shape(Role::kKdaO), ElementsAre(7168, 12288));
  EXPECT_THAT(shape(Role::kAttentionResProj), ElementsAre(1, 7168));
  EXPECT_THAT(shape(Role::kInputNorm), ElementsAre(7168));
  EXPECT_EQ(Find(specs, Role::kMlaKvB), nullptr);
}

TEST(TensorTable, ShapesOfAnMlaLayer) {
  const ModelConfig config = K3();
  const std::vector<TensorSpec> specs = TensorSpecs(config, 3);
  const auto shape = [&](Role role) { return DiskShape(*Find(specs, role), config); };
  EXPECT_THAT(shape(Role::kMlaQA), ElementsAre(1536, 7168));
  EXPECT_THAT(shape(Role::kMlaQANorm), ElementsAre(1536));
  EXPECT_THAT(shape(Role::kMlaQB), ElementsAre(96 * 192, 1536));
  EXPECT_THAT(shape(Role::kMlaKvA), ElementsAre(576, 7168));
  EXPECT_THAT(shape(Role::kMlaKvB), ElementsAre(96 * 256, 512));
  EXPECT_THAT(shape(Role::kMlaG), ElementsAre(12288, 7168));
  EXPECT_THAT(shape(Role::kMlaO), ElementsAre(7168, 12288));
  EXPECT_EQ(Find(specs, Role::kMlaKvB)->row_granule, 256U);
  EXPECT_EQ(Find(specs, Role::kMlaQB)->row_granule, 1U);
  EXPECT_EQ(Find(specs, Role::kMlaQ), nullptr);
}

TEST(TensorTable, ShapesOfDenseAndMoe) {
  const ModelConfig config = K3();
  const std::vector<TensorSpec> dense = TensorSpecs(config, 0);
  EXPECT_THAT(DiskShape(*Find(dense, Role::kDenseDown), config), ElementsAre(7168, 33792));
  EXPECT_EQ(Find(dense, Role::kRouter), nullptr);
  const std::vector<TensorSpec> moe = TensorSpecs(config, 1);
  const auto shape = [&](Role role) { return DiskShape(*Find(moe, role), config); };
  EXPECT_THAT(shape(Role::kRouter), ElementsAre(896, 7168));
  EXPECT_THAT(shape(Role::kRouterBias), ElementsAre(896));
  EXPECT_THAT(shape(Role::kLatentDown), ElementsAre(3584, 7168));
  EXPECT_THAT(shape(Role::kLatentUp), ElementsAre(7168, 3584));
  EXPECT_THAT(shape(Role::kLatentNorm), ElementsAre(3584));
  EXPECT_THAT(shape(Role::kSharedDown), ElementsAre(7168, 6144));
  EXPECT_THAT(shape(Role::kExpertGate), ElementsAre(3072, 1792));
  EXPECT_THAT(shape(Role::kExpertDown), ElementsAre(3584, 1536));
  EXPECT_THAT(ScaleShape(*Find(moe, Role::kExpertUp)), ElementsAre(3072, 112));
  EXPECT_THAT(ScaleShape(*Find(moe, Role::kExpertDown)), ElementsAre(3584, 96));
  EXPECT_EQ(Find(moe, Role::kDenseGate), nullptr);
}

TEST(TensorTable, SwitchesAddAndDropTensors) {
  ModelConfig config = K3();
  config.attn_res_block = 0;
  EXPECT_FALSE(RolesOf(config, 1).contains(Role::kAttentionResProj));
  EXPECT_FALSE(RolesOf(config, std::nullopt).contains(Role::kOutputResNorm));
  config.kda.full_rank_gate = false;
  EXPECT_FALSE(RolesOf(config, 1).contains(Role::kKdaG));
  EXPECT_TRUE(RolesOf(config, 1).contains(Role::kKdaGA));
  config.mla.q_lora_rank = 0;
  config.mla.output_gate = false;
  EXPECT_TRUE(RolesOf(config, 3).contains(Role::kMlaQ));
  EXPECT_FALSE(RolesOf(config, 3).contains(Role::kMlaQA));
  EXPECT_FALSE(RolesOf(config, 3).contains(Role::kMlaG));
  config.moe.latent_norm = false;
  EXPECT_FALSE(RolesOf(config, 1).contains(Role::kLatentNorm));
  EXPECT_TRUE(RolesOf(config, 1).contains(Role::kLatentUp));
  config.moe.latent = 0;
  EXPECT_FALSE(RolesOf(config, 1).contains(Role::kLatentUp));
  config.moe.shared_experts = 0;
  EXPECT_FALSE(RolesOf(config, 1).contains(Role::kSharedGate));
  config.mxfp4_experts = false;
  const std::vector<TensorSpec> specs = TensorSpecs(config, 1);
  EXPECT_EQ(Find(specs, Role::kExpertGate)->name,
            "model.layers.{L}.block_sparse_moe.experts.{E}.w1.weight");
  EXPECT_THAT(DiskShape(*Find(specs, Role::kExpertGate), config), ElementsAre(3072, 7168));
}

TEST(TensorTable, ALogComesInFourShapesAndNoOther) {
  const ModelConfig config = K3();
  const std::vector<TensorSpec> specs = TensorSpecs(config, 0);
  const TensorSpec& spec = *Find(specs, Role::kKdaALog);
  const auto fits = [&](std::vector<uint64_t> shape) { return ShapeFits(spec, config, shape); };
  EXPECT_EQ(spec.columns, 96U);
  EXPECT_TRUE(fits({128}));
  EXPECT_TRUE(fits({96}));
  EXPECT_TRUE(fits({1, 1, 96, 1}));
  EXPECT_TRUE(fits({1, 1, 128, 1}));
  EXPECT_FALSE(fits({127}));
  EXPECT_FALSE(fits({95}));
  EXPECT_FALSE(fits({12800}));
  EXPECT_FALSE(fits({96, 1}));
  EXPECT_FALSE(fits({1, 96, 1, 1}));
  EXPECT_FALSE(fits({}));
}

TEST(TensorTable, NamesDtypesAsHeadersDo) {
  EXPECT_EQ(DtypeName(Dtype::kBf16), "BF16");
  EXPECT_EQ(DtypeName(Dtype::kF32), "F32");
  EXPECT_EQ(DtypeName(Dtype::kU8), "U8");
  EXPECT_EQ(DtypeBytes(Dtype::kBf16), 2U);
  EXPECT_EQ(DtypeBytes(Dtype::kF32), 4U);
  EXPECT_EQ(DtypeBytes(Dtype::kU8), 1U);
  EXPECT_EQ(RoleName(Role::kKdaQ), "KDA q_proj");
}

}  // namespace
}  // namespace kimi_k3

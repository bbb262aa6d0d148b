// Choosing the instruction set, and the promise that none of them changes a bit.
#include "kernels/isa.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "kernels/delta_rule.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_test_support.h"
#include "kernels/latent_attention.h"
#include "kernels/norm.h"
#include "kernels/router.h"
#include "kernels/short_conv.h"

namespace kimi_k3::kernels {
namespace {

using testing::HasSubstr;

TEST(IsaTest, TheBestIsUsedUnlessAnotherIsForced) {
  const std::vector<std::string> usable = UsableIsas();
  ASSERT_FALSE(usable.empty()) << "this processor cannot run the kernels";
  EXPECT_EQ(CurrentIsa(), usable.front());
  for (const std::string& isa : usable) {
    UseIsa(isa);
    EXPECT_EQ(CurrentIsa(), isa);
    EXPECT_EQ(UsableIsas(), usable);
  }
  UseIsa("auto");
  EXPECT_EQ(CurrentIsa(), usable.front());
}

TEST(IsaTest, AnUnknownNameIsRefusedWithTheNamesThatWork) {
  for (const char* const name : {"", "sse2", "AVX2", "avx", "avx1024", "none"}) {
    try {
      UseIsa(name);
      FAIL() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr(UsableIsas().front()));
    }
  }
  EXPECT_EQ(CurrentIsa(), UsableIsas().front());
}

// FNV-1a over the bits of everything added.
class Digest {
 public:
  void Add(std::span<const float> values) {
    for (const uint32_t bits : Bits(values)) {
      for (int shift = 0; shift < 32; shift += 8) {
        hash_ = (hash_ ^ ((bits >> shift) & 255U)) * 0x100000001b3U;
      }
    }
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325U;
};

uint64_t DigestOfProducts() {
  Digest digest;
  for (const WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kMxfp4}) {
    for (const size_t columns : {96, 480, 1504, 37}) {
      if (type == WeightType::kMxfp4 && columns % 32 != 0) continue;
      const TestWeights weights(type, 23, columns, 1);
      const std::vector<float> x = RandomFloats(9 * columns, 2);
      std::vector<float> y(9 * 23);
      MatMul(weights.view(), x.data(), columns, 9, y.data(), 23);
      digest.Add(y);
      MatMul(weights.view(), x.data(), columns, 1, y.data(), 23);
      digest.Add(y);
      std::vector<float> transposed(columns);
      TransposedMatVec(weights.view(), x.data(), transposed.data());
      digest.Add(transposed);
    }
  }
  return digest.value();
}

uint64_t DigestOfFunctions() {
  Digest digest;
  for (uint32_t bits = 0; bits < 0x43000000U; bits += 4999) {
    const float x = std::bit_cast<float>(bits);
    for (const float signed_x : {x, -x}) {
      const float results[] = {Exp(signed_x), Sigmoid(signed_x), Tanh(signed_x),
                               Softplus(signed_x)};
      digest.Add(results);
    }
  }
  std::vector<float> gate = RandomFloats(1000, 3, -10.0F, 10.0F);
  const std::vector<float> up = RandomFloats(1000, 4, -50.0F, 50.0F);
  SituGlu(gate.data(), up.data(), 4.0F, 25.0F, gate.data(), 1000);
  digest.Add(gate);
  RmsNorm(gate.data(), up.data(), 1e-5F, gate.data(), 1000);
  digest.Add(gate);
  L2NormInPlace(gate.data(), 0.5F, 1000);
  digest.Add(gate);
  BoundedDecay(gate.data(), 3.0F, -5.0F, 500);
  SoftplusDecay(gate.data() + 500, 3.0F, 500);
  digest.Add(gate);
  const float* const sources[] = {up.data(), up.data() + 300, up.data() + 600};
  float scores[3];
  AttentionResidual(sources, 3, gate.data(), 1e-5F, scores, gate.data() + 400, 333);
  digest.Add(gate);
  return digest.value();
}

uint64_t DigestOfSequenceKernels() {
  Digest digest;
  constexpr size_t kDim = 72;
  std::vector<float> state = RandomFloats(kDim * kDim, 5);
  const std::vector<float> vectors = RandomFloats(4 * kDim, 6);
  std::vector<float> out(kDim);
  for (int position = 0; position < 3; ++position) {
    DeltaRuleStep(StateType::kF32, std::as_writable_bytes(std::span(state)).data(), kDim,
                  {&vectors[0], &vectors[kDim], &vectors[2 * kDim], &vectors[3 * kDim], 0.7F},
                  out.data());
    digest.Add(out);
    ShortConvStep(vectors.data(), 4, state.data(), out.data(), out.data(), kDim);
    digest.Add(out);
  }
  digest.Add(state);

  const LatentCacheView cache{CacheType::kF32, AsBytes(state).data(), 72, 60};
  const std::vector<float> q = RandomFloats(5 * 72, 7);
  std::vector<float> attention_scratch(LatentAttentionScratch(5, 72));
  std::vector<float> attended(5 * 60);
  LatentAttention(cache, 71, q.data(), 5, 0.2F, attention_scratch.data(), attended.data());
  digest.Add(attended);

  std::vector<float> logits = RandomFloats(896, 8, -5.0F, 5.0F);
  const std::vector<float> bias = RandomFloats(896, 9, -0.1F, 0.1F);
  std::vector<float> biased(896);
  int32_t ids[16];
  float weights[16];
  EXPECT_TRUE(RouteRow({.experts = 896, .top_k = 16}, logits.data(), bias.data(), biased.data(),
                       ids, weights));
  digest.Add(weights);
  digest.Add(logits);
  return digest.value();
}

KIMI_K3_ON_EVERY_ISA(SameBitsTest);

// The expected numbers are the same on every processor; they change only with the arithmetic itself
// (docs/arithmetic.md), which changes the output of the engine.
TEST_P(SameBitsTest, ProductsHaveTheRecordedBits) {
  EXPECT_EQ(DigestOfProducts(), 16190930381121725446U);
}
TEST_P(SameBitsTest, FunctionsHaveTheRecordedBits) {
  EXPECT_EQ(DigestOfFunctions(), 2468269405818891297U);
}
TEST_P(SameBitsTest, SequenceKernelsHaveTheRecordedBits) {
  EXPECT_EQ(DigestOfSequenceKernels(), 14064822641781711870U);
}

}  // namespace
}  // namespace kimi_k3::kernels

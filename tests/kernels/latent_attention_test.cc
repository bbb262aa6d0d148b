// Latent attention: accuracy, exact block arithmetic, independence of heads and of later rows.
#include "kernels/latent_attention.h"

#include <limits>

#include "kernels/elementwise.h"
#include "kernels/kernel_test_support.h"

namespace kimi_k3::kernels {
namespace {

KIMI_K3_ON_EVERY_ISA(LatentAttentionTest);

constexpr CacheType kEveryType[] = {CacheType::kF32, CacheType::kBf16, CacheType::kQ8,
                                    CacheType::kQ4};

// Rows of random numbers, stored in a type; row() has what they stand for, each number expanded.
class TestCache {
 public:
  TestCache(CacheType type, size_t positions, size_t latent, size_t rope)
      : latent_(latent), width_(latent + rope), rows_(RandomFloats(positions * width_, 1)) {
    const size_t row_bytes = CacheRowBytes(type, width_);
    stored_.resize(positions * row_bytes);
    for (size_t p = 0; p < positions; ++p) {
      const std::span<float> numbers = std::span(rows_).subspan(p * width_, width_);
      StoreCacheRow(type, numbers, stored_.data() + p * row_bytes);
      ExpandCacheRow(type, stored_.data() + p * row_bytes, width_, numbers.data());
    }
    view_ = {type, stored_.data(), width_, latent_};
  }
  const LatentCacheView& view() const { return view_; }
  std::span<const std::byte> stored() const { return stored_; }
  std::span<const float> row(size_t p) const {
    return std::span(rows_).subspan(p * width_, width_);
  }

 private:
  size_t latent_;
  size_t width_;
  std::vector<float> rows_;
  std::vector<std::byte> stored_;
  LatentCacheView view_;
};

std::vector<float> Attend(const LatentCacheView& view, size_t positions, const float* q,
                          size_t heads, float scale) {
  std::vector<float> scratch(LatentAttentionScratch(heads, view.width));
  const std::vector<float> blank(heads * view.latent, 9.0F);
  GuardedBytes guarded_scratch(AsBytes(scratch));
  GuardedBytes out(AsBytes(blank));
  LatentAttention(view, positions, q, heads, scale, guarded_scratch.floats(), out.floats());
  return {out.floats(), out.floats() + blank.size()};
}

// Blocks of 32 positions with a running maximum and sum, one number at a time.
std::vector<float> PlainHead(const TestCache& cache, size_t positions, std::span<const float> q,
                             float scale) {
  const size_t latent = cache.view().latent;
  float largest = -std::numeric_limits<float>::infinity();
  float sum = 0.0F;
  std::vector<float> out(latent);
  for (size_t first = 0; first < positions; first += 32) {
    const size_t count = std::min<size_t>(32, positions - first);
    std::vector<float> weights;
    float new_largest = largest;
    for (size_t p = 0; p < count; ++p) {
      weights.push_back(ContractDot(q, cache.row(first + p)) * scale);
      new_largest = std::max(new_largest, weights.back());
    }
    const float rescale = Exp(largest - new_largest);
    largest = new_largest;
    sum *= rescale;
    for (float& weight : weights) {
      weight = Exp(weight - largest);
      sum += weight;
    }
    for (size_t j = 0; j < latent; ++j) {
      out[j] *= rescale;
      for (size_t p = 0; p < count; ++p) {
        out[j] = std::fma(weights[p], cache.row(first + p)[j], out[j]);
      }
    }
  }
  for (float& value : out) value *= 1.0F / sum;
  return out;
}

TEST_P(LatentAttentionTest, FollowsTheBlockArithmeticBitForBit) {
  for (const CacheType type : kEveryType) {
    for (const auto& [latent, rope] :
         {std::pair<size_t, size_t>{1, 0}, {7, 3}, {32, 8}, {40, 8}, {64, 16}, {100, 5}}) {
      const TestCache cache(type, 70, latent, rope);
      for (const size_t heads : {1, 2, 4, 8, 9, 17}) {
        const std::vector<float> q = RandomFloats(heads * (latent + rope), 2, -2.0F, 2.0F);
        for (const size_t positions : {1, 2, 31, 32, 33, 64, 70}) {
          const auto out = Attend(cache.view(), positions, q.data(), heads, 0.3F);
          for (size_t h = 0; h < heads; ++h) {
            const auto expected = PlainHead(
                cache, positions, std::span(q).subspan(h * (latent + rope), latent + rope), 0.3F);
            ASSERT_EQ(Bits(std::span(out).subspan(h * latent, latent)), Bits(expected))
                << "latent " << latent << ", head " << h << " of " << heads << ", " << positions
                << " positions";
          }
        }
      }
    }
  }
}

TEST_P(LatentAttentionTest, AgreesWithASoftmaxInDoublePrecision) {
  const TestCache cache(CacheType::kF32, 300, 64, 16);
  const std::vector<float> q = RandomFloats(80, 3, -2.0F, 2.0F);
  const auto out = Attend(cache.view(), 300, q.data(), 1, 0.5F);
  std::vector<double> exact(64);
  double total = 0.0;
  for (size_t p = 0; p < 300; ++p) {
    double score = 0.0;
    for (size_t j = 0; j < 80; ++j) score += double{q[j]} * cache.row(p)[j];
    const double weight = std::exp(0.5 * score);
    total += weight;
    for (size_t j = 0; j < 64; ++j) exact[j] += weight * cache.row(p)[j];
  }
  for (size_t j = 0; j < 64; ++j) EXPECT_NEAR(out[j], exact[j] / total, 2e-6);
}

TEST_P(LatentAttentionTest, OnePositionGivesItsLatent) {
  const TestCache cache(CacheType::kF32, 1, 48, 8);
  const std::vector<float> q = RandomFloats(3 * 56, 4);
  const auto out = Attend(cache.view(), 1, q.data(), 3, 1.0F);
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], cache.row(0)[i % 48]);
}

TEST_P(LatentAttentionTest, LargeScoresDoNotOverflow) {
  const TestCache cache(CacheType::kF32, 100, 32, 0);
  const std::vector<float> q = RandomFloats(32, 5, -1e4F, 1e4F);
  const auto out = Attend(cache.view(), 100, q.data(), 1, 10.0F);
  EXPECT_TRUE(AllFinite(out.data(), out.size()));
}

TEST_P(LatentAttentionTest, ReadsOnlyThePositionsItIsGiven) {
  for (const CacheType type : kEveryType) {
    for (const size_t positions : {1, 31, 32, 45}) {
      const TestCache cache(type, positions, 33, 6);
      GuardedBytes stored(cache.stored());
      LatentCacheView view = cache.view();
      view.data = stored.data();
      const std::vector<float> q = RandomFloats(9 * 39, 6);
      EXPECT_EQ(Bits(Attend(view, positions, q.data(), 9, 1.0F)),
                Bits(Attend(cache.view(), positions, q.data(), 9, 1.0F)));
    }
  }
}

TEST_P(LatentAttentionTest, ANanInTheCacheIsNotHidden) {
  for (const CacheType type : kEveryType) {
    const TestCache cache(type, 40, 32, 0);
    std::vector<std::byte> stored(cache.stored().begin(), cache.stored().end());
    std::vector<float> damaged(cache.row(5).begin(), cache.row(5).end());
    damaged[9] = std::nanf("");
    StoreCacheRow(type, damaged, stored.data() + 5 * CacheRowBytes(type, 32));
    LatentCacheView view = cache.view();
    view.data = stored.data();
    const std::vector<float> q = RandomFloats(32, 7);
    const auto out = Attend(view, 40, q.data(), 1, 1.0F);
    EXPECT_FALSE(AllFinite(out.data(), out.size()));
  }
}

}  // namespace
}  // namespace kimi_k3::kernels

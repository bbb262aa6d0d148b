// The short convolution: order of taps, history, any number of channels and taps.
#include "kernels/short_conv.h"

#include "kernels/elementwise.h"
#include "kernels/kernel_test_support.h"

namespace kimi_k3::kernels {
namespace {

KIMI_K3_ON_EVERY_ISA(ShortConvTest);

TEST_P(ShortConvTest, ConvolvesASequenceCausallyForAnyShape) {
  for (const size_t channels : {1, 5, 16, 17, 32, 50}) {
    for (const size_t tap_count : {1, 2, 3, 4, 7}) {
      const std::vector<float> taps = RandomFloats(channels * tap_count, 1);
      const std::vector<float> zeros((tap_count - 1) * channels);
      GuardedBytes guarded_taps(AsBytes(taps));
      GuardedBytes history(AsBytes(zeros));
      std::vector<std::vector<float>> inputs;
      for (uint32_t position = 0; position < 9; ++position) {
        inputs.push_back(RandomFloats(channels, 2 + position));
        GuardedBytes x(AsBytes(inputs.back()));
        ShortConvStep(guarded_taps.floats(), tap_count, history.floats(), x.floats(), x.floats(),
                      channels);
        for (size_t c = 0; c < channels; ++c) {
          float sum = 0.0F;
          for (size_t t = 0; t < tap_count; ++t) {
            const bool before_start = position + t + 1 < tap_count;
            const float input = before_start ? 0.0F : inputs[position + t + 1 - tap_count][c];
            sum = std::fma(taps[c * tap_count + t], input, sum);
          }
          ASSERT_EQ(Bits(x.floats()[c]), Bits(sum * Sigmoid(sum)))
              << "position " << position << ", channel " << c;
        }
      }
      for (size_t t = 0; t + 1 < tap_count; ++t) {
        const auto& kept = inputs[9 + t + 1 - tap_count];
        ASSERT_EQ(Bits({history.floats() + t * channels, channels}), Bits(kept));
      }
    }
  }
}

TEST_P(ShortConvTest, TheLastTapMeetsTheCurrentPosition) {
  const float taps[] = {0.0F, 0.0F, 0.0F, 2.0F};
  float history[] = {5.0F, 6.0F, 7.0F};
  const float x = 3.0F;
  float out = 0.0F;
  ShortConvStep(taps, 4, history, &x, &out, 1);
  EXPECT_EQ(Bits(out), Bits(6.0F * Sigmoid(6.0F)));
  EXPECT_EQ(history[0], 6.0F);
  EXPECT_EQ(history[1], 7.0F);
  EXPECT_EQ(history[2], 3.0F);
}

}  // namespace
}  // namespace kimi_k3::kernels

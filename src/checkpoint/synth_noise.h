// Random weights: any piece of any tensor, the same for a seed on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kimi_k3 {

// What the bytes of a tensor are.
enum class SynthPattern : uint8_t {
  kBf16,     // normally distributed bf16
  kF32,      // normally distributed f32
  kNibbles,  // packed E2M1 values of a normal distribution
  kScales    // E8M0 scales that give kNibbles the deviation
};

struct SynthFill {
  SynthPattern pattern = SynthPattern::kBf16;
  float mean = 0;
  float deviation = 1;  // of the weights, for kScales too; unused by kNibbles
};

// Makes weights by counter: what stands at a place depends on seed, name and place alone, not on
// how it is cut into pieces. Uses basic IEEE operations only, so every machine makes the same.
class SynthNoise {
 public:
  explicit SynthNoise(uint64_t seed);

  // Turns to a tensor.
  void Begin(std::string_view name, const SynthFill& fill);

  // Fills `out` with the next bytes of the tensor. out.size(): a multiple of kStepBytes, but for
  // the last piece of the tensor.
  void Next(std::span<std::byte> out);

  // Every pattern makes 4 to 16 bytes out of one random word.
  static constexpr size_t kStepBytes = 16;

 private:
  uint64_t seed_;
  uint64_t key_ = 0;      // of the tensor
  uint64_t counter_ = 0;  // words drawn
  SynthFill fill_;
  std::vector<float> normal_;   // quantiles of the standard normal distribution
  std::vector<uint16_t> bf16_;  // the same as bf16 with mean and deviation of `bf16_for_`
  SynthFill bf16_for_;
  std::vector<uint8_t> packed_;  // two E2M1 values out of 16 random bits
  std::vector<uint8_t> scales_;  // E8M0 by a random byte
};

}  // namespace kimi_k3

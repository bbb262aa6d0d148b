// A plain read loop and a multiply-add loop, one compiled for each instruction set of the kernels.
#include "kernels/limits.h"

#include <cstdint>
#include <ctime>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/limits.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kimi_k3::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

uint64_t ReadTarget(const uint8_t* p, size_t n) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint8_t, decltype(d)> d8;
  const size_t step = hn::Lanes(d8);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  auto sum2 = hn::Zero(d);
  auto sum3 = hn::Zero(d);
  size_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    sum0 = hn::Xor(sum0, hn::BitCast(d, hn::LoadU(d8, p + i)));
    sum1 = hn::Xor(sum1, hn::BitCast(d, hn::LoadU(d8, p + i + step)));
    sum2 = hn::Xor(sum2, hn::BitCast(d, hn::LoadU(d8, p + i + 2 * step)));
    sum3 = hn::Xor(sum3, hn::BitCast(d, hn::LoadU(d8, p + i + 3 * step)));
  }
  uint64_t rest = 0;
  for (; i < n; ++i) rest += p[i];
  const auto all = hn::Xor(hn::Xor(sum0, sum1), hn::Xor(sum2, sum3));
  return rest + hn::GetLane(hn::SumOfLanes(d, all));
}

double MultiplyAddTarget(size_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  constexpr size_t kChains = 12;
  const auto factor = hn::Set(d, 0.999F);
  const auto addend = hn::Set(d, 0.001F);
  hn::Vec<decltype(d)> chain[kChains];
  for (size_t i = 0; i < kChains; ++i) chain[i] = hn::Set(d, static_cast<float>(i));
  for (size_t r = 0; r < rounds; ++r) {
    for (size_t i = 0; i < kChains; ++i) chain[i] = hn::MulAdd(chain[i], factor, addend);
  }
  for (size_t i = 0; i < kChains; ++i) *sink += hn::GetLane(chain[i]);
  return static_cast<double>(rounds) * kChains * static_cast<double>(hn::Lanes(d));
}

}  // namespace kimi_k3::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kimi_k3::kernels {

HWY_EXPORT(ReadTarget);
HWY_EXPORT(MultiplyAddTarget);

unsigned long long ReadAll(std::span<const std::byte> bytes) {
  return HWY_DYNAMIC_DISPATCH(ReadTarget)(reinterpret_cast<const uint8_t*>(bytes.data()),
                                          bytes.size());
}

double RunMultiplyAdds(size_t rounds) {
  float sink = 0.0F;
  const double count = HWY_DYNAMIC_DISPATCH(MultiplyAddTarget)(rounds, &sink);
  volatile float keep = sink;
  static_cast<void>(keep);
  return count;
}

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace kimi_k3::kernels
#endif  // HWY_ONCE

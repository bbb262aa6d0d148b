// Speed of each kernel with its limit measured beside it, in turns, on the same bytes.
//
// Counters: "GB/s" or "GFMA/s" is what the kernel does, "limit" what a plain read loop over the
// same bytes or a multiply-add loop does, "of_limit" the median of their ratios.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/bf16.h"
#include "base/coded_bf16.h"
#include "base/quantized_group.h"
#include "kernels/delta_rule.h"
#include "kernels/elementwise.h"
#include "kernels/isa.h"
#include "kernels/latent_attention.h"
#include "kernels/limits.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/router.h"
#include "kernels/short_conv.h"

namespace kimi_k3::bench {
namespace {

using kernels::WeightType;
using kernels::WeightView;

// Random weights of one matrix; every number is ordinary (no NaN, no subnormal).
class Matrix {
 public:
  Matrix(WeightType type, size_t rows, size_t columns)
      : data_(rows * kernels::RowBytes(type, columns)), scales_(ScaleCount(type, rows, columns)) {
    std::mt19937 generator(1);
    for (size_t i = 0; i + 4 <= data_.size(); i += 4) {
      uint32_t bits = static_cast<uint32_t>(generator());
      if (type == WeightType::kBf16) bits = (bits & 0x807f807fU) | 0x3c003c00U;
      if (type == WeightType::kF32) bits = (bits & 0x807fffffU) | 0x3c000000U;
      std::memcpy(data_.data() + i, &bits, 4);
    }
    if (type == WeightType::kQ8 || type == WeightType::kQ4) {
      const size_t group_bytes = kernels::RowBytes(type, kQuantizedGroupColumns);
      for (size_t i = 0; i < data_.size(); i += group_bytes) {
        const uint16_t scale = FloatToBf16(0.01F);
        std::memcpy(data_.data() + i, &scale, sizeof scale);
      }
    }
    for (uint8_t& scale : scales_.span()) scale = static_cast<uint8_t>(120 + generator() % 4);
    view_ = {type, rows, columns, data_.data(), scales_.data()};
  }
  const WeightView& view() const { return view_; }
  std::span<const std::byte> bytes() const { return data_.span(); }

 private:
  static size_t ScaleCount(WeightType type, size_t rows, size_t columns) {
    return type == WeightType::kMxfp4 ? rows * columns / kernels::kMxfp4GroupColumns : 0;
  }
  AlignedBuffer<std::byte> data_;
  AlignedBuffer<uint8_t> scales_;
  WeightView view_;
};

// The same normally distributed weights as plain and as coded bf16.
class CodedMatrix {
 public:
  CodedMatrix(size_t rows, size_t columns) : plain_(rows * columns) {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal(0.0F, 0.02F);
    for (uint16_t& weight : plain_.span()) weight = FloatToBf16(normal(generator));
    const auto row_of = [&](size_t r) { return plain_.span().subspan(r * columns, columns); };
    CodedBf16Row row = {columns, 0};
    for (size_t r = 0; r < rows; ++r) {
      row.escapes = std::max(row.escapes, CountExponents(row_of(r)).escapes);
    }
    coded_ = AlignedBuffer<std::byte>(rows * row.bytes());
    for (size_t r = 0; r < rows; ++r) {
      EncodeBf16Row(row, row_of(r), coded_.span().subspan(r * row.bytes(), row.bytes()));
    }
    view_ = {WeightType::kCodedBf16, rows, columns, coded_.data(), nullptr, row.bytes()};
  }
  const WeightView& view() const { return view_; }
  WeightView plain() const {
    return {WeightType::kBf16, view_.rows, view_.columns, std::as_bytes(plain_.span()).data()};
  }
  std::span<const std::byte> bytes() const { return coded_.span(); }
  std::span<const uint16_t> weights() const { return plain_.span(); }

 private:
  AlignedBuffer<uint16_t> plain_;
  AlignedBuffer<std::byte> coded_;
  WeightView view_;
};

std::vector<float> Numbers(size_t n, float low = -1.0F, float high = 1.0F) {
  std::mt19937 generator(2);
  std::vector<float> values(n);
  for (float& value : values) {
    value = low + (high - low) * static_cast<float>(generator() >> 8) / 16777216.0F;
  }
  return values;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Runs kernel and limit in turns; each returns its amount of work (bytes or multiply-adds).
template <typename Kernel, typename Limit>
void Compare(benchmark::State& state, const std::string& unit, Kernel kernel, Limit limit) {
  std::vector<double> kernel_rates;
  std::vector<double> limit_rates;
  std::vector<double> ratios;
  kernel();
  for ([[maybe_unused]] auto _ : state) {
    const double start = kernels::ThreadSeconds();
    const double work = kernel();
    const double middle = kernels::ThreadSeconds();
    const double limit_work = limit();
    const double end = kernels::ThreadSeconds();
    kernel_rates.push_back(work / (middle - start));
    limit_rates.push_back(limit_work / (end - middle));
    ratios.push_back(kernel_rates.back() / limit_rates.back());
    state.SetIterationTime(middle - start);
  }
  state.counters[unit] = Median(kernel_rates) * 1e-9;
  state.counters["limit"] = Median(limit_rates) * 1e-9;
  state.counters["of_limit"] = Median(ratios);
}

// One row: the weights are read once.
template <typename Weights>
void OneRowOf(benchmark::State& state, const Weights& matrix) {
  const size_t rows = matrix.view().rows;
  const size_t columns = matrix.view().columns;
  const std::vector<float> x = Numbers(columns);
  std::vector<float> y(rows);
  Compare(
      state, "GB/s",
      [&] {
        kernels::MatMul(matrix.view(), x.data(), columns, 1, y.data(), rows);
        benchmark::DoNotOptimize(y.data());
        return static_cast<double>(matrix.bytes().size());
      },
      [&] {
        benchmark::DoNotOptimize(kernels::ReadAll(matrix.bytes()));
        return static_cast<double>(matrix.bytes().size());
      });
}

void OneRow(benchmark::State& state, WeightType type, size_t rows, size_t columns) {
  OneRowOf(state, Matrix(type, rows, columns));
}

void OneCodedRow(benchmark::State& state, size_t rows, size_t columns) {
  OneRowOf(state, CodedMatrix(rows, columns));
}

// Decoding, in bytes of the bf16 that it makes; the limit copies the same bytes.
void DecodeCoded(benchmark::State& state, size_t rows, size_t columns) {
  const CodedMatrix matrix(rows, columns);
  std::vector<uint16_t> out(columns);
  const auto bytes = static_cast<double>(matrix.weights().size_bytes());
  Compare(
      state, "GB/s",
      [&] {
        for (size_t r = 0; r < rows; ++r) {
          kernels::DecodeRow(matrix.view(), r, out.data());
          benchmark::DoNotOptimize(out.data());
        }
        return bytes;
      },
      [&] {
        for (size_t r = 0; r < rows; ++r) {
          std::memcpy(out.data(), matrix.weights().data() + r * columns, columns * 2);
          benchmark::DoNotOptimize(out.data());
        }
        return bytes;
      });
  state.counters["bytes_of_bf16"] = static_cast<double>(matrix.bytes().size()) / bytes;
}

// Looking for damage, in the same bytes; the limit decodes them.
void CheckCoded(benchmark::State& state, size_t rows, size_t columns) {
  const CodedMatrix matrix(rows, columns);
  std::vector<uint16_t> out(columns);
  const auto bytes = static_cast<double>(matrix.weights().size_bytes());
  Compare(
      state, "GB/s",
      [&] {
        benchmark::DoNotOptimize(kernels::FindDamagedRow(matrix.view()));
        return bytes;
      },
      [&] {
        for (size_t r = 0; r < rows; ++r) {
          kernels::DecodeRow(matrix.view(), r, out.data());
          benchmark::DoNotOptimize(out.data());
        }
        return bytes;
      });
}

// Products with coded weights, in bytes of bf16; the limit is that with plain ones.
void CodedRows(benchmark::State& state, size_t rows, size_t columns) {
  const auto x_rows = static_cast<size_t>(state.range(0));
  const CodedMatrix matrix(rows, columns);
  const std::vector<float> x = Numbers(x_rows * columns);
  std::vector<float> y(x_rows * rows);
  const auto multiply = [&](const WeightView& w) {
    kernels::MatMul(w, x.data(), columns, x_rows, y.data(), rows);
    benchmark::DoNotOptimize(y.data());
    return static_cast<double>(matrix.weights().size_bytes());
  };
  Compare(
      state, "GB/s", [&] { return multiply(matrix.view()); },
      [&] { return multiply(matrix.plain()); });
}

// Many rows: arithmetic is the limit.
void ManyRows(benchmark::State& state, WeightType type, size_t rows, size_t columns) {
  const auto x_rows = static_cast<size_t>(state.range(0));
  const Matrix matrix(type, rows, columns);
  // At the alignment that the engine's activations have.
  AlignedBuffer<float> x(x_rows * columns);
  std::ranges::copy(Numbers(x.size()), x.data());
  std::vector<float> y(x_rows * rows);
  Compare(
      state, "GFMA/s",
      [&] {
        kernels::MatMul(matrix.view(), x.data(), columns, x_rows, y.data(), rows);
        benchmark::DoNotOptimize(y.data());
        return static_cast<double>(x_rows * rows * columns);
      },
      [] { return kernels::RunMultiplyAdds(200000); });
}

constexpr size_t kHeads = 96;
constexpr size_t kWidth = 576;
constexpr size_t kLatent = 512;

// Rows of the latent cache at full size.
std::vector<std::byte> CacheRows(kernels::CacheType type, size_t positions) {
  const size_t row_bytes = kernels::CacheRowBytes(type, kWidth);
  const std::vector<float> numbers = Numbers(positions + kWidth);
  std::vector<std::byte> rows(positions * row_bytes);
  for (size_t p = 0; p < positions; ++p) {
    kernels::StoreCacheRow(type, std::span(numbers).subspan(p, kWidth), &rows[p * row_bytes]);
  }
  return rows;
}

// All heads over one cache: arithmetic is the limit.
void Attention(benchmark::State& state, kernels::CacheType type) {
  const auto positions = static_cast<size_t>(state.range(0));
  const std::vector<std::byte> cache = CacheRows(type, positions);
  const kernels::LatentCacheView view{type, cache.data(), kWidth, kLatent};
  const std::vector<float> q = Numbers(kHeads * kWidth);
  std::vector<float> scratch(kernels::LatentAttentionScratch(kHeads, kWidth));
  std::vector<float> out(kHeads * kLatent);
  Compare(
      state, "GFMA/s",
      [&] {
        kernels::LatentAttention(view, positions, q.data(), kHeads, 0.07F, scratch.data(),
                                 out.data());
        benchmark::DoNotOptimize(out.data());
        return static_cast<double>(positions * kHeads * (kWidth + kLatent));
      },
      [] { return kernels::RunMultiplyAdds(200000); });
}

// The rows widened to f32 as attention widens them, in bytes of the cache.
void WidenCache(benchmark::State& state, kernels::CacheType type) {
  constexpr size_t kPositions = 16384;
  const std::vector<std::byte> cache = CacheRows(type, kPositions);
  const size_t row_bytes = cache.size() / kPositions;
  std::vector<float> out(kWidth);
  Compare(
      state, "GB/s",
      [&] {
        for (size_t p = 0; p < kPositions; ++p) {
          kernels::ExpandCacheRow(type, &cache[p * row_bytes], kWidth, out.data());
          benchmark::DoNotOptimize(out.data());
        }
        return static_cast<double>(cache.size());
      },
      [&] {
        benchmark::DoNotOptimize(kernels::ReadAll(cache));
        return static_cast<double>(cache.size());
      });
}

// The states of 96 heads pass through once; read and written, so the limit counts them twice.
void DeltaRule(benchmark::State& state, kernels::StateType type) {
  constexpr size_t kStates = 960;
  constexpr size_t kDim = 128;
  const size_t head_bytes = kDim * kDim * kernels::StateNumberBytes(type);
  std::vector<std::byte> states(kStates * head_bytes);
  const std::vector<float> q = Numbers(kDim, -0.1F, 0.1F);
  const std::vector<float> decay = Numbers(kDim, 0.9F, 1.0F);
  std::vector<float> out(kDim);
  const std::span<const std::byte> bytes = states;
  Compare(
      state, "GB/s",
      [&] {
        for (size_t h = 0; h < kStates; ++h) {
          kernels::DeltaRuleStep(type, &states[h * head_bytes], kDim,
                                 {q.data(), q.data(), q.data(), decay.data(), 0.5F}, out.data());
        }
        benchmark::DoNotOptimize(out.data());
        return 2.0 * static_cast<double>(bytes.size());
      },
      [&] {
        benchmark::DoNotOptimize(kernels::ReadAll(bytes));
        return static_cast<double>(bytes.size());
      });
}

void SmallKernels(benchmark::State& state, void (*body)(std::vector<float>&)) {
  std::vector<float> values = Numbers(1 << 16);
  for ([[maybe_unused]] auto _ : state) {
    const double start = kernels::ThreadSeconds();
    body(values);
    benchmark::DoNotOptimize(values.data());
    state.SetIterationTime(kernels::ThreadSeconds() - start);
  }
}

void Register() {
  const auto add = [](const std::string& name, auto function, auto... args) {
    return benchmark::RegisterBenchmark(name.c_str(), function, args...)->UseManualTime();
  };
  add("one_row/bf16/q_proj_12288x7168", OneRow, WeightType::kBf16, size_t{12288}, size_t{7168});
  add("one_row/bf16/q_b_proj_18432x1536", OneRow, WeightType::kBf16, size_t{18432}, size_t{1536});
  add("one_row/mxfp4/expert_w1_3072x3584_x8", OneRow, WeightType::kMxfp4, size_t{3072 * 8},
      size_t{3584});
  add("one_row/mxfp4/expert_w2_3584x3072_x8", OneRow, WeightType::kMxfp4, size_t{3584 * 8},
      size_t{3072});
  for (const auto& [name, type] :
       {std::pair{"q8", WeightType::kQ8}, std::pair{"q4", WeightType::kQ4}}) {
    add(fmt::format("one_row/{}/q_proj_12288x7168", name), OneRow, type, size_t{12288},
        size_t{7168});
    add(fmt::format("many_rows/{}/2048x7168", name), ManyRows, type, size_t{2048}, size_t{7168})
        ->Arg(2)
        ->Arg(16)
        ->Arg(256);
  }
  add("one_row/f32/4096x4096", OneRow, WeightType::kF32, size_t{4096}, size_t{4096});
  add("one_row/coded_bf16/q_proj_12288x7168", OneCodedRow, size_t{12288}, size_t{7168});
  add("coded_bf16/decode/8192x7168", DecodeCoded, size_t{8192}, size_t{7168});
  add("coded_bf16/check/8192x7168", CheckCoded, size_t{8192}, size_t{7168});
  add("coded_bf16/rows/8192x7168", CodedRows, size_t{8192}, size_t{7168})->Arg(1)->Arg(4)->Arg(16);
  add("many_rows/bf16/2048x7168", ManyRows, WeightType::kBf16, size_t{2048}, size_t{7168})
      ->Arg(2)
      ->Arg(4)
      ->Arg(12)
      ->Arg(16)
      ->Arg(24)
      ->Arg(32)
      ->Arg(64)
      ->Arg(256);
  add("many_rows/mxfp4/3072x3584", ManyRows, WeightType::kMxfp4, size_t{3072}, size_t{3584})
      ->Arg(2)
      ->Arg(4)
      ->Arg(12)
      ->Arg(16)
      ->Arg(24)
      ->Arg(32)
      ->Arg(64)
      ->Arg(256);
  for (const auto& [name, type] :
       {std::pair{"f32", kernels::CacheType::kF32}, std::pair{"bf16", kernels::CacheType::kBf16},
        std::pair{"q8", kernels::CacheType::kQ8}, std::pair{"q4", kernels::CacheType::kQ4}}) {
    add(fmt::format("latent_attention/{}", name), Attention, type)->Arg(256)->Arg(2048);
  }
  add("widen_cache/q8", WidenCache, kernels::CacheType::kQ8);
  add("widen_cache/q4", WidenCache, kernels::CacheType::kQ4);
  add("delta_rule/960_heads", DeltaRule, kernels::StateType::kF32);
  add("delta_rule/960_heads/bf16", DeltaRule, kernels::StateType::kBf16);
  add(
      "small/situ_65536", SmallKernels, +[](std::vector<float>& v) {
        kernels::SituGlu(v.data(), v.data(), 4.0F, 25.0F, v.data(), v.size());
      });
  add(
      "small/rms_norm_65536", SmallKernels, +[](std::vector<float>& v) {
        kernels::RmsNorm(v.data(), v.data(), 1e-5F, v.data(), v.size());
      });
  add(
      "small/short_conv_12288", SmallKernels, +[](std::vector<float>& v) {
        kernels::ShortConvStep(v.data(), 4, v.data() + 49152 - 36864, v.data() + 49152,
                               v.data() + 49152, 12288);
      });
  add(
      "small/router_896_top_16", SmallKernels, +[](std::vector<float>& v) {
        int32_t ids[16];
        float weights[16];
        kernels::RouteRow({.experts = 896, .top_k = 16}, v.data(), v.data() + 1000, v.data() + 2000,
                          ids, weights);
      });
}

}  // namespace
}  // namespace kimi_k3::bench

int main(int argc, char** argv) {
  kimi_k3::bench::Register();
  benchmark::Initialize(&argc, argv);
  if (argc > 1) kimi_k3::kernels::UseIsa(argv[1]);
  benchmark::AddCustomContext("instruction set", kimi_k3::kernels::CurrentIsa());
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}

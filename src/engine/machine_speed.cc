// How fast this machine reads memory and multiplies, beside what it could do at most.
#include "engine/machine_speed.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <span>

#include "base/aligned_buffer.h"
#include "kernels/isa.h"
#include "kernels/limits.h"
#include "model/linear.h"

namespace kimi_k3 {
namespace {

using Clock = std::chrono::steady_clock;
using kernels::WeightType;

constexpr size_t kColumns = 7168;
constexpr size_t kMatrixBytes = size_t{64} << 20;
constexpr int kTries = 5;
constexpr size_t kManyRows = 64;

// The most work in a second of a few tries, each at least this long.
template <typename Work>
double BestRate(Work work) {
  constexpr auto kTime = std::chrono::milliseconds(20);
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const auto start = Clock::now();
    double done = 0;
    do {
      done += work();
    } while (Clock::now() - start < kTime);
    best = std::max(best, done / std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

ProductMeter::ProductMeter(ThreadPool& pool, WeightType type)
    : pool_(pool),
      view_({type, kMatrixBytes / kernels::RowBytes(type, kColumns), kColumns, nullptr, nullptr}),
      data_(view_.rows * kernels::RowBytes(type, kColumns)),
      scales_(type == WeightType::kMxfp4 ? view_.rows * kColumns / kernels::kMxfp4GroupColumns
                                         : 0) {
  kernels::RequireIsa();
  // 0x3c is a small ordinary number in bf16 and f32, and two weights of an MXFP4 group.
  std::memset(data_.data(), 0x3c, data_.size());
  std::fill_n(scales_.data(), scales_.size(), uint8_t{120});
  view_.data = data_.data();
  view_.scales = scales_.data();
}

double ProductMeter::BytesPerSecond(size_t rows) {
  // Many rows are bound by arithmetic: a part of the matrix tells as much, sooner.
  const size_t outputs = view_.rows / std::min<size_t>(rows, 16);
  AlignedBuffer<float> x(rows * kColumns);  // as the activations of a pass are
  std::ranges::fill(x.span(), 1.0F);
  std::vector<float> y(rows * outputs);
  const double bytes = static_cast<double>(data_.size() + scales_.size()) *
                       static_cast<double>(outputs) / static_cast<double>(view_.rows);
  return BestRate([&] {
    ForOutputs(pool_, outputs, rows, [&](size_t begin, size_t end) {
      kernels::MatMul(view_.Rows(begin, end - begin), x.data(), kColumns, rows, y.data() + begin,
                      outputs);
    });
    return bytes;
  });
}

double ProductMeter::ReadBytesPerSecond() {
  std::atomic<uint64_t> sink = 0;
  const std::span<const std::byte> bytes = data_.span();
  return BestRate([&] {
    pool_.For(bytes.size(), 4096, [&](size_t, size_t begin, size_t end) {
      sink += kernels::ReadAll(bytes.subspan(begin, end - begin));
    });
    return static_cast<double>(bytes.size());
  });
}

double ProductMeter::MultiplyAddsPerByte() const {
  return static_cast<double>(view_.rows * kColumns) /
         static_cast<double>(data_.size() + scales_.size());
}

MachineSpeed MeasureMachine(size_t threads) {
  kernels::RequireIsa();
  ThreadPool pool(threads);
  MachineSpeed speed;
  speed.isa = kernels::CurrentIsa();
  speed.threads = threads;
  speed.multiply_adds_per_second = BestRate([&] {
    constexpr size_t kRounds = 1000000;
    pool.For(threads, 1, [](size_t, size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) kernels::RunMultiplyAdds(kRounds);
    });
    return static_cast<double>(threads) * kernels::RunMultiplyAdds(1) * kRounds;
  });
  for (const auto& [type, name] :
       {std::pair{WeightType::kBf16, "bf16"}, std::pair{WeightType::kMxfp4, "MXFP4"}}) {
    ProductMeter meter(pool, type);
    const double read = meter.ReadBytesPerSecond();
    speed.read_bytes_per_second = std::max(speed.read_bytes_per_second, read);
    speed.products.push_back({name, 1, "GB/s", meter.BytesPerSecond(1) / 1e9, read / 1e9});
    speed.products.push_back(
        {name, kManyRows, "GFMA/s",
         meter.BytesPerSecond(kManyRows) * meter.MultiplyAddsPerByte() * kManyRows / 1e9,
         speed.multiply_adds_per_second / 1e9});
  }
  return speed;
}

}  // namespace kimi_k3

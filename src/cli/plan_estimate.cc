// How fast a plan would run on this machine, by measuring drive and processor for a moment.
#include "cli/plan_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/thread_pool.h"
#include "cli/progress.h"
#include "engine/machine_speed.h"

namespace kimi_k3 {
namespace {

constexpr size_t kManyRows = 16;

double ReadSpeed(const MemoryPlan& plan, const DriveSpeed& drive) {
  return plan.drives_together ? drive.bytes_per_second : drive.in_turns_bytes_per_second;
}

// With `rows` rows, the weights being brought in `loads` times.
double MultiplySeconds(uint64_t bytes, const MultiplySpeed& speed, double loads, double rows) {
  if (bytes == 0) return 0;
  const double one = static_cast<double>(bytes) / speed.one_row;
  const double many = static_cast<double>(bytes) / speed.many_rows;
  const double each_more = std::max(0.0, many - one) / static_cast<double>(kManyRows - 1);
  return one * loads + each_more * (rows - loads);
}

double MultiplySeconds(const Checkpoint& checkpoint, const MemoryPlan& plan,
                       const PlanEstimate& estimate, size_t rows) {
  const auto count = static_cast<double>(rows);
  const uint64_t experts = plan.expert_weights_per_token;
  double seconds = MultiplySeconds(plan.weights_per_token - experts, estimate.trunk, 1, count);
  if (experts > 0) {
    const double loads = std::min(count, DistinctExperts(checkpoint, rows));
    seconds += MultiplySeconds(experts, estimate.experts, loads, count);
  }
  return seconds;
}

MultiplySpeed MeasureMultiplying(ThreadPool& pool, kernels::WeightType type) {
  ProductMeter meter(pool, type);
  return {.one_row = meter.BytesPerSecond(1), .many_rows = meter.BytesPerSecond(kManyRows)};
}

}  // namespace

double PassSeconds(const Checkpoint& checkpoint, const MemoryPlan& plan,
                   const PlanEstimate& estimate, size_t rows, bool with_head,
                   uint64_t other_bytes) {
  const uint64_t bytes = BytesOfPass(checkpoint, plan, rows, with_head) + other_bytes;
  const double read = static_cast<double>(bytes) / ReadSpeed(plan, estimate.drive);
  return std::max(read, MultiplySeconds(checkpoint, plan, estimate, rows));
}

PlanEstimate EstimatePlan(const Checkpoint& checkpoint, const MemoryPlan& plan,
                          const EngineOptions& options, uint64_t prompt_tokens) {
  PlanEstimate estimate;
  IoOptions io;
  io.mode = ParseIoMode(options.io);
  estimate.drive =
      MeasureDrive(checkpoint, io, plan.stream.tile_bytes, std::chrono::milliseconds(700));
  estimate.read_bytes_per_second = ReadSpeed(plan, estimate.drive);
  ThreadPool pool(options.threads);
  estimate.trunk = MeasureMultiplying(pool, kernels::WeightType::kBf16);
  estimate.experts = checkpoint.config().mxfp4_experts
                         ? MeasureMultiplying(pool, kernels::WeightType::kMxfp4)
                         : estimate.trunk;
  estimate.token_read_seconds =
      static_cast<double>(plan.bytes_per_token()) / estimate.read_bytes_per_second;
  estimate.token_multiply_seconds = MultiplySeconds(checkpoint, plan, estimate, 1);
  estimate.token_seconds = PassSeconds(checkpoint, plan, estimate, 1, true);
  const size_t full = prompt_tokens / plan.chunk_rows;
  const size_t rest = prompt_tokens % plan.chunk_rows;
  estimate.prompt_seconds =
      static_cast<double>(full) * PassSeconds(checkpoint, plan, estimate, plan.chunk_rows, false);
  if (rest > 0) estimate.prompt_seconds += PassSeconds(checkpoint, plan, estimate, rest, true);
  return estimate;
}

std::string FormatEstimate(double seconds) {
  return seconds < 90 ? fmt::format("{:.3g} s", seconds) : FormatDuration(seconds);
}

}  // namespace kimi_k3

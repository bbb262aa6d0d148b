// How fast a plan would run on this machine, by measuring drive and processor for a moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "checkpoint/checkpoint.h"
#include "kimi_k3/engine.h"
#include "residency/drive_probe.h"
#include "residency/memory_plan.h"

namespace kimi_k3 {

// Stored bytes of a kind of weights that are multiplied in a second with one row and with sixteen.
struct MultiplySpeed {
  double one_row = 0;
  double many_rows = 0;
};

// What was measured, and what it makes of a plan.
struct PlanEstimate {
  DriveSpeed drive;
  double read_bytes_per_second = 0;  // of the drive or drives, as the plan uses them
  MultiplySpeed trunk;
  MultiplySpeed experts;
  double token_read_seconds = 0;      // of a token; reading and multiplying overlap, so the
  double token_multiply_seconds = 0;  // longer of the two is what it takes
  double token_seconds = 0;
  double prompt_seconds = 0;
};

// Measures for about two seconds, in the way of reading and with the threads of the (resolved)
// options. Throws as MeasureDrive does.
PlanEstimate EstimatePlan(const Checkpoint& checkpoint, const MemoryPlan& plan,
                          const EngineOptions& options, uint64_t prompt_tokens);

// Of a pass of `rows` rows under a plan for the same model, by the speeds that were measured:
// reading and multiplying overlap, so it takes as long as the slower of them. other_bytes: moved
// besides weights, taken to be by a drive of the same speed.
double PassSeconds(const Checkpoint& checkpoint, const MemoryPlan& plan,
                   const PlanEstimate& estimate, size_t rows, bool with_head,
                   uint64_t other_bytes = 0);

// Short times to three digits ("0.25 s"), long ones as FormatDuration has them.
std::string FormatEstimate(double seconds);

}  // namespace kimi_k3

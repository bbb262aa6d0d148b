// Policies that say which expert gives way, replayed over the traffic of decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kimi_k3 {

// The experts that one layer uses for one position, known all at once, as the router names them.
struct TraceStep {
  size_t layer = 0;  // of the MoE layers, from 0
  std::vector<int32_t> experts;
};

// Traffic of a model: positions one after another, each walking the layers.
struct Trace {
  size_t layers = 0;
  size_t experts = 0;
  size_t per_token = 0;
  size_t positions = 0;
  std::vector<TraceStep> steps;
};

struct Policy {
  std::string name;
  // Requests of positions after the first that were found in a cache of `slots` experts.
  std::function<uint64_t(const Trace&, size_t slots)> hits;
};

// The engine's own (residency/expert_cache.h), the usual ones, and the one that knows the future.
std::vector<Policy> AllPolicies();

}  // namespace kimi_k3

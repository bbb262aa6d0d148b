// What an engine of given options asks of the memory plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "engine/state_layout.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/tokenizer.h"
#include "residency/memory_limits.h"
#include "residency/memory_plan.h"

namespace kimi_k3 {

// The checkpoint that the options name, in all their folders, with their overlay; throws as
// Checkpoint::Open and UseOverlay.
Checkpoint OpenCheckpoint(const EngineOptions& options);

// Engine::approximations of these options for this model.
std::string DescribeApproximations(const EngineOptions& options, const Checkpoint& checkpoint);

// "overlay lossless, 76 GB in place of 109 GB"; empty without an overlay.
std::string DescribeOverlay(const Checkpoint& checkpoint);

// Whether the options ask for any, or for an overlay, be it an exact one; and the same options
// without.
bool HasApproximations(const EngineOptions& options);
EngineOptions WithoutApproximations(EngineOptions options);

// The tokenizer of the first folder that has one; throws what loading it throws.
std::optional<Tokenizer> LoadTokenizer(const EngineOptions& options, const ModelConfig& config);

// Throws Error(kBudget) where the plan takes more than the process could have by `limit`: the
// system would kill it in the middle of a run.
void CheckAvailable(const MemoryPlan& plan, const MemoryLimit& limit);

// options with what "as the engine sees fit" stands for filled in (context, threads).
// Throws Error(kUsage) for values that this model cannot serve.
EngineOptions ResolveOptions(const EngineOptions& options, const ModelConfig& config);

// How states on disk would lie with these (resolved) options.
StateLayout MakeStateLayout(const ModelConfig& config, const EngineOptions& options);

// The request of an engine with these (resolved) options. resident_bytes: what the process holds
// now, checkpoint and tokenizer loaded. The budget is options.memory_bytes or what the machine has
// to spare. `checkpoint` must outlive the request.
PlanRequest MakePlanRequest(const Checkpoint& checkpoint, const EngineOptions& options,
                            uint64_t resident_bytes);

}  // namespace kimi_k3

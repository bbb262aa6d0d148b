// Counters as the statistics files have them (docs/stats_format.md).
#pragma once

#include <nlohmann/json.hpp>

#include "base/process_meter.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

// Fields of an object each, from "passes" to "reads_waited_seconds" and from "peak_resident_bytes".
nlohmann::ordered_json CountersToJson(const EngineCounters& counters);
nlohmann::ordered_json ProcessToJson(const ProcessReading& process);

// What every such file says of the engine: "model", "threads", "context", "memory_budget_bytes".
nlohmann::ordered_json EngineToJson(const Engine& engine);

}  // namespace kimi_k3

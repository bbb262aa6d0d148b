// Counters as the statistics files have them (docs/stats_format.md).
#include "cli/stats_json.h"

namespace kimi_k3 {

nlohmann::ordered_json CountersToJson(const EngineCounters& counters) {
  return {{"passes", counters.passes},
          {"guesses", counters.tentative_rows},
          {"right_guesses", counters.accepted_rows},
          {"barriers", counters.barriers},
          {"bytes_read",
           {{"trunk", counters.trunk_bytes},
            {"experts", counters.expert_bytes},
            {"head", counters.head_bytes},
            {"embedding", counters.embedding_bytes},
            {"total", counters.bytes_read()}}},
          {"read_calls", counters.read_calls},
          {"expert_hits", counters.expert_hits},
          {"expert_misses", counters.expert_misses},
          {"compute_waited_seconds", counters.compute_waited_seconds},
          {"reads_waited_seconds", counters.reads_waited_seconds}};
}

nlohmann::ordered_json ProcessToJson(const ProcessReading& process) {
  return {{"peak_resident_bytes", process.peak_resident_bytes},
          {"minor_faults", process.minor_faults},
          {"major_faults", process.major_faults},
          {"storage_read_bytes", process.storage_read_bytes}};
}

nlohmann::ordered_json EngineToJson(const Engine& engine) {
  return {{"model", engine.Description()},
          {"threads", engine.threads()},
          {"context", engine.context()},
          {"memory_budget_bytes", engine.memory_budget_bytes()}};
}

}  // namespace kimi_k3

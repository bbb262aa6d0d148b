// What a batch cost, as a file for other programs.
#include "cli/batch_stats.h"

#include <algorithm>

#include "base/file.h"
#include "base/process_meter.h"
#include "cli/stats_json.h"

namespace kimi_k3 {

void WriteBatchStats(const std::filesystem::path& path, const Engine& engine,
                     const BatchTotals& totals, const std::string& stop_reason,
                     const std::string& error) {
  const SchedulerStatus& scheduler = totals.scheduler;
  const EngineCounters& counters = scheduler.engine;
  const auto tokens = static_cast<double>(scheduler.generated_tokens + scheduler.scored_tokens);
  nlohmann::ordered_json document = EngineToJson(engine);
  document.update({{"sequences", scheduler.sequences},
                   {"requests", totals.requests},
                   {"done_before", totals.done_before},
                   {"done", totals.done},
                   {"unanswered", totals.unanswered},
                   {"stop_reason", stop_reason},
                   {"seconds", totals.seconds},
                   {"prompt_tokens", totals.prompt_tokens},
                   {"generated_tokens", scheduler.generated_tokens},
                   {"scored_tokens", scheduler.scored_tokens},
                   {"tokens_per_second", tokens / std::max(totals.seconds, 1e-9)},
                   {"median_pass_seconds", scheduler.median_pass_seconds}});
  document.update(CountersToJson(counters));
  if (engine.sequences_on_disk() > 0) {
    document["states"] = {{"on_disk", engine.sequences_on_disk()},
                          {"file_bytes", engine.state_dir_bytes()},
                          {"bytes_read", counters.state_bytes_read},
                          {"bytes_written", counters.state_bytes_written},
                          {"waited_seconds", counters.states_waited_seconds}};
  }
  document["result_bytes"] = totals.result_bytes;
  document.update(ProcessToJson(ReadProcessMeters()));
  if (const std::string part = engine.part(); !part.empty()) document["part"] = part;
  if (const std::string flags = engine.approximations(); !flags.empty()) {
    document["approximations"] = flags;
  }
  if (!error.empty()) document["error"] = error;
  AtomicFile file(path);
  file.Append(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  file.Commit();
}

}  // namespace kimi_k3

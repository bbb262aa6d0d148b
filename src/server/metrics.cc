// What a server counts, in the words of Prometheus and of its own status page.
#include "server/metrics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/process_meter.h"

namespace kimi_k3::server {
namespace {

// One metric with its description; `kind`: counter or gauge.
class MetricText {
 public:
  void Begin(const char* name, const char* kind, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP kimi_k3_{} {}\n# TYPE kimi_k3_{} {}\n", name, help, name, kind);
  }
  template <typename T>
  void Value(const std::string& labels, T value) {
    text_ += fmt::format("kimi_k3_{}{} {}\n", name_, labels, value);
  }
  template <typename T>
  void Metric(const char* name, const char* kind, const char* help, T value) {
    Begin(name, kind, help);
    Value("", value);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
  std::string name_;
};

}  // namespace

void Metrics::CountRequest(const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{path, status}];
}

double Metrics::UptimeSeconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

std::string Metrics::Prometheus(const SchedulerStatus& status) const {
  MetricText text;
  text.Begin("requests_total", "counter", "Requests answered, by path and HTTP status.");
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, count] : requests_) {
      text.Value(fmt::format("{{path=\"{}\",code=\"{}\"}}", key.first, key.second), count);
    }
  }
  text.Metric("connections", "gauge", "Open connections.", connections_.load());
  text.Metric("texts_running", "gauge", "Requests that share the passes.", status.running);
  text.Metric("texts_waiting", "gauge", "Requests that wait for a sequence.", status.waiting);
  text.Metric("texts_held", "gauge", "Ended texts whose state is kept.", status.held);
  text.Metric("sequences", "gauge", "Requests that can run at once.", status.sequences);
  text.Begin("tokens_total", "counter", "Tokens: of prompts (computed, cached) and generated.");
  text.Value("{kind=\"prompt\"}", status.prompt_tokens);
  text.Value("{kind=\"cached\"}", status.cached_tokens);
  text.Value("{kind=\"generated\"}", status.generated_tokens);
  text.Metric("passes_total", "counter", "Passes over the weights.", status.engine.passes);
  text.Metric("pass_rows_total", "counter", "Rows of all passes.", status.engine.rows);
  text.Metric("pass_seconds_total", "counter", "Seconds in passes.", status.pass_seconds);
  text.Metric("failed_passes_total", "counter", "Passes that failed.", status.failed_passes);
  text.Begin("read_bytes_total", "counter", "Bytes read from the model's files, by use.");
  text.Value("{kind=\"trunk\"}", status.engine.trunk_bytes);
  text.Value("{kind=\"experts\"}", status.engine.expert_bytes);
  text.Value("{kind=\"head\"}", status.engine.head_bytes);
  text.Value("{kind=\"embedding\"}", status.engine.embedding_bytes);
  text.Begin("experts_total", "counter", "Experts that were in memory when needed, or not.");
  text.Value("{kind=\"hit\"}", status.engine.expert_hits);
  text.Value("{kind=\"miss\"}", status.engine.expert_misses);
  text.Begin("wait_seconds_total", "counter", "Seconds that one waited for the other.");
  text.Value("{kind=\"compute_for_reads\"}", status.engine.compute_waited_seconds);
  text.Value("{kind=\"reads_for_compute\"}", status.engine.reads_waited_seconds);
  text.Metric("resident_bytes", "gauge", "Memory of the process.",
              ReadProcessMeters().resident_bytes);
  text.Metric("uptime_seconds", "gauge", "Since the start.", UptimeSeconds());
  return text.Take();
}

std::string Metrics::StatusJson(const SchedulerStatus& status, const std::string& model) const {
  const nlohmann::ordered_json json = {
      {"model", model},
      {"uptime_seconds", UptimeSeconds()},
      {"sequences", status.sequences},
      {"running", status.running},
      {"waiting", status.waiting},
      {"held", status.held},
      {"pass", {{"layer", status.layer}, {"layers", status.layers}, {"rows", status.pass_rows}}},
      {"passes", status.engine.passes},
      {"pass_seconds", status.pass_seconds},
      {"failed_passes", status.failed_passes},
      {"prompt_tokens", status.prompt_tokens},
      {"cached_tokens", status.cached_tokens},
      {"generated_tokens", status.generated_tokens},
      {"bytes_read",
       {{"trunk", status.engine.trunk_bytes},
        {"experts", status.engine.expert_bytes},
        {"head", status.engine.head_bytes},
        {"embedding", status.engine.embedding_bytes},
        {"total", status.engine.bytes_read()}}},
      {"resident_bytes", ReadProcessMeters().resident_bytes}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace kimi_k3::server

// What a server counts, in the words of Prometheus and of its own status page.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "kimi_k3/scheduler.h"

namespace kimi_k3::server {

// Counts from any thread.
class Metrics {
 public:
  // A request has been answered. path: of those that the server knows, else "other".
  void CountRequest(const std::string& path, int status);
  void ConnectionOpened() { ++connections_; }
  void ConnectionClosed() { --connections_; }

  // Prometheus text format.
  std::string Prometheus(const SchedulerStatus& status) const;
  // A JSON object for people and programs that watch the server.
  std::string StatusJson(const SchedulerStatus& status, const std::string& model) const;

 private:
  double UptimeSeconds() const;

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<int64_t> connections_{0};
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> requests_;
};

}  // namespace kimi_k3::server

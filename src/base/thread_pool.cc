// A fixed set of threads that share the parts of one loop at a time.
#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

#include "base/error.h"

namespace kimi_k3 {
namespace {

// About 20 microseconds: longer than the gap between two tiles, shorter than a read from disk.
constexpr int kSpins = 4000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `value` differs from `old`: spins briefly, then sleeps in the kernel.
uint32_t WaitForChange(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    const uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    Pause();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

// Processors of the affinity mask, hyper-threads of one core counted once.
size_t AffinityCores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) {
    return std::max<size_t>(1, std::thread::hardware_concurrency());
  }
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    std::ifstream siblings("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                           "/topology/thread_siblings_list");
    std::string core;
    if (!(siblings >> core)) core = std::to_string(cpu);
    cores.insert(core);
  }
  return std::max<size_t>(1, cores.size());
}

// The processors that a cgroup quota file allows; a large number where there is no limit.
double QuotaCores(const std::filesystem::path& folder) {
  std::string quota;
  double period = 0;
  std::ifstream v2(folder / "cpu.max");
  if (v2 >> quota >> period) {
    if (quota == "max" || period <= 0) return 1e9;
    return std::stod(quota) / period;
  }
  double quota_v1 = -1;
  std::ifstream v1_quota(folder / "cpu.cfs_quota_us");
  std::ifstream v1_period(folder / "cpu.cfs_period_us");
  if (v1_quota >> quota_v1 && v1_period >> period && quota_v1 > 0 && period > 0) {
    return quota_v1 / period;
  }
  return 1e9;
}

// The tightest quota of every level above the process, version 1 or 2.
double CgroupCores() {
  double cores = 1e9;
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && controllers.find("cpu") == std::string::npos) continue;
    const std::filesystem::path root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controllers;
    std::filesystem::path below = std::filesystem::path(line.substr(second + 1)).relative_path();
    for (;;) {
      cores = std::min(cores, QuotaCores(root / below));
      if (below.empty()) break;
      below = below.parent_path();
    }
  }
  return cores;
}

}  // namespace

ThreadPool::ThreadPool(size_t threads) {
  workers_.reserve(threads - 1);
  try {
    for (size_t i = 1; i < threads; ++i) workers_.emplace_back([this] { Work(); });
  } catch (const std::system_error& error) {
    const size_t started = workers_.size() + 1;
    Stop();
    Fail(
        ErrorKind::kRun,
        "cannot start thread {} of {}: {}; ask for fewer (-t), or raise the limits (ulimit -u, -v)",
        started + 1, threads, error.what());
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunParts() {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  for (;;) {
    const uint64_t parts = (ticket >> 16) & 0xffff;
    const uint64_t taken = ticket & 0xffff;
    if (taken == parts) return;
    // Whoever wins this part keeps the loop from ending, and so may read what describes it.
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
    (*body_)(taken, cut_.Begin(taken), cut_.Begin(taken + 1));
    if (parts_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) parts_left_.notify_one();
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

void ThreadPool::Work() {
  uint32_t seen = 0;
  for (;;) {
    seen = WaitForChange(generation_, seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    RunParts();
  }
}

void ThreadPool::For(size_t n, size_t grain, FunctionRef<void(size_t, size_t, size_t)> body) {
  if (n == 0) return;
  const size_t grains = (n + grain - 1) / grain;
  if (workers_.empty() || grains == 1) {
    body(0, 0, n);
    return;
  }
  Run({n, 0, 0, (grains + threads() - 1) / threads() * grain}, body);
}

void ThreadPool::ForPieces(size_t n, size_t grain, FunctionRef<void(size_t, size_t)> body) {
  const auto piece = [&](size_t, size_t begin, size_t end) { body(begin, end); };
  // Half of each thread's share at once, then a quarter of what is left of it at a time.
  const size_t half = n / grain / threads() / 2;
  if (workers_.empty() || half == 0) return For(n, grain, piece);
  Run({n, threads(), half * grain, (half + 3) / 4 * grain}, piece);
}

size_t ThreadPool::Cut::Begin(size_t part) const {
  if (part < large_parts) return part * large;
  return std::min(n, large_parts * large + (part - large_parts) * small);
}

size_t ThreadPool::Cut::parts() const {
  return large_parts + (n - large_parts * large + small - 1) / small;
}

void ThreadPool::Run(const Cut& cut, FunctionRef<void(size_t, size_t, size_t)> body) {
  body_ = &body;
  cut_ = cut;
  const size_t parts = cut.parts();
  parts_left_.store(static_cast<uint32_t>(parts), std::memory_order_relaxed);
  ticket_.store((((ticket_.load(std::memory_order_relaxed) >> 32) + 1) << 32) | (parts << 16),
                std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  RunParts();
  uint32_t left = parts_left_.load(std::memory_order_acquire);
  while (left != 0) left = WaitForChange(parts_left_, left);
  ++barriers_;
}

size_t UsableCores() {
  const double quota = std::floor(CgroupCores() + 0.01);
  return std::max<size_t>(1, std::min(AffinityCores(), static_cast<size_t>(std::max(1.0, quota))));
}

}  // namespace kimi_k3

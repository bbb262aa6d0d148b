// A fixed set of threads that share the parts of one loop at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "base/parallel.h"

namespace kimi_k3 {

// Runs loops over [0, n) on a fixed number of threads, the caller being one of them. How a loop is
// cut depends on n, grain and the number of threads alone; who takes which part depends on who is
// free, so a thread that the system does not let run holds nobody up. For() is called from the
// thread that owns the pool. Nothing is allocated after the constructor. Workers spin for some
// microseconds between loops, then sleep.
class ThreadPool final : public Parallel {
 public:
  // threads >= 1 counts the caller. Throws Error(kRun) where the system refuses a thread.
  explicit ThreadPool(size_t threads);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t threads() const { return workers_.size() + 1; }

  size_t parts() const override { return threads(); }
  void For(size_t n, size_t grain, FunctionRef<void(size_t, size_t, size_t)> body) override;
  void ForPieces(size_t n, size_t grain, FunctionRef<void(size_t, size_t)> body) override;

  // Loops run so far that needed more than one thread.
  uint64_t barriers() const { return barriers_; }

 private:
  // How [0, n) is cut: into `large_parts` parts of one size, then into parts of another.
  struct Cut {
    size_t n;
    size_t large_parts;
    size_t large;
    size_t small;
    size_t Begin(size_t part) const;
    size_t parts() const;
  };

  void Work();
  void Stop();
  // Runs the loop on all threads and waits for its end.
  void Run(const Cut& cut, FunctionRef<void(size_t, size_t, size_t)> body);
  // Takes parts of the loop in progress and runs them until none is left.
  void RunParts();

  std::vector<std::thread> workers_;
  // The loop in progress; read only by who has taken a part of it.
  const FunctionRef<void(size_t, size_t, size_t)>* body_ = nullptr;
  Cut cut_{};
  // Number of the loop (upper 32 bits), its parts (16 bits), parts taken (lower 16 bits).
  std::atomic<uint64_t> ticket_{0};
  std::atomic<uint32_t> parts_left_{0};
  std::atomic<uint32_t> generation_{0};
  std::atomic<bool> stopping_{false};
  uint64_t barriers_ = 0;
};

// Physical cores this process may use, by affinity and cgroup quota; at least 1.
size_t UsableCores();

}  // namespace kimi_k3

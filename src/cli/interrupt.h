// Ctrl-C and SIGTERM end a run cleanly; a second one ends the program.
#pragma once

#include "kimi_k3/engine.h"

namespace kimi_k3 {

// While it lives, the first SIGINT or SIGTERM interrupts the engine, and a second one has its
// default effect. One at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(Engine& engine);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

}  // namespace kimi_k3

// Ctrl-C, SIGTERM and SIGHUP end a run cleanly; a second one ends the program.
#pragma once

#include "kimi_k3/engine.h"

namespace kimi_k3 {

// While it lives, the first SIGINT, SIGTERM or SIGHUP is a wish to stop, and a second one has its
// default effect. Signals that were ignored before stay ignored. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // Whether the wish came.
  static bool Requested();
  // Throws Error(kInterrupted) where the wish came.
  static void Check();
};

// While it lives, the wish interrupts `engine`; at once where it came before. One at a time, while
// an InterruptGuard lives; the engine must outlive it.
class EngineInterrupt {
 public:
  explicit EngineInterrupt(Engine& engine);
  ~EngineInterrupt();
  EngineInterrupt(const EngineInterrupt&) = delete;
  EngineInterrupt& operator=(const EngineInterrupt&) = delete;
};

}  // namespace kimi_k3

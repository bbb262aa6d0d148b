// Ctrl-C, SIGTERM and SIGHUP end a run cleanly; a second one ends the program.
#pragma once

#include <atomic>

#include "kimi_k3/engine.h"

namespace kimi_k3 {

// While it lives, the first SIGINT, SIGTERM or SIGHUP is a wish to stop, as are the next ones up to
// `patience`; one more has its default effect. Signals that were ignored before stay ignored. One
// at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(int patience = 1);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // Whether the wish came.
  static bool Requested();
  // The same, for work that looks at a flag now and then. Lives as long as the program.
  static const std::atomic<bool>& Flag();
  // The signal that came last; 0: none.
  static int LastSignal();
  // Throws Error(kInterrupted) where the wish came.
  static void Check();
  // The wish has been fulfilled: the next signal is a first one again.
  void Forget();
};

// While it lives, the wish interrupts `engine`, once it has come `wishes` times; at once where it
// has before. One at a time, while an InterruptGuard lives; the engine must outlive it.
class EngineInterrupt {
 public:
  explicit EngineInterrupt(Engine& engine, int wishes = 1);
  ~EngineInterrupt();
  EngineInterrupt(const EngineInterrupt&) = delete;
  EngineInterrupt& operator=(const EngineInterrupt&) = delete;
};

}  // namespace kimi_k3

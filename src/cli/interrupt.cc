// Ctrl-C, SIGTERM and SIGHUP end a run cleanly; a second one ends the program.
#include "cli/interrupt.h"

#include <atomic>
#include <csignal>

#include "base/error.h"

namespace kimi_k3 {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// A signal handler gets no argument of its own, so what it changes must be found from here.
std::atomic<bool> requested{false};
std::atomic<Engine*> interrupted_engine{nullptr};

// Whichever signal comes first, each of them ends the program the next time.
void RestoreDefaults() {
  for (const int signal : kSignals) {
    struct sigaction now = {};
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
}

void HandleInterrupt(int) {
  RestoreDefaults();
  requested.store(true);
  Engine* engine = interrupted_engine.load();
  if (engine != nullptr) engine->Interrupt();
}

}  // namespace

InterruptGuard::InterruptGuard() {
  requested.store(false);
  for (const int signal : kSignals) {
    struct sigaction now = {};
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = HandleInterrupt;
    sigaction(signal, &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() { RestoreDefaults(); }

bool InterruptGuard::Requested() { return requested.load(); }

void InterruptGuard::Check() {
  if (Requested()) Fail(ErrorKind::kInterrupted, "interrupted");
}

EngineInterrupt::EngineInterrupt(Engine& engine) {
  interrupted_engine.store(&engine);
  if (InterruptGuard::Requested()) engine.Interrupt();
}

EngineInterrupt::~EngineInterrupt() { interrupted_engine.store(nullptr); }

}  // namespace kimi_k3

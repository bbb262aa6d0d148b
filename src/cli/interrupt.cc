// Ctrl-C, SIGTERM and SIGHUP end a run cleanly; a second one ends the program.
#include "cli/interrupt.h"

#include <csignal>

#include "base/error.h"

namespace kimi_k3 {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// A signal handler gets no argument of its own, so what it changes must be found from here.
std::atomic<int> wishes_so_far{0};
std::atomic<bool> wished{false};
std::atomic<int> last_signal{0};
std::atomic<int> most_wishes{1};
std::atomic<int> wishes_of_engine{1};
std::atomic<Engine*> interrupted_engine{nullptr};

// Whichever signal comes next, it ends the program.
void RestoreDefaults() {
  for (const int signal : kSignals) {
    struct sigaction now = {};
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
}

void HandleInterrupt(int signal) {
  const int wishes = wishes_so_far.fetch_add(1) + 1;
  wished.store(true);
  if (wishes >= most_wishes.load()) RestoreDefaults();
  last_signal.store(signal);
  Engine* engine = interrupted_engine.load();
  if (engine != nullptr && wishes >= wishes_of_engine.load()) engine->Interrupt();
}

void CatchSignals() {
  for (const int signal : kSignals) {
    struct sigaction now = {};
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = HandleInterrupt;
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

InterruptGuard::InterruptGuard(int patience) {
  most_wishes.store(patience);
  Forget();
}

InterruptGuard::~InterruptGuard() { RestoreDefaults(); }

void InterruptGuard::Forget() {
  wishes_so_far.store(0);
  wished.store(false);
  last_signal.store(0);
  CatchSignals();
}

bool InterruptGuard::Requested() { return wished.load(); }

const std::atomic<bool>& InterruptGuard::Flag() { return wished; }

int InterruptGuard::LastSignal() { return last_signal.load(); }

void InterruptGuard::Check() {
  if (Requested()) Fail(ErrorKind::kInterrupted, "interrupted");
}

EngineInterrupt::EngineInterrupt(Engine& engine, int wishes) {
  wishes_of_engine.store(wishes);
  interrupted_engine.store(&engine);
  if (wishes_so_far.load() >= wishes) engine.Interrupt();
}

EngineInterrupt::~EngineInterrupt() { interrupted_engine.store(nullptr); }

}  // namespace kimi_k3

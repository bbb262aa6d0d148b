// Ctrl-C and SIGTERM end a run cleanly; a second one ends the program.
#include "cli/interrupt.h"

#include <atomic>
#include <csignal>

namespace kimi_k3 {
namespace {

// A signal handler gets no argument of its own, so the engine must be found from here.
std::atomic<Engine*> interrupted_engine{nullptr};

void HandleInterrupt(int) {
  Engine* engine = interrupted_engine.load();
  if (engine != nullptr) engine->Interrupt();
}

}  // namespace

InterruptGuard::InterruptGuard(Engine& engine) {
  interrupted_engine.store(&engine);
  struct sigaction action = {};
  action.sa_handler = HandleInterrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  interrupted_engine.store(nullptr);
}

}  // namespace kimi_k3

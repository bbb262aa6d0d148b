// The kimi_k3 program: reads the command line and hands over to one command.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "cli/exit_code.h"
#include "cli/run_command.h"
#include "cli/run_options.h"
#include "cli/tokenize_command.h"

namespace kimi_k3 {
namespace {

constexpr const char* kVersion = "kimi_k3 " KIMI_K3_VERSION;

void Complain(const char* message) { std::fprintf(stderr, "kimi_k3: %s\n", message); }

int Main(int argc, char** argv) {
  CLI::App app(
      "Kimi K3 on an ordinary computer: prints the model's answer to a prompt.\n"
      "  kimi_k3 -m DIR -p TEXT [-n 256] [-c 2048] [-t THREADS]",
      "kimi_k3");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(0, 1);
  RunOptions run_options;
  AddRunOptions(app, run_options);
  AddTokenizeCommand(app);
  ExitCode code = kExitDone;
  app.final_callback([&] {
    if (app.get_subcommands().empty()) code = RunCommand(run_options);
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  return code;
}

}  // namespace
}  // namespace kimi_k3

int main(int argc, char** argv) {
  // A closed pipe is an error that a write reports, not the death of the process.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return kimi_k3::Main(argc, argv);
  } catch (const kimi_k3::Error& error) {
    kimi_k3::Complain(error.what());
    return kimi_k3::ExitCodeOf(error.kind());
  } catch (const std::bad_alloc&) {
    kimi_k3::Complain("out of memory: ask for a smaller context (-c) or prompt chunk");
    return kimi_k3::kExitBudget;
  } catch (const std::exception& error) {
    kimi_k3::Complain(error.what());
    return kimi_k3::kExitRunFailed;
  }
}

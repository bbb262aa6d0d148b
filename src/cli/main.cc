// The kimi_k3 program: reads the command line and hands over to one command.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>

#include "base/error.h"
#include "cli/batch_command.h"
#include "cli/bench_command.h"
#include "cli/chat_command.h"
#include "cli/compare_command.h"
#include "cli/completion.h"
#include "cli/doctor_command.h"
#include "cli/exit_code.h"
#include "cli/help_command.h"
#include "cli/inspect_command.h"
#include "cli/plan_command.h"
#include "cli/pull_command.h"
#include "cli/quantize_command.h"
#include "cli/run_command.h"
#include "cli/run_options.h"
#include "cli/serve_command.h"
#include "cli/synth_command.h"
#include "cli/terminal_text.h"
#include "cli/tokenize_command.h"
#include "cli/usage_error.h"
#include "cli/verify_command.h"
#include "cli/version.h"

namespace kimi_k3 {
namespace {

void Complain(const char* message) {
  std::fprintf(stderr, "kimi_k3: %s\n", TextFor(STDERR_FILENO, message).c_str());
}

// A standard stream that the caller has closed would be the number of the next file opened, and
// output would go into that. In its place comes a stream that refuses what the closed one would.
void HoldStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) != -1) continue;
    if (open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) != fd) std::_Exit(kExitIo);
  }
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Kimi K3 on an ordinary computer: prints the model's answer to a prompt.\n"
      "  kimi_k3 -m DIR -p TEXT [-n 256] [-c 2048] [-t THREADS]",
      "kimi_k3");
  app.set_version_flag("--version", VersionText, "Print version, instruction sets and libraries");
  app.require_subcommand(0, 1);
  app.footer(
      "Exit codes: 0 done, 1 run failed, 2 usage, 3 checkpoint refused, 4 memory budget too\n"
      "small, 5 read or write failed, 130 interrupted.");
  ExitCode code = kExitDone;
  RunOptions run_options;
  AddRunOptions(app, run_options);
  AddBenchCommand(app);
  AddRunCommand(app, code);
  AddChatCommand(app, code);
  AddPlanCommand(app);
  AddServeCommand(app, code);
  AddBatchCommand(app, code);
  AddCompareCommand(app);
  AddInspectCommand(app);
  AddPullCommand(app);
  AddVerifyCommand(app, code);
  AddDoctorCommand(app);
  AddSynthCommand(app);
  AddQuantizeCommand(app);
  AddTokenizeCommand(app);
  AddHelpCommand(app);
  AddCompletionCommands(app);
  app.parse_complete_callback([&] { CheckPlaceOfFlags(app); });
  app.final_callback([&] {
    if (app.get_subcommands().empty()) code = RunCommand(run_options);
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wish) {  // --help, --version
    app.exit(wish);
  } catch (const CLI::ParseError& error) {
    Complain(DescribeUsageError(app, error).c_str());
    return kExitUsage;
  }
  if (!std::cout.flush()) Fail(ErrorKind::kIo, "cannot write to standard output");
  return code;
}

}  // namespace
}  // namespace kimi_k3

int main(int argc, char** argv) {
  // A closed pipe is an error that a write reports, not the death of the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // as is a file that grows beyond its limit
  kimi_k3::HoldStandardStreams();
  try {
    return kimi_k3::Main(argc, argv);
  } catch (const kimi_k3::Error& error) {
    kimi_k3::Complain(error.what());
    return kimi_k3::ExitCodeOf(error.kind());
  } catch (const std::bad_alloc&) {
    kimi_k3::Complain(
        "out of memory: the system, or a limit (ulimit -d, ulimit -v), gives the program no more; "
        "raise that, or ask for a smaller --memory, context (-c) or prompt chunk");
    return kimi_k3::kExitBudget;
  } catch (const std::exception& error) {
    kimi_k3::Complain(error.what());
    return kimi_k3::kExitRunFailed;
  }
}

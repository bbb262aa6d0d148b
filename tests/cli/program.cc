// Running programs in tests: with pipes or on a pseudo-terminal, with a time limit.
#include "cli/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace kimi_k3 {
namespace {

void Require(bool succeeded, const char* what) {
  if (!succeeded) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

std::pair<UniqueFd, UniqueFd> MakePipe() {
  int ends[2];
  Require(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Pointers to the strings, and the null pointer that ends such a list.
std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The mask of handled signals in /proc/PID/status; nothing where the process has ended.
std::optional<uint64_t> HandledSignals(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  constexpr std::string_view kField = "SigCgt:";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("State:\tZ")) return std::nullopt;
    if (line.starts_with(kField)) return std::stoull(line.substr(kField.size()), nullptr, 16);
  }
  return std::nullopt;
}

// Appends what can be read; closes the descriptor at its end.
void Drain(UniqueFd& fd, std::string& text) {
  std::array<char, 65536> block;
  const ssize_t n = read(fd.get(), block.data(), block.size());
  if (n > 0) {
    text.append(block.data(), static_cast<size_t>(n));
  } else if (n == 0 || errno != EINTR) {  // a terminal whose program has gone gives EIO
    fd = UniqueFd();
  }
}

}  // namespace

Program::Program(std::vector<std::string> arguments, ProgramOptions options)
    : options_(std::move(options)),
      deadline_(std::chrono::steady_clock::now() + options_.time_limit) {
  signal(SIGPIPE, SIG_IGN);
  OpenStreams();
  Start(std::move(arguments));
  child_input_ = UniqueFd();
  child_output_ = UniqueFd();
  child_error_ = UniqueFd();
}

Program::~Program() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Program::OpenStreams() {
  if (options_.streams != Streams::kPipes) {
    struct winsize size = {};
    size.ws_row = options_.rows;
    size.ws_col = options_.columns;
    int ours = -1;
    int its = -1;
    std::array<char, 256> name;
    Require(openpty(&ours, &its, name.data(), nullptr, &size) == 0, "openpty");
    fcntl(ours, F_SETFD, FD_CLOEXEC);
    fcntl(its, F_SETFD, FD_CLOEXEC);
    terminal_ = UniqueFd(ours);
    child_error_ = UniqueFd(its);
    terminal_name_ = name.data();
  }
  if (options_.streams == Streams::kTerminal) return;
  std::tie(child_input_, input_) = MakePipe();
  fcntl(input_.get(), F_SETFL, O_NONBLOCK);
  if (!options_.output_file) std::tie(output_, child_output_) = MakePipe();
  if (options_.streams == Streams::kPipes) std::tie(error_, child_error_) = MakePipe();
}

void Program::Start(std::vector<std::string> arguments) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, options_.folder.c_str());
  if (options_.streams == Streams::kTerminal) {
    // The first terminal that a session opens becomes the one that controls it.
    posix_spawn_file_actions_addopen(&actions, 0, terminal_name_.c_str(), O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, 0, 1);
    posix_spawn_file_actions_adddup2(&actions, 0, 2);
  } else {
    posix_spawn_file_actions_adddup2(&actions, child_input_.get(), 0);
    if (!options_.output_file) {
      posix_spawn_file_actions_adddup2(&actions, child_output_.get(), 1);
    } else if (options_.output_file->empty()) {
      posix_spawn_file_actions_addclose(&actions, 1);
    } else {
      posix_spawn_file_actions_addopen(&actions, 1, options_.output_file->c_str(),
                                       O_WRONLY | O_CREAT | O_TRUNC, 0666);
    }
    posix_spawn_file_actions_adddup2(&actions, child_error_.get(), 2);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&defaults, number);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);

  std::vector<std::string> environment = options_.environment;
  environment.emplace_back("TERM=xterm");
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  const int failure = posix_spawn(&pid_, arguments.front().c_str(), &actions, &attributes,
                                  Pointers(arguments).data(), Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  errno = failure;
  Require(failure == 0, "posix_spawn");
}

bool Program::Pump() {
  std::vector<pollfd> waiting;
  const bool writing = input_.valid() && input_written_ < options_.input.size();
  if (writing) waiting.push_back({.fd = input_.get(), .events = POLLOUT, .revents = 0});
  for (const UniqueFd* fd : {&output_, &error_, &terminal_}) {
    if (fd->valid()) waiting.push_back({.fd = fd->get(), .events = POLLIN, .revents = 0});
  }
  if (input_.valid() && !writing && !options_.keep_input_open) input_ = UniqueFd();
  if (waiting.empty()) return false;
  if (poll(waiting.data(), waiting.size(), 50) <= 0) return true;
  for (const pollfd& ready : waiting) {
    if (ready.revents == 0) continue;
    if (ready.fd == output_.get()) {
      Drain(output_, result_.out);
    } else if (ready.fd == error_.get()) {
      Drain(error_, result_.err);
    } else if (ready.fd == terminal_.get()) {
      Drain(terminal_, options_.streams == Streams::kTerminal ? result_.out : result_.err);
    } else {
      const ssize_t n = write(input_.get(), options_.input.data() + input_written_,
                              options_.input.size() - input_written_);
      if (n > 0) input_written_ += static_cast<size_t>(n);
      if (n < 0 && errno != EAGAIN && errno != EINTR) input_ = UniqueFd();
    }
  }
  return true;
}

void Program::Await(const std::string& stream, std::string_view text) {
  while (stream.find(text) == std::string::npos) {
    if (!Pump() || std::chrono::steady_clock::now() > deadline_) {
      ADD_FAILURE() << "waited in vain for \"" << text << "\" after:\n" << stream.substr(0, 2000);
      return;
    }
  }
}

void Program::AwaitErrorWhere(const std::function<bool(const std::string&)>& holds) {
  const std::string& shown = options_.streams == Streams::kTerminal ? result_.out : result_.err;
  while (!holds(shown)) {
    if (!Pump() || std::chrono::steady_clock::now() > deadline_) {
      ADD_FAILURE() << "waited in vain after:\n" << shown.substr(0, 2000);
      return;
    }
  }
}

void Program::AwaitOutput(std::string_view text) { Await(result_.out, text); }

void Program::AwaitError(std::string_view text) {
  Await(options_.streams == Streams::kTerminal ? result_.out : result_.err, text);
}

void Program::AwaitHandler(int number, bool handles) const {
  const uint64_t bit = uint64_t{1} << (number - 1);
  for (;;) {
    const std::optional<uint64_t> handled = HandledSignals(pid_);
    if (handled && ((*handled & bit) != 0) == handles) return;
    if (!handled || std::chrono::steady_clock::now() > deadline_) {
      ADD_FAILURE() << "waited in vain for a change in the handling of signal " << number;
      return;
    }
    usleep(1000);
  }
}

void Program::AwaitBlockedWrite() const {
  for (int tenths = 0; tenths < 50; ++tenths) {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/wchan");
    std::string place;
    file >> place;
    if (place.find("pipe_write") != std::string::npos) return;
    usleep(100000);
  }
}

void Program::Signal(int number) const { kill(pid_, number); }

void Program::Type(std::string_view keys) const {
  Require(write(terminal_.get(), keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()),
          "write to the terminal");
}

void Program::Resize(unsigned short rows, unsigned short columns) const {
  struct winsize size = {};
  size.ws_row = rows;
  size.ws_col = columns;
  Require(ioctl(terminal_.get(), TIOCSWINSZ, &size) == 0, "TIOCSWINSZ");
}

ProgramResult Program::Finish() {
  int status = 0;
  bool ended = false;
  for (;;) {
    const bool open = Pump();
    if (!ended) ended = waitpid(pid_, &status, WNOHANG) == pid_;
    if (ended && !open) break;
    if (!open) usleep(1000);
    if (std::chrono::steady_clock::now() > deadline_) {
      ADD_FAILURE() << "still running after " << options_.time_limit.count() << " s:\n"
                    << result_.out.substr(0, 2000) << result_.err.substr(0, 2000);
      kill(pid_, SIGKILL);
      if (!ended) waitpid(pid_, &status, 0);
      break;
    }
  }
  pid_ = -1;
  result_.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result_;
}

std::vector<std::string> ProgramCommand(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), KIMI_K3_PROGRAM);
  return arguments;
}

ProgramResult RunProgram(std::vector<std::string> arguments, ProgramOptions options) {
  return Program(ProgramCommand(std::move(arguments)), std::move(options)).Finish();
}

TemporaryFolder::TemporaryFolder() {
  std::string name = testing::TempDir() + "kimi_k3_XXXXXX";
  Require(mkdtemp(name.data()) != nullptr, "mkdtemp");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TinyModel() { return KIMI_K3_SOURCE_DIR "/models/tiny"; }
std::string SmallModel() { return KIMI_K3_SOURCE_DIR "/tests/data/golden/k3/checkpoint"; }
std::string ReadFile(const std::string& path) { return ReadWholeFile(path, uint64_t{1} << 30); }

}  // namespace kimi_k3

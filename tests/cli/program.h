// Running programs in tests: with pipes or on a pseudo-terminal, with a time limit.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace kimi_k3 {

enum class Streams {
  kPipes,          // standard input, output and error are pipes
  kTerminal,       // all three are one pseudo-terminal, which controls the program
  kErrorTerminal,  // error is a pseudo-terminal, the others are pipes
};

struct ProgramOptions {
  std::string input = {};                     // for standard input, which is then closed
  bool keep_input_open = false;               // leaves it open after that
  std::vector<std::string> environment = {};  // NAME=VALUE, beside the test's own
  std::filesystem::path folder = ".";         // to run in
  // Where standard output goes in place of a pipe; "": it is closed.
  std::optional<std::string> output_file = {};
  Streams streams = Streams::kPipes;
  unsigned short rows = 24, columns = 80;  // of the terminal
  std::chrono::seconds time_limit{60};
};

struct ProgramResult {
  int exit_code = 0;  // 128 + number where a signal ended the program
  std::string out;    // with kTerminal all that it showed
  std::string err;    // with kErrorTerminal all that it showed
};

// A program that has been started. The destructor kills it where it still runs. From the first one
// on the test's process ignores SIGPIPE: a program may end with its input unread.
class Program {
 public:
  // arguments[0] is the program's path.
  explicit Program(std::vector<std::string> arguments, ProgramOptions options = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Reads until `text` has appeared on output (error); fails the test where it does not.
  void AwaitOutput(std::string_view text);
  void AwaitError(std::string_view text);
  // Reads until `holds` is true of all that has appeared on error; fails the test where it is not.
  void AwaitErrorWhere(const std::function<bool(const std::string&)>& holds);
  // What has been read so far.
  const std::string& output() const { return result_.out; }
  void Signal(int number) const;
  // Waits until the program handles signal `number` itself, or (handles = false) does so no longer;
  // fails the test at the time limit or where the program ends before.
  void AwaitHandler(int number, bool handles = true) const;
  // Waits until the program waits in a write to a pipe (where the system tells; some seconds).
  void AwaitBlockedWrite() const;
  // As if it were typed at the terminal.
  void Type(std::string_view keys) const;
  void Resize(unsigned short rows, unsigned short columns) const;

  // Reads to the end of all output and waits for the exit. Kills the program and fails the test at
  // the time limit.
  ProgramResult Finish();

 private:
  // Moves what is ready from and to the program; false where nothing can come any more.
  bool Pump();
  void Await(const std::string& stream, std::string_view text);
  void OpenStreams();
  void Start(std::vector<std::string> arguments);

  ProgramOptions options_;
  std::chrono::steady_clock::time_point deadline_;
  pid_t pid_ = -1;
  UniqueFd input_, output_, error_, terminal_;         // our ends
  UniqueFd child_input_, child_output_, child_error_;  // its ends, until it has started
  std::string terminal_name_;
  size_t input_written_ = 0;
  ProgramResult result_;
};

// Runs kimi_k3 with these arguments.
ProgramResult RunProgram(std::vector<std::string> arguments, ProgramOptions options = {});

// The same, still running; the result is `program`'s.
std::vector<std::string> ProgramCommand(std::vector<std::string> arguments);

// A folder that is removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Folders inside the repository.
std::string TinyModel();                        // the trained model, with a tokenizer
std::string SmallModel();                       // a golden case without a tokenizer
std::string ReadFile(const std::string& path);  // whole; fails the test where it cannot

}  // namespace kimi_k3

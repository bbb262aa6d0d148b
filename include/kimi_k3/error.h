// The one exception type of the project: what went wrong, of which kind, in words for the user.
#pragma once

#include <stdexcept>
#include <string>

namespace kimi_k3 {

// What a failure means to the person at the terminal; each kind has one exit code of the program.
enum class ErrorKind {
  kRun,         // the run itself failed (a NaN in the router, a prompt that does not fit)
  kUsage,       // a flag, an argument or a request is wrong
  kCheckpoint,  // config, tokenizer or weights are refused
  kBudget,      // the plan does not fit the memory budget
  kIo,          // the operating system refused or broke a read or a write
  kInterrupted  // the user asked to stop
};

// Thrown for set-up and I/O failures. The message says what, where (file, tensor, offset, flag) and
// what to do, and holds no trailing newline.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace kimi_k3

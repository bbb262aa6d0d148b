// Lines that a person types: with editing and history on a terminal, plain from a pipe.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace kimi_k3 {

enum class LineKind {
  kLine,        // text, without its line end
  kEnd,         // nothing more comes (Ctrl-D, the pipe's end)
  kInterrupted  // a signal came first (InterruptGuard)
};

struct Line {
  LineKind kind = LineKind::kEnd;
  std::string text;       // UTF-8 as it came
  bool verbatim = false;  // taken as it stands: no command, whatever it begins with
};

class LineReader {
 public:
  virtual ~LineReader() = default;
  // Waits for a line. prompt: shown before it on a terminal.
  virtual Line Read(const std::string& prompt) = 0;
  // Offers `text` to the arrow keys later.
  virtual void Remember(const std::string& text) = 0;
};

// Whether standard input and output are terminals, so that a person types here.
bool PersonTypes();

// Editing and history (libedit); history is kept in the file across runs where one is given. Throws
// Error(kIo) where the terminal cannot be used or the file is there and cannot be read.
std::unique_ptr<LineReader> MakeTerminalReader(std::optional<std::filesystem::path> history);

// Standard input line by line; the prompt is not shown. Read throws Error(kIo) where reading fails,
// Error(kUsage) for a line of more than 256 MB.
std::unique_ptr<LineReader> MakePipeReader();

}  // namespace kimi_k3

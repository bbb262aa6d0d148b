// Everything that is wrong with a checkpoint, gathered so that it can be told at once.
#include "checkpoint/problem_list.h"

#include "base/error.h"

namespace kimi_k3 {

std::string ProblemList::Text() const {
  std::string text = fmt::format("{}", fmt::join(problems_, "\n"));
  if (count_ > problems_.size()) {
    text += fmt::format("\nand {} more problems like these", count_ - problems_.size());
  }
  return text;
}

void ProblemList::ThrowIfAny() const {
  if (!empty()) throw Error(ErrorKind::kCheckpoint, Text());
}

std::string Printable(std::string_view text, size_t limit) {
  std::string out;
  for (const char c : text.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  if (text.size() > limit) out += "...";
  return out;
}

}  // namespace kimi_k3

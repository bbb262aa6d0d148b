// Everything that is wrong with a checkpoint, gathered so that it can be told at once.
#include "checkpoint/problem_list.h"

#include "base/error.h"

namespace kimi_k3 {

void ProblemList::Keep(std::string_view source, std::string problem) {
  ++count_;
  OfFile& file = files_[std::string(source)];
  ++file.kept;
  file.last = problems_.size();
  problems_.push_back(std::move(problem));
}

bool ProblemList::full(std::string_view source) const {
  if (problems_.size() >= limit_) return true;
  const auto file = files_.find(source);
  return file != files_.end() && file->second.kept >= limit_of_file_;
}

void ProblemList::Count(std::string_view source) {
  ++count_;
  // Files of which nothing is kept are counted together.
  if (const auto file = files_.find(source); file != files_.end()) ++file->second.counted;
}

std::string ProblemList::Text() const {
  std::map<size_t, std::string> more;  // by the problem that it stands behind
  size_t untold = count_ - problems_.size();
  for (const auto& [source, file] : files_) {
    if (file.counted == 0) continue;
    more[file.last] = fmt::format("\n{}: and {} more problem{} like these", source, file.counted,
                                  file.counted == 1 ? "" : "s");
    untold -= file.counted;
  }
  std::string text;
  for (size_t i = 0; i < problems_.size(); ++i) {
    if (i > 0) text += '\n';
    text += problems_[i];
    if (const auto rest = more.find(i); rest != more.end()) text += rest->second;
  }
  if (untold > 0) {
    text += fmt::format("\nand {} more problem{} like these", untold, untold == 1 ? "" : "s");
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

std::string GroupedDigits(uint64_t number) {
  const std::string digits = fmt::to_string(number);
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

}  // namespace kimi_k3

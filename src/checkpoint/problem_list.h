// Everything that is wrong with a checkpoint, gathered so that it can be told at once.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kimi_k3 {

// Keeps the first `limit` problems and counts the rest. Not thread-safe.
class ProblemList {
 public:
  explicit ProblemList(size_t limit = 20) : limit_(limit) {}

  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    ++count_;
    if (problems_.size() < limit_) {
      problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
    }
  }

  // For what would only be counted: Add without the cost of making words.
  bool full() const { return problems_.size() == limit_; }
  void Count() { ++count_; }

  size_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  const std::vector<std::string>& problems() const { return problems_; }

  // One problem a line, then how many more there are.
  std::string Text() const;

  // Throws Error(kCheckpoint) with Text() where there is a problem.
  void ThrowIfAny() const;

 private:
  size_t limit_;
  size_t count_ = 0;
  std::vector<std::string> problems_;
};

// Text from an untrusted file made fit for one line of a terminal: control characters and bytes
// beyond ASCII become \xNN, and what is longer than limit bytes is cut with "...".
std::string Printable(std::string_view text, size_t limit = 200);

}  // namespace kimi_k3

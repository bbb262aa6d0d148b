// Everything that is wrong with a checkpoint, gathered so that it can be told at once.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kimi_k3 {

// Keeps the first `limit` problems, of one file no more than `limit_of_file`, and counts the rest.
// Not thread-safe.
class ProblemList {
 public:
  static constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

  explicit ProblemList(size_t limit = 20, size_t limit_of_file = kUnlimited)
      : limit_(limit), limit_of_file_(limit_of_file) {}

  // source: the file (or folder) that the problem is of; it takes the place of the first {}.
  template <typename... Args>
  void Add(fmt::format_string<std::string_view&, Args...> format, std::string_view source,
           Args&&... args) {
    if (full(source)) {
      Count(source);
    } else {
      Keep(source, fmt::format(format, source, std::forward<Args>(args)...));
    }
  }

  // Add for what is said once of a file as a whole: kept whatever the limits.
  template <typename... Args>
  void AddAlways(fmt::format_string<std::string_view&, Args...> format, std::string_view source,
                 Args&&... args) {
    Keep(source, fmt::format(format, source, std::forward<Args>(args)...));
  }

  // For what would only be counted: Add without the cost of making words.
  bool full(std::string_view source) const;
  void Count(std::string_view source);

  size_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  const std::vector<std::string>& problems() const { return problems_; }

  // One problem a line; behind those of a file how many more it has, and at the end how many other
  // files have.
  std::string Text() const;

  // Throws Error(kCheckpoint) with Text() where there is a problem.
  void ThrowIfAny() const;

 private:
  struct OfFile {
    size_t kept = 0;
    size_t counted = 0;
    size_t last = 0;  // index of the last one that was kept
  };

  void Keep(std::string_view source, std::string problem);

  size_t limit_;
  size_t limit_of_file_;
  size_t count_ = 0;
  std::vector<std::string> problems_;
  std::map<std::string, OfFile, std::less<>> files_;
};

// Text from an untrusted file made fit for one line of a terminal: control characters and bytes
// beyond ASCII become \xNN, and what is longer than limit bytes is cut with "...".
std::string Printable(std::string_view text, size_t limit = 200);

// "1,611,797".
std::string GroupedDigits(uint64_t number);

}  // namespace kimi_k3

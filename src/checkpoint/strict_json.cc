// JSON from untrusted files, read so strictly that two readers cannot see two different texts.
#include "checkpoint/strict_json.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/problem_list.h"

namespace kimi_k3 {
namespace {

// Walks a text before it is built into a tree and stops at what the tree would hide.
class Checker : public nlohmann::json_sax<nlohmann::json> {
 public:
  const std::string& problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*token*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*size*/) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool start_array(std::size_t /*size*/) override { return Enter(); }
  bool end_array() override { return Leave(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.current = name;
    if (level.seen.insert(name).second) return true;
    problem_ = fmt::format("the key {} is repeated", Path());
    return false;
  }

  bool parse_error(std::size_t /*position*/, const std::string& last_token,
                   const nlohmann::detail::exception& error) override {
    constexpr int kOutOfRange = 406;
    if (error.id == kOutOfRange) {
      problem_ =
          fmt::format("{} is {}, beyond the range of a number", Path(), Printable(last_token, 40));
    } else {
      // The library's text begins with its own name and code in brackets.
      const std::string text = error.what();
      const size_t bracket = text.find("] ");
      problem_ =
          fmt::format("is not valid JSON: {}",
                      Printable(bracket == std::string::npos ? text : text.substr(bracket + 2)));
    }
    return false;
  }

 private:
  struct Level {
    std::set<std::string> seen;
    std::string current;
  };

  bool Enter() {
    if (levels_.size() == kJsonDepthLimit) {
      problem_ = fmt::format("is nested more than {} deep", kJsonDepthLimit);
      return false;
    }
    levels_.emplace_back();
    return true;
  }

  bool Leave() {
    levels_.pop_back();
    return true;
  }

  std::string Path() const {
    std::string path;
    for (const Level& level : levels_) {
      if (level.current.empty()) continue;
      if (!path.empty()) path += '.';
      path += Printable(level.current, 80);
    }
    return path.empty() ? "a value" : path;
  }

  std::vector<Level> levels_;
  std::string problem_;
};

}  // namespace

nlohmann::json ParseStrictJson(std::string_view text, std::string_view source) {
  if (text.starts_with("\xef\xbb\xbf")) {
    Fail(ErrorKind::kCheckpoint, "{}: begins with a byte order mark; save it as UTF-8 without one",
         source);
  }
  // The parser takes a NUL for the end of the text and would not see what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    Fail(ErrorKind::kCheckpoint, "{}: holds a NUL byte (at offset {}); is the file damaged?",
         source, nul);
  }
  Checker checker;
  if (!nlohmann::json::sax_parse(text, &checker)) {
    Fail(ErrorKind::kCheckpoint, "{}: {}", source, checker.problem());
  }
  return nlohmann::json::parse(text);
}

}  // namespace kimi_k3

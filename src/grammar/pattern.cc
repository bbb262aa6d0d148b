// Regular expressions of JSON schemas (ECMA-262, the part that finite automata can follow).
#include "grammar/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "text/code_point.h"

namespace kimi_k3::grammar {
namespace {

constexpr size_t kMostNesting = 40;
constexpr size_t kMostRepeats = 10'000;

using Ranges = std::vector<CodeRange>;

// Part of an expression.
struct Node {
  enum class Kind { kCharacter, kSequence, kChoice, kRepeat };
  Kind kind = Kind::kSequence;
  Ranges ranges = {};
  std::vector<Node> parts = {};
  size_t least = 1;                // of a repetition
  std::optional<size_t> most = 1;  // nothing: any number
};

Ranges Sorted(Ranges ranges) {
  std::ranges::sort(ranges, {}, &CodeRange::first);
  Ranges joined;
  for (const CodeRange& range : ranges) {
    if (!joined.empty() && range.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

Ranges Others(const Ranges& sorted) {
  Ranges others;
  uint32_t first = 0;
  for (const CodeRange& range : sorted) {
    if (range.first > first) others.push_back({first, range.first - 1});
    first = range.last + 1;
  }
  if (first <= kMostCode) others.push_back({first, kMostCode});
  return others;
}

// \d, \w, \s and their opposites; nothing for another letter.
std::optional<Ranges> NamedClass(char32_t letter) {
  const Ranges digits = {{'0', '9'}};
  const Ranges words = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  const Ranges spaces = {{'\t', '\r'},     {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680},
                         {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                         {0x3000, 0x3000}, {0xfeff, 0xfeff}};
  switch (letter) {
    case 'd':
      return digits;
    case 'D':
      return Others(digits);
    case 'w':
      return words;
    case 'W':
      return Others(words);
    case 's':
      return spaces;
    case 'S':
      return Others(spaces);
    default:
      return std::nullopt;
  }
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : text_(pattern) {}

  // Each alternative at the top, with what may stand before and after it.
  Node Parse() {
    Node choice = {.kind = Node::Kind::kChoice};
    do {
      const bool at_start = Take('^');
      Node sequence = ParseSequence(0);
      const bool at_end = Take('$');
      if (!at_start) sequence.parts.insert(sequence.parts.begin(), Anything());
      if (!at_end) sequence.parts.push_back(Anything());
      choice.parts.push_back(std::move(sequence));
    } while (Take('|'));
    if (!Done()) Refuse("unexpected");
    return choice;
  }

 private:
  static Node Anything() {
    Node any = {.kind = Node::Kind::kCharacter, .ranges = {{0, kMostCode}}};
    return {.kind = Node::Kind::kRepeat, .parts = {any}, .least = 0, .most = std::nullopt};
  }

  bool Done() const { return place_ == text_.size(); }
  bool Sees(char c) const { return !Done() && text_[place_] == c; }
  bool Take(char c) {
    if (!Sees(c)) return false;
    ++place_;
    return true;
  }
  [[noreturn]] void Refuse(const char* what) const {
    throw GrammarError(fmt::format("{} at byte {} of the expression", what, place_));
  }
  char32_t TakeCharacter() {
    if (Done()) Refuse("unexpected end");
    const text::CodePoint point = text::CodePointAt(text_, place_);
    place_ += point.size_bytes;
    return point.value;
  }

  Node ParseChoice(size_t nesting) {
    Node choice = {.kind = Node::Kind::kChoice};
    do {
      choice.parts.push_back(ParseSequence(nesting));
    } while (Take('|'));
    return choice;
  }

  // `$` at the end of the whole pattern is left to the caller.
  Node ParseSequence(size_t nesting) {
    Node sequence;
    while (!Done() && !Sees('|') && !Sees(')')) {
      if (Sees('$') && nesting == 0) break;
      sequence.parts.push_back(ParseRepeated(nesting));
    }
    return sequence;
  }

  Node ParseRepeated(size_t nesting) {
    Node atom = ParseAtom(nesting);
    Node repeat = {.kind = Node::Kind::kRepeat};
    if (Take('*')) {
      repeat.least = 0;
      repeat.most.reset();
    } else if (Take('+')) {
      repeat.most.reset();
    } else if (Take('?')) {
      repeat.least = 0;
    } else if (Sees('{')) {
      ParseCounts(repeat);
    } else {
      return atom;
    }
    Take('?');  // what is found first is of no interest here
    if (Sees('*') || Sees('+') || Sees('?') || Sees('{')) Refuse("nothing to repeat");
    repeat.parts.push_back(std::move(atom));
    return repeat;
  }

  void ParseCounts(Node& repeat) {
    ++place_;
    repeat.least = ParseCount();
    repeat.most = repeat.least;
    if (Take(',')) {
      repeat.most.reset();
      if (!Sees('}')) repeat.most = ParseCount();
    }
    if (!Take('}')) Refuse("\"}\" expected");
    if (repeat.most && *repeat.most < repeat.least) Refuse("counts in the wrong order");
  }

  size_t ParseCount() {
    size_t count = 0;
    const size_t start = place_;
    while (!Done() && text_[place_] >= '0' && text_[place_] <= '9') {
      count = count * 10 + static_cast<size_t>(text_[place_++] - '0');
      if (count > kMostRepeats) Refuse("too large a count");
    }
    if (place_ == start) Refuse("a count expected");
    return count;
  }

  Node ParseAtom(size_t nesting) {
    const size_t start = place_;
    const char32_t c = TakeCharacter();
    switch (c) {
      case '(':
        return ParseGroup(nesting);
      case '[':
        return ParseClass();
      case '.':
        return Character(Others({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
      case '\\':
        return Character(ParseEscape());
      case '^':
      case '$':
        place_ = start;
        Refuse("an anchor that is not at the beginning or end is not supported,");
      case '*':
      case '+':
      case '?':
      case '{':
        place_ = start;
        Refuse("nothing to repeat");
      default:
        return Character({{c, c}});
    }
  }

  static Node Character(Ranges ranges) {
    return {.kind = Node::Kind::kCharacter, .ranges = std::move(ranges)};
  }

  Node ParseGroup(size_t nesting) {
    if (nesting >= kMostNesting) Refuse("too many groups in one another");
    if (Take('?')) {
      if (Take('<')) {
        if (Sees('=') || Sees('!')) Refuse("looking around is not supported,");
        while (!Done() && !Sees('>')) ++place_;
        if (!Take('>')) Refuse("\">\" expected");
      } else if (!Take(':')) {
        Refuse("looking around is not supported,");
      }
    }
    Node choice = ParseChoice(nesting + 1);
    if (!Take(')')) Refuse("\")\" expected");
    return choice;
  }

  // After the backslash.
  Ranges ParseEscape() {
    const size_t start = place_;
    const char32_t c = TakeCharacter();
    if (auto named = NamedClass(c)) return *named;
    constexpr std::string_view kLetters = "nrtfv0";
    constexpr std::string_view kControls("\n\r\t\f\v\0", 6);
    if (const size_t index =
            c < 0x80 ? kLetters.find(static_cast<char>(c)) : std::string_view::npos;
        index != std::string_view::npos) {
      const auto control = static_cast<unsigned char>(kControls[index]);
      return {{control, control}};
    }
    if (c == 'x') return ParseCode(2);
    if (c == 'u') return ParseCode(4);
    const bool is_letter =
        (c >= '1' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_letter) {
      place_ = start - 1;
      Refuse("an escape that is not supported,");
    }
    return {{c, c}};
  }

  Ranges ParseCode(size_t digits) {
    uint32_t code = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char32_t c = TakeCharacter();
      const auto digit = std::string_view("0123456789abcdef").find(static_cast<char>(c | 0x20));
      if (c > 0x7f || digit == std::string_view::npos) Refuse("a hexadecimal digit expected");
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    if (code >= 0xd800 && code < 0xe000) Refuse("half of a surrogate pair is not supported,");
    return {{code, code}};
  }

  Node ParseClass() {
    const bool others = Take('^');
    Ranges ranges;
    while (!Take(']')) {
      const Ranges first = ParseClassMember();
      if (Sees('-') && place_ + 1 < text_.size() && text_[place_ + 1] != ']') {
        ++place_;
        const Ranges last = ParseClassMember();
        const bool single = first.size() == 1 && last.size() == 1 &&
                            first[0].first == first[0].last && last[0].first == last[0].last;
        if (!single || first[0].first > last[0].first) Refuse("not a range of characters");
        ranges.push_back({first[0].first, last[0].first});
      } else {
        ranges.insert(ranges.end(), first.begin(), first.end());
      }
    }
    ranges = Sorted(std::move(ranges));
    return Character(others ? Others(ranges) : ranges);
  }

  Ranges ParseClassMember() {
    const char32_t c = TakeCharacter();
    if (c != '\\') return {{c, c}};
    if (Sees('b')) {
      ++place_;
      return {{'\b', '\b'}};
    }
    return ParseEscape();
  }

  std::string_view text_;
  size_t place_ = 0;
};

void Add(GrammarBuilder& builder, State from, const Node& node, Quoting quoting, State to);

void AddRepeat(GrammarBuilder& builder, State from, const Node& node, Quoting quoting, State to) {
  const Node& part = node.parts.front();
  for (size_t i = 0; i < node.least; ++i) {
    const State next = builder.NewState();
    Add(builder, from, part, quoting, next);
    from = next;
  }
  if (!node.most) {
    const State loop = builder.NewState();
    builder.AddEmpty(from, loop);
    Add(builder, loop, part, quoting, loop);
    from = loop;
  } else {
    for (size_t i = node.least; i < *node.most; ++i) {
      builder.AddEmpty(from, to);
      const State next = builder.NewState();
      Add(builder, from, part, quoting, next);
      from = next;
    }
  }
  builder.AddEmpty(from, to);
}

void Add(GrammarBuilder& builder, State from, const Node& node, Quoting quoting, State to) {
  switch (node.kind) {
    case Node::Kind::kCharacter:
      AddCharacter(builder, from, node.ranges, quoting, to);
      break;
    case Node::Kind::kSequence:
      for (const Node& part : node.parts) {
        const State next = builder.NewState();
        Add(builder, from, part, quoting, next);
        from = next;
      }
      builder.AddEmpty(from, to);
      break;
    case Node::Kind::kChoice:
      for (const Node& part : node.parts) {
        // Repetitions inside must not be entered from the side.
        const State start = builder.NewState();
        const State end = builder.NewState();
        builder.AddEmpty(from, start);
        Add(builder, start, part, quoting, end);
        builder.AddEmpty(end, to);
      }
      break;
    case Node::Kind::kRepeat:
      AddRepeat(builder, from, node, quoting, to);
      break;
  }
}

}  // namespace

void AddPattern(GrammarBuilder& builder, State from, std::string_view pattern, Quoting quoting,
                State to) {
  Add(builder, from, Parser(pattern).Parse(), quoting, to);
}

}  // namespace kimi_k3::grammar

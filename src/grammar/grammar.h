// A form of text as a grammar: rules made of states, which are left by symbols or by other rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kimi_k3/error.h"

namespace kimi_k3::grammar {

// What makes a grammar impossible, in words that go on after "PLACE: ".
class GrammarError : public Error {
 public:
  explicit GrammarError(const std::string& message) : Error(ErrorKind::kUsage, message) {}
};

// A byte, or one of the control tokens that structure a chat.
using Symbol = uint16_t;
inline constexpr Symbol kOpen = 256;   // <|open|>
inline constexpr Symbol kClose = 257;  // <|close|>
inline constexpr Symbol kSep = 258;    // <|sep|>
inline constexpr Symbol kSymbols = 259;

using State = uint32_t;
using Rule = uint32_t;

// Rules may be nested this deep in a text. What would need more never comes.
inline constexpr uint32_t kMostDepth = 100;
// A state that no finite text leads on from.
inline constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();
// Limits of what a request can make the server compute and keep.
inline constexpr size_t kMostArcs = 100'000;

// A way from one state to another.
struct Arc {
  enum class Kind : uint8_t { kRange, kEmpty, kCall };
  Kind kind = Kind::kEmpty;
  Symbol first = 0;  // of a range, and the last one
  Symbol last = 0;
  State to = 0;
  Rule rule = 0;  // of a call
};

// Immutable; const functions may run on several threads.
class Grammar {
 public:
  std::span<const Arc> ArcsOf(State state) const {
    return std::span(arcs_).subspan(starts_[state], starts_[state + 1] - starts_[state]);
  }
  State StartOf(Rule rule) const { return rule * 2; }
  // Rule `r` has the states 2r, its start, and 2r + 1, its end; the others follow.
  bool IsEnd(State state) const { return state < rules_ * 2 && state % 2 == 1; }
  State start() const { return StartOf(root_); }
  // How many rules must be entered, one in another, to get from the state to the end of its rule.
  // kNever: there is no way.
  uint32_t Need(State state) const { return needs_[state]; }

  // Symbols of one class are alike in every state.
  size_t classes() const { return representatives_.size(); }
  size_t ClassOf(Symbol symbol) const { return class_of_[symbol]; }
  Symbol Representative(size_t symbol_class) const { return representatives_[symbol_class]; }

 private:
  friend class GrammarBuilder;
  Rule root_ = 0;
  size_t rules_ = 0;
  std::vector<size_t> starts_;  // of each state's arcs, and the end of the last
  std::vector<Arc> arcs_;
  std::vector<uint32_t> needs_;
  std::vector<uint16_t> class_of_;
  std::vector<Symbol> representatives_;
};

// Puts a grammar together. One thread at a time.
class GrammarBuilder {
 public:
  Rule NewRule();
  State NewState();
  static State StartOf(Rule rule) { return rule * 2 + kRuleStates; }
  static State EndOf(Rule rule) { return rule * 2 + 1 + kRuleStates; }

  // Each throws GrammarError where the grammar becomes too large.
  void AddRange(State from, Symbol first, Symbol last, State to);
  void AddEmpty(State from, State to);
  // The text of a whole rule leads from one state to the other.
  void AddCall(State from, Rule rule, State to);
  // The bytes of a text, one after another.
  State AddText(State from, std::string_view text);
  void AddText(State from, std::string_view text, State to);
  void AddSymbol(State from, Symbol symbol, State to) { AddRange(from, symbol, symbol, to); }

  size_t arcs() const { return arcs_.size(); }

  // The grammar of all texts of `root`. Throws GrammarError where a rule begins with itself, or
  // where there is no finite text (within kMostDepth). The builder is empty afterwards.
  Grammar Finish(Rule root);

 private:
  struct BuiltArc {
    State from;
    Arc arc;
  };
  // While the grammar grows, states of rules are told from others by a bit.
  static constexpr State kRuleStates = State{1} << 31;
  void Add(State from, Arc arc);
  State Place(State state) const;
  static void FindClasses(Grammar& grammar);
  static void FindNeeds(Grammar& grammar);
  static void RefuseSelfBeginning(const Grammar& grammar);

  std::vector<BuiltArc> arcs_;
  Rule rules_ = 0;
  State states_ = 0;
};

}  // namespace kimi_k3::grammar

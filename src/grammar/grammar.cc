// A form of text as a grammar: rules made of states, which are left by symbols or by other rules.
#include "grammar/grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace kimi_k3::grammar {

Rule GrammarBuilder::NewRule() { return rules_++; }

State GrammarBuilder::NewState() { return states_++; }

void GrammarBuilder::Add(State from, Arc arc) {
  if (arcs_.size() >= kMostArcs) {
    throw GrammarError(
        fmt::format("is too large: it needs more than {} steps; lengths, counts and lists of "
                    "values add to them",
                    kMostArcs));
  }
  arcs_.push_back({from, arc});
}

void GrammarBuilder::AddRange(State from, Symbol first, Symbol last, State to) {
  Add(from, {.kind = Arc::Kind::kRange, .first = first, .last = last, .to = to});
}

void GrammarBuilder::AddEmpty(State from, State to) {
  Add(from, {.kind = Arc::Kind::kEmpty, .to = to});
}

void GrammarBuilder::AddCall(State from, Rule rule, State to) {
  Add(from, {.kind = Arc::Kind::kCall, .to = to, .rule = rule});
}

State GrammarBuilder::AddText(State from, std::string_view text) {
  for (const char c : text) {
    const State next = NewState();
    AddSymbol(from, static_cast<uint8_t>(c), next);
    from = next;
  }
  return from;
}

void GrammarBuilder::AddText(State from, std::string_view text, State to) {
  if (text.empty()) {
    AddEmpty(from, to);
    return;
  }
  from = AddText(from, text.substr(0, text.size() - 1));
  AddSymbol(from, static_cast<uint8_t>(text.back()), to);
}

State GrammarBuilder::Place(State state) const {
  return state >= kRuleStates ? state - kRuleStates : state + rules_ * 2;
}

Grammar GrammarBuilder::Finish(Rule root) {
  Grammar grammar;
  grammar.root_ = root;
  grammar.rules_ = rules_;
  const size_t states = size_t{rules_} * 2 + states_;
  grammar.starts_.assign(states + 1, 0);
  for (BuiltArc& built : arcs_) {
    built.from = Place(built.from);
    built.arc.to = Place(built.arc.to);
    ++grammar.starts_[built.from + 1];
  }
  for (size_t i = 0; i < states; ++i) grammar.starts_[i + 1] += grammar.starts_[i];
  grammar.arcs_.resize(arcs_.size());
  std::vector<size_t> next(grammar.starts_.begin(), grammar.starts_.end() - 1);
  for (const BuiltArc& built : arcs_) grammar.arcs_[next[built.from]++] = built.arc;
  *this = {};
  FindClasses(grammar);
  RefuseSelfBeginning(grammar);
  FindNeeds(grammar);
  if (grammar.Need(grammar.start()) >= kMostDepth) {
    throw GrammarError(
        fmt::format("nothing that ends, nested at most {} deep, satisfies it: something that it "
                    "requires requires itself, or can have no value",
                    kMostDepth));
  }
  return grammar;
}

void GrammarBuilder::FindClasses(Grammar& grammar) {
  std::array<bool, kSymbols + 1> begins = {true};
  for (const Arc& arc : grammar.arcs_) {
    if (arc.kind != Arc::Kind::kRange) continue;
    begins[arc.first] = true;
    begins[size_t{arc.last} + 1] = true;
  }
  for (Symbol symbol = 0; symbol < kSymbols; ++symbol) {
    if (begins[symbol]) grammar.representatives_.push_back(symbol);
    grammar.class_of_.push_back(static_cast<uint16_t>(grammar.representatives_.size() - 1));
  }
}

// States in ascending order of their need: an arc backwards never leads to a smaller one.
void GrammarBuilder::FindNeeds(Grammar& grammar) {
  struct Entry {
    State from;     // of the arc
    State partner;  // for calls: the other of rule start and return
    bool is_call = false;
    bool at_start = false;  // this entry stands at the start of the rule that is called
  };
  const size_t states = grammar.starts_.size() - 1;
  std::vector<std::vector<Entry>> entering(states);
  for (State from = 0; from < states; ++from) {
    for (const Arc& arc : grammar.ArcsOf(from)) {
      if (arc.kind != Arc::Kind::kCall) {
        entering[arc.to].push_back({from, 0});
        continue;
      }
      const State start = grammar.StartOf(arc.rule);
      entering[arc.to].push_back({from, start, true, false});
      entering[start].push_back({from, arc.to, true, true});
    }
  }
  grammar.needs_.assign(states, kNever);
  std::vector<std::vector<State>> waiting(kMostDepth + 1);
  for (size_t rule = 0; rule < grammar.rules_; ++rule) {
    waiting[0].push_back(static_cast<State>(rule * 2 + 1));
  }
  for (uint32_t need = 0; need <= kMostDepth; ++need) {
    while (!waiting[need].empty()) {
      const State state = waiting[need].back();
      waiting[need].pop_back();
      if (grammar.needs_[state] != kNever) continue;
      grammar.needs_[state] = need;
      for (const Entry& entry : entering[state]) {
        if (grammar.needs_[entry.from] != kNever) continue;
        uint32_t found = need;
        if (entry.is_call) {
          const uint32_t other = grammar.needs_[entry.partner];
          if (other == kNever) continue;
          found = entry.at_start ? std::max(need + 1, other) : std::max(need, other + 1);
        }
        if (found <= kMostDepth) waiting[found].push_back(entry.from);
      }
    }
  }
}

// Looks for a circle among the rules that others begin with.
void GrammarBuilder::RefuseSelfBeginning(const Grammar& grammar) {
  const auto calls_on_the_way = [&](const std::vector<std::pair<State, size_t>>& way, State first) {
    for (size_t i = way.size(); i-- > 0;) {
      const auto& [state, followed] = way[i];
      if (grammar.ArcsOf(state)[followed - 1].kind == Arc::Kind::kCall) return true;
      if (state == first) break;
    }
    return false;
  };
  enum class Mark : uint8_t { kNew, kFollowed, kDone };
  const size_t states = grammar.starts_.size() - 1;
  std::vector<Mark> marks(states, Mark::kNew);
  std::vector<std::pair<State, size_t>> path;  // states, and how many of their arcs were followed
  for (size_t rule = 0; rule < grammar.rules_; ++rule) {
    path.emplace_back(static_cast<State>(rule * 2), 0);
    while (!path.empty()) {
      auto& [state, followed] = path.back();
      if (followed == 0) {
        if (marks[state] == Mark::kDone) {
          path.pop_back();
          continue;
        }
        marks[state] = Mark::kFollowed;
      }
      const std::span<const Arc> arcs = grammar.ArcsOf(state);
      if (followed == arcs.size()) {
        marks[state] = Mark::kDone;
        path.pop_back();
        continue;
      }
      const Arc& arc = arcs[followed++];
      if (arc.kind == Arc::Kind::kRange) continue;
      const State next = arc.kind == Arc::Kind::kCall ? grammar.StartOf(arc.rule) : arc.to;
      if (marks[next] == Mark::kFollowed && calls_on_the_way(path, next)) {
        throw GrammarError("a $ref leads back to itself before there is any value");
      }
      if (marks[next] == Mark::kNew) path.emplace_back(next, 0);
    }
  }
}

}  // namespace kimi_k3::grammar

// Follows texts through a grammar, and remembers what it has found out about their beginnings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/grammar.h"

namespace kimi_k3::grammar {

// Beginnings of texts after which the same may come have the same number, a Point; numbers are
// given as they are met. Of texts that the grammar allows in very many ways at once only so many
// are followed: what is found allowed always is. One thread at a time.
class Matcher {
 public:
  using Point = uint32_t;
  static constexpr Point kDead = 0;  // no text begins like that

  explicit Matcher(std::shared_ptr<const Grammar> grammar);

  Point start() const { return start_; }
  // The point after one more symbol; kDead where it may not come.
  Point Step(Point from, Symbol symbol) {
    const size_t index = from * grammar_->classes() + grammar_->ClassOf(symbol);
    if (steps_[index] == kUnknown) steps_[index] = FindStep(from, symbol);
    return steps_[index];
  }
  // Whether the text may end there.
  bool Complete(Point point) const { return points_[point]->complete; }

  // Whether nothing may come after it.
  bool IsLast(Point point) const { return points_[point]->threads.empty(); }

  // Points in memory.
  size_t size() const { return points_.size(); }
  // Forgets all points but these, whose numbers change where they stand; also that of start().
  void Forget(std::span<Point> kept);

 private:
  // One way in which the text may be meant: a state, and what follows the end of its rule.
  struct Thread {
    State state = 0;
    uint32_t stack = 0;
    // NOLINTNEXTLINE(modernize-use-nullptr): the 0 of the comparison is no pointer
    auto operator<=>(const Thread&) const = default;
  };
  // Rules that were entered, the innermost last.
  struct Frame {
    uint32_t outer = 0;
    State back = 0;  // where it goes on
    uint32_t depth = 0;
  };
  struct Meaning {
    std::vector<Thread> threads;  // ascending
    bool complete = false;
    bool operator==(const Meaning&) const = default;
  };
  struct MeaningHash {
    size_t operator()(const Meaning& meaning) const;
  };
  static constexpr Point kUnknown = UINT32_MAX;

  Point FindStep(Point from, Symbol symbol);
  // The number of the point that the threads and what follows them without a symbol make.
  Point Find(std::vector<Thread> threads);
  Point Number(Meaning meaning);
  bool HasRoom(const Thread& thread) const;
  uint32_t Enter(uint32_t stack, State back);
  void Reset();

  std::shared_ptr<const Grammar> grammar_;
  Point start_ = 0;
  std::vector<Point> steps_;  // [points, classes]
  std::unordered_map<Meaning, Point, MeaningHash> numbers_;
  std::vector<const Meaning*> points_;  // keys of numbers_, which never move
  std::vector<Frame> frames_;           // the first one: no rule has been entered
  std::unordered_map<uint64_t, uint32_t> frame_numbers_;
};

}  // namespace kimi_k3::grammar

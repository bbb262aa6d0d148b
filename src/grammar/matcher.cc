// Follows texts through a grammar, and remembers what it has found out about their beginnings.
#include "grammar/matcher.h"

#include <algorithm>
#include <unordered_set>

namespace kimi_k3::grammar {
namespace {

// Ways in which one beginning may be meant.
constexpr size_t kMostThreads = 1200;

uint64_t Pair(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }

}  // namespace

size_t Matcher::MeaningHash::operator()(const Meaning& meaning) const {
  uint64_t hash = meaning.complete ? 1 : 0;
  for (const Thread& thread : meaning.threads) {
    hash = (hash ^ Pair(thread.state, thread.stack)) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 29;
  }
  return hash;
}

Matcher::Matcher(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)) {
  Reset();
  start_ = Find({{grammar_->start(), 0}});
}

void Matcher::Reset() {
  numbers_.clear();
  points_.clear();
  steps_.clear();
  frame_numbers_.clear();
  frames_.assign(1, {});
  Number({});
}

void Matcher::Forget(std::span<Point> kept) {
  // Each thread with the places to return to, the innermost first.
  struct Unrolled {
    State state;
    std::vector<State> backs;
  };
  const auto unroll = [&](Point point) {
    std::vector<Unrolled> threads;
    for (const Thread& thread : points_[point]->threads) {
      Unrolled& unrolled = threads.emplace_back(Unrolled{thread.state, {}});
      for (uint32_t frame = thread.stack; frame != 0; frame = frames_[frame].outer) {
        unrolled.backs.push_back(frames_[frame].back);
      }
    }
    return std::pair(std::move(threads), points_[point]->complete);
  };
  std::vector<Point*> wanted = {&start_};
  for (Point& point : kept) wanted.push_back(&point);
  std::vector<std::pair<std::vector<Unrolled>, bool>> unrolled;
  unrolled.reserve(wanted.size());
  for (const Point* point : wanted) unrolled.push_back(unroll(*point));
  Reset();
  for (size_t i = 0; i < wanted.size(); ++i) {
    Meaning meaning;
    meaning.complete = unrolled[i].second;
    for (const Unrolled& thread : unrolled[i].first) {
      uint32_t stack = 0;
      for (size_t b = thread.backs.size(); b-- > 0;) stack = Enter(stack, thread.backs[b]);
      meaning.threads.push_back({thread.state, stack});
    }
    std::ranges::sort(meaning.threads);
    *wanted[i] = Number(std::move(meaning));
  }
}

uint32_t Matcher::Enter(uint32_t stack, State back) {
  const auto [found, is_new] =
      frame_numbers_.try_emplace(Pair(stack, back), static_cast<uint32_t>(frames_.size()));
  if (is_new) frames_.push_back({stack, back, frames_[stack].depth + 1});
  return found->second;
}

bool Matcher::HasRoom(const Thread& thread) const {
  const uint32_t need = grammar_->Need(thread.state);
  return need != kNever && frames_[thread.stack].depth + need <= kMostDepth;
}

Matcher::Point Matcher::FindStep(Point from, Symbol symbol) {
  std::vector<Thread> next;
  for (const Thread& thread : points_[from]->threads) {
    for (const Arc& arc : grammar_->ArcsOf(thread.state)) {
      if (arc.kind == Arc::Kind::kRange && symbol >= arc.first && symbol <= arc.last) {
        next.push_back({arc.to, thread.stack});
      }
    }
  }
  return next.empty() ? kDead : Find(std::move(next));
}

Matcher::Point Matcher::Find(std::vector<Thread> threads) {
  Meaning meaning;
  std::unordered_set<uint64_t> seen;
  const auto visit = [&](Thread thread) {
    if (HasRoom(thread) && seen.insert(Pair(thread.state, thread.stack)).second) {
      threads.push_back(thread);
    }
  };
  for (const Thread& thread : std::exchange(threads, {})) visit(thread);
  while (!threads.empty() && meaning.threads.size() < kMostThreads) {
    const Thread thread = threads.back();
    threads.pop_back();
    if (grammar_->IsEnd(thread.state)) {
      if (thread.stack == 0) {
        meaning.complete = true;
      } else {
        const Frame frame = frames_[thread.stack];
        visit({frame.back, frame.outer});
      }
    }
    bool reads = false;
    for (const Arc& arc : grammar_->ArcsOf(thread.state)) {
      if (arc.kind == Arc::Kind::kRange) {
        reads = true;
      } else if (arc.kind == Arc::Kind::kEmpty) {
        visit({arc.to, thread.stack});
      } else if (HasRoom({arc.to, thread.stack}) && frames_[thread.stack].depth < kMostDepth) {
        visit({grammar_->StartOf(arc.rule), Enter(thread.stack, arc.to)});
      }
    }
    if (reads) meaning.threads.push_back(thread);
  }
  std::ranges::sort(meaning.threads);
  return Number(std::move(meaning));
}

Matcher::Point Matcher::Number(Meaning meaning) {
  const auto [found, is_new] =
      numbers_.try_emplace(std::move(meaning), static_cast<Point>(points_.size()));
  if (is_new) {
    points_.push_back(&found->first);
    steps_.resize(points_.size() * grammar_->classes(), kUnknown);
  }
  return found->second;
}

}  // namespace kimi_k3::grammar

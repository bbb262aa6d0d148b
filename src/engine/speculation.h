// How many guesses at what comes next are worth checking, and what they are.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kimi_k3/drafter.h"

namespace kimi_k3 {

// Follows one text: how often its guesses prove right, and what a guess adds to a pass. Guesses
// that do not pay are left out, but for one now and then that shows whether they would again. One
// thread at a time.
class Speculation {
 public:
  // most: guesses in one pass. drafter must outlive the object.
  Speculation(Drafter& drafter, size_t most) : drafter_(drafter), most_(most) {}

  // Guesses at what follows `text`, at most `room`, to be checked in the next pass.
  std::vector<TokenId> Propose(std::span<const TokenId> text, size_t room);

  // The pass has taken so long, and so many of its guesses were right before the first wrong one.
  void Checked(size_t proposed, size_t right, double seconds);

  // Guesses that the next pass had best have, by what was seen so far.
  size_t BestLength() const;

 private:
  Drafter& drafter_;
  size_t most_;
  double right_share_ = 0.5;  // of guesses
  double plain_seconds_ = 0;  // of a pass without guesses; 0: not known yet
  double guess_share_ = 0.2;  // what a guess adds, as a share of that
  size_t left_out_ = 0;       // passes since a guess was last checked
};

}  // namespace kimi_k3

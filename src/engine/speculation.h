// How many guesses at what comes next are worth checking, and what they are.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/pass_cost.h"
#include "kimi_k3/drafter.h"

namespace kimi_k3 {

// What a pass has without further guesses.
struct PassOutlook {
  size_t rows = 1;
  double tokens = 1;  // by which it will bring its texts further, as far as can be told
};

// Follows one text: how often its guesses prove right. Guesses that do not pay are left out, but
// for one now and then that shows whether they would again. One thread at a time.
class Speculation {
 public:
  // most: guesses in one pass. drafter must outlive the object.
  Speculation(Drafter& drafter, size_t most) : drafter_(drafter), most_(most) {}

  // Guesses at what follows `text`, at most `room`, to be checked in the next pass, whose outlook
  // then counts them.
  std::vector<TokenId> Propose(std::span<const TokenId> text, size_t room, const PassCost& cost,
                               PassOutlook& pass);

  // So many of the guesses of the pass were right before the first wrong one.
  void Checked(size_t proposed, size_t right);

  // Guesses that the next pass had best have, by what was seen so far: as long as one more brings
  // the texts of the pass further in the same time.
  size_t BestLength(const PassCost& cost, PassOutlook pass) const;

 private:
  Drafter& drafter_;
  size_t most_;
  double right_share_ = 0.5;  // of guesses
  size_t left_out_ = 0;       // passes since a guess was last checked
};

}  // namespace kimi_k3

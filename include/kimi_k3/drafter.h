// Guesses at what comes next in a text: several are checked in one pass over the weights.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {

// Proposes tokens. What it proposes never changes a text, only how many passes it takes. One thread
// at a time.
class Drafter {
 public:
  virtual ~Drafter() = default;

  // At most `most` tokens that may follow `text`, in order; none where it has no guess.
  virtual std::vector<TokenId> Propose(std::span<const TokenId> text, size_t most) = 0;
};

// Proposes what the text itself has said before: of the earlier places that end in the same tokens
// as the text does now, the one where most of them agree, at least two (of several the latest),
// tells what followed.
std::unique_ptr<Drafter> MakeNgramDrafter();

}  // namespace kimi_k3

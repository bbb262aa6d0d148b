// What limits the tokens of an answer to a form, such as JSON.
#pragma once

#include <span>

#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {

// Follows one answer token by token and says which tokens may come next. One thread at a time.
class OutputConstraint {
 public:
  virtual ~OutputConstraint() = default;

  // Sets the logit of every token that may not come next to -infinity. Special tokens never may;
  // after Complete() possibly nothing may. logits: one number for each token of the vocabulary.
  virtual void MaskLogits(std::span<float> logits) const = 0;

  // The token came; MaskLogits must have allowed it.
  virtual void Accept(TokenId token) = 0;

  // Whether the answer so far is whole: it may end here. More may be allowed all the same (a number
  // can go on).
  virtual bool Complete() const = 0;
};

}  // namespace kimi_k3

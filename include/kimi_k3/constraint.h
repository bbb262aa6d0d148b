// What limits the tokens of an answer to a form, such as JSON.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kimi_k3/chat.h"
#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {

// Follows one answer token by token and says which tokens may come next. One thread at a time.
class OutputConstraint {
 public:
  virtual ~OutputConstraint() = default;

  // Sets the logit of every token that may not come next to -infinity; some token always may until
  // the answer has ended. Tokens that end a text may where the answer is whole. logits: one number
  // for each token of the vocabulary. Takes milliseconds.
  virtual void MaskLogits(std::span<float> logits) = 0;

  // The token came; MaskLogits must have allowed it.
  virtual void Accept(TokenId token) = 0;

  // Whether the answer is whole and nothing may follow, or what follows is known: the closing tags
  // of a chat's turn.
  virtual bool Ended() const = 0;
};

// Makes constraints for one vocabulary. Every function may be called from any thread.
class ConstraintMaker {
 public:
  // The tokenizer must outlive the maker and its constraints. Cheap: what is needed of the
  // vocabulary is found out when the first constraint is made.
  explicit ConstraintMaker(const Tokenizer& tokenizer);
  ~ConstraintMaker();
  ConstraintMaker(const ConstraintMaker&) = delete;
  ConstraintMaker& operator=(const ConstraintMaker&) = delete;

  // A text that is one JSON value and nothing else: one that satisfies the schema (JSON text), or
  // any object where it is empty. docs/server.md tells which schemas are supported. name: what
  // messages call the schema. Throws Error(kUsage) that names the keyword by its path.
  std::unique_ptr<OutputConstraint> ForJson(std::string_view schema, const std::string& name) const;

  // A turn of the assistant, from where the prompt ends, as far as the request says what it must be
  // like: response_format; tool_choice, where a call is required; parameters of functions that are
  // `strict`. Its reasoning is free. Null where the request says nothing. start: as
  // RenderedChat::start. Throws as ForJson does.
  std::unique_ptr<OutputConstraint> ForTurn(const ChatRequest& request, Channel start) const;

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace kimi_k3

// What limits the tokens of an answer to a form, such as JSON.
#include "kimi_k3/constraint.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "grammar/matcher.h"
#include "grammar/token_trie.h"
#include "grammar/turn_grammar.h"
#include "text/json_value.h"

namespace kimi_k3 {
namespace {

using grammar::Matcher;
using grammar::TokenTrie;

constexpr float kForbidden = -std::numeric_limits<float>::infinity();
// Points that are kept from one token to the next, and the most that one mask may add to.
constexpr size_t kKeptPoints = 4096;
constexpr size_t kMostPoints = 65536;

class GrammarConstraint : public OutputConstraint {
 public:
  GrammarConstraint(const Tokenizer& tokenizer, std::shared_ptr<const TokenTrie> trie,
                    std::shared_ptr<const grammar::Grammar> form)
      : tokenizer_(tokenizer),
        trie_(std::move(trie)),
        matcher_(std::move(form)),
        point_(matcher_.start()) {}

  void MaskLogits(std::span<float> logits) override {
    if (matcher_.size() > kKeptPoints) matcher_.Forget({&point_, 1});
    allowed_.assign(logits.size(), false);
    AllowOrdinary();
    const ControlTokens& control = tokenizer_.control_tokens();
    for (const auto& [token, symbol] :
         {std::pair(control.open, grammar::kOpen), std::pair(control.close, grammar::kClose),
          std::pair(control.sep, grammar::kSep)}) {
      allowed_[static_cast<size_t>(token)] = matcher_.Step(point_, symbol) != Matcher::kDead;
    }
    if (matcher_.Complete(point_)) {
      for (const TokenId token : tokenizer_.StopTokens()) {
        allowed_[static_cast<size_t>(token)] = true;
      }
    }
    for (size_t i = 0; i < logits.size(); ++i) {
      if (!allowed_[i]) logits[i] = kForbidden;
    }
  }

  void Accept(TokenId token) override {
    const ControlTokens& control = tokenizer_.control_tokens();
    if (token < tokenizer_.first_special_id()) {
      AcceptText(tokenizer_.TokenBytes(token));
    } else if (token == control.open) {
      point_ = matcher_.Step(point_, grammar::kOpen);
    } else if (token == control.close) {
      point_ = matcher_.Step(point_, grammar::kClose);
    } else if (token == control.sep) {
      point_ = matcher_.Step(point_, grammar::kSep);
    }
  }

  bool Ended() const override { return matcher_.Complete(point_) && matcher_.IsLast(point_); }

  // False where the text may not come.
  bool AcceptText(std::string_view text) {
    for (const char c : text) point_ = matcher_.Step(point_, static_cast<uint8_t>(c));
    return point_ != Matcher::kDead;
  }

 private:
  // Walks over the tree of tokens; what no text goes on with is passed over whole.
  void AllowOrdinary() {
    path_.assign(trie_->longest() + 1, Matcher::kDead);
    path_[0] = point_;
    const std::span<const TokenTrie::Node> nodes = trie_->nodes();
    for (size_t i = 0; i < nodes.size();) {
      const TokenTrie::Node& node = nodes[i];
      const Matcher::Point next = matcher_.Step(path_[node.depth], node.byte);
      if (next == Matcher::kDead) {
        i = node.after;
        continue;
      }
      path_[node.depth + 1U] = next;
      if (node.token != TokenTrie::kNoToken) allowed_[static_cast<size_t>(node.token)] = true;
      if (matcher_.size() > kMostPoints) ForgetAllBut(node.depth + 2U);
      ++i;
    }
    point_ = path_[0];
  }

  // Keeps the first points of the path.
  void ForgetAllBut(size_t points) { matcher_.Forget(std::span(path_).first(points)); }

  const Tokenizer& tokenizer_;
  const std::shared_ptr<const TokenTrie> trie_;
  Matcher matcher_;
  Matcher::Point point_;
  std::vector<Matcher::Point> path_;  // after each byte of the token being looked at
  std::vector<bool> allowed_;         // of each token
};

}  // namespace

struct ConstraintMaker::Shared {
  const Tokenizer& tokenizer;
  std::once_flag once = {};
  std::shared_ptr<const TokenTrie> trie = {};

  std::unique_ptr<GrammarConstraint> Make(grammar::Grammar form) {
    std::call_once(once, [&] { trie = std::make_shared<const TokenTrie>(tokenizer); });
    return std::make_unique<GrammarConstraint>(
        tokenizer, trie, std::make_shared<const grammar::Grammar>(std::move(form)));
  }
};

ConstraintMaker::ConstraintMaker(const Tokenizer& tokenizer)
    : shared_(new Shared{.tokenizer = tokenizer}) {}
ConstraintMaker::~ConstraintMaker() = default;

std::unique_ptr<OutputConstraint> ConstraintMaker::ForJson(std::string_view schema,
                                                           const std::string& name) const {
  if (schema.empty()) return shared_->Make(grammar::JsonGrammar(nullptr, name));
  const text::JsonParseResult parsed = text::ParseJson(schema);
  if (!parsed.value) Fail(ErrorKind::kUsage, "{}: is {}", name, parsed.error);
  return shared_->Make(grammar::JsonGrammar(&*parsed.value, name));
}

std::unique_ptr<OutputConstraint> ConstraintMaker::ForTurn(const ChatRequest& request,
                                                           Channel start) const {
  if (!grammar::LimitsTurn(request)) return nullptr;
  auto constraint = shared_->Make(grammar::TurnGrammar(request, start));
  // What the client wrote of the answer must be the beginning of one.
  const bool begun =
      start == Channel::kResponse && !request.messages.empty() && request.messages.back().partial;
  if (begun) {
    for (const ContentPart& part : request.messages.back().content) {
      if (constraint->AcceptText(part.text)) continue;
      Fail(ErrorKind::kUsage,
           "messages[{}].content: the partial answer is not the beginning of what the request "
           "asks for",
           request.messages.size() - 1);
    }
  }
  return constraint;
}

}  // namespace kimi_k3

// How many guesses at what comes next are worth checking, and what they are.
#include "engine/speculation.h"

#include <algorithm>

namespace kimi_k3 {
namespace {

// Of the latest guess.
constexpr double kWeight = 0.15;

// Passes without a guess after which one is tried.
constexpr size_t kPassesToTrial = 32;

}  // namespace

size_t Speculation::BestLength(const PassCost& cost, PassOutlook pass) const {
  size_t length = 0;
  double likely = right_share_;  // that the next guess and all before it are right
  while (length < most_ && likely > pass.tokens * cost.RowShare(pass.rows)) {
    pass.tokens += likely;
    ++pass.rows;
    ++length;
    likely *= right_share_;
  }
  return length;
}

std::vector<TokenId> Speculation::Propose(std::span<const TokenId> text, size_t room,
                                          const PassCost& cost, PassOutlook& pass) {
  size_t length = BestLength(cost, pass);
  if (length == 0 && ++left_out_ >= kPassesToTrial) length = 1;
  length = std::min({length, room, most_});
  if (length == 0) return {};
  std::vector<TokenId> guesses = drafter_.Propose(text, length);
  if (guesses.size() > length) guesses.resize(length);
  if (!guesses.empty()) left_out_ = 0;
  double likely = right_share_;
  for (size_t i = 0; i < guesses.size(); ++i, likely *= right_share_) pass.tokens += likely;
  pass.rows += guesses.size();
  return guesses;
}

void Speculation::Checked(size_t proposed, size_t right) {
  const auto blend = [&](double seen) { right_share_ += kWeight * (seen - right_share_); };
  for (size_t i = 0; i < right; ++i) blend(1);
  if (right < proposed) blend(0);
}

}  // namespace kimi_k3

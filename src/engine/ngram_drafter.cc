// Guesses at what comes next in a text from what it has said before.
#include <algorithm>

#include "kimi_k3/drafter.h"

namespace kimi_k3 {
namespace {

constexpr size_t kLeastMatch = 2;
constexpr size_t kMostMatch = 32;  // longer ones are no surer

class NgramDrafter final : public Drafter {
 public:
  std::vector<TokenId> Propose(std::span<const TokenId> text, size_t most) override {
    size_t longest = kLeastMatch - 1;
    size_t follows = 0;  // where what followed begins; 0: nowhere
    for (size_t end = text.size(); most > 0 && end-- > 1 && longest < kMostMatch;) {
      const size_t match = MatchAt(text, end);
      if (match <= longest) continue;
      longest = match;
      follows = end;
    }
    if (follows == 0) return {};
    // Beyond the end of the text the repetition goes on with what it has just proposed.
    std::vector<TokenId> guesses;
    for (size_t at = follows; guesses.size() < most; ++at) {
      guesses.push_back(at < text.size() ? text[at] : guesses[at - text.size()]);
    }
    return guesses;
  }

 private:
  // How many tokens before `end` are those that the text ends with, as far as it matters.
  static size_t MatchAt(std::span<const TokenId> text, size_t end) {
    const size_t most = std::min(end, kMostMatch);
    size_t match = 0;
    while (match < most && text[end - 1 - match] == text[text.size() - 1 - match]) ++match;
    return match;
  }
};

}  // namespace

std::unique_ptr<Drafter> MakeNgramDrafter() { return std::make_unique<NgramDrafter>(); }

}  // namespace kimi_k3

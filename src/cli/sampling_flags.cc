// The flags that say how tokens are chosen: shared by every command that generates text.
#include "cli/sampling_flags.h"

#include <limits>

namespace kimi_k3 {

void AddSamplingFlags(FlagGroup& group, SamplingOptions& sampling,
                      const std::string& seed_default) {
  group.Number("--temp", "T", sampling.temperature,
               "Temperature; 0: always the likeliest token (greedy)");
  group.Count("--top-k", "K", sampling.top_k, "Draw from the K likeliest tokens; 0: from all");
  group.Number("--top-p", "P", sampling.top_p,
               "Draw from the likeliest tokens whose probabilities sum to P; 1: from all");
  group.Number("--min-p", "P", sampling.min_p,
               "Draw from tokens at least P times as likely as the likeliest; 0: from all");
  group.Number("--repeat-penalty", "X", sampling.repeat_penalty,
               "Make recent tokens less likely, X above 1; 1: off");
  group.Count("--repeat-last-n", "N", sampling.repeat_last, "How many tokens are recent; 0: all");
  Flag seed = group.Count("--seed", "N", sampling.seed, "Seed of the draws: same seed, same text",
                          0, std::numeric_limits<uint64_t>::max());
  if (!seed_default.empty()) seed.Default(seed_default);
}

void TakeGivenSampling(const CLI::App& app, const SamplingOptions& given, SamplingOptions& target) {
  const auto take = [&](const char* flag, auto member) {
    if (IsGiven(app, flag)) target.*member = given.*member;
  };
  take("--temp", &SamplingOptions::temperature);
  take("--top-k", &SamplingOptions::top_k);
  take("--top-p", &SamplingOptions::top_p);
  take("--min-p", &SamplingOptions::min_p);
  take("--repeat-penalty", &SamplingOptions::repeat_penalty);
  take("--repeat-last-n", &SamplingOptions::repeat_last);
  take("--seed", &SamplingOptions::seed);
}

}  // namespace kimi_k3

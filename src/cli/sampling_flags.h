// The flags that say how tokens are chosen: shared by every command that generates text.
#pragma once

#include "cli/flag_group.h"
#include "kimi_k3/sampling.h"

namespace kimi_k3 {

// Adds --temp to --seed to the group; what `sampling` holds is the default. It must outlive the
// parse. seed_default: shown in the help in place of the seed, where not empty.
void AddSamplingFlags(FlagGroup& group, SamplingOptions& sampling,
                      const std::string& seed_default = {});

// Takes over from `given` what flags of `app` were met in the parse.
void TakeGivenSampling(const CLI::App& app, const SamplingOptions& given, SamplingOptions& target);

}  // namespace kimi_k3

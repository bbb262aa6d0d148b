// A part of a model: which of its layers and routed experts are run.
#include "checkpoint/model_part.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "checkpoint/model_config.h"
#include "checkpoint/problem_list.h"

namespace kimi_k3 {
namespace {

[[noreturn]] void Refuse(std::string_view text) {
  Fail(ErrorKind::kUsage,
       "--shard: \"{}\" is not of the form layers=0-11,experts=0-63 (counted from 0, both ends "
       "included; either may be left out)",
       Printable(text));
}

// "A-B", digits alone.
IndexRange ParseRange(std::string_view range, std::string_view text) {
  IndexRange parsed;
  const char* const end = range.data() + range.size();
  const auto first = std::from_chars(range.data(), end, parsed.first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') Refuse(text);
  const auto last = std::from_chars(first.ptr + 1, end, parsed.last);
  if (last.ec != std::errc() || last.ptr != end || parsed.last == SIZE_MAX) {
    Refuse(text);
  }
  if (parsed.last < parsed.first) {
    Fail(ErrorKind::kUsage, "--shard: the range {} ends before it begins", range);
  }
  return parsed;
}

void CheckInside(const IndexRange& range, const char* what, size_t count) {
  if (range.last == SIZE_MAX || range.last < count) return;
  Fail(ErrorKind::kUsage,
       "--shard: {}={}-{} reaches beyond the model, which has {} {} (counted from 0)", what,
       range.first, range.last, count, what);
}

// How many experts can be chosen from in the worst case. A group with fewer than two of them has no
// score, so which of those are kept is left to chance.
size_t SureExperts(const ModelConfig& config) {
  const MoeConfig& moe = config.moe;
  if (moe.groups_kept >= moe.groups) return config.experts_present();
  const size_t group = moe.experts / moe.groups;
  std::vector<size_t> present;  // of each group that has two or more
  for (size_t g = 0; g < moe.groups; ++g) {
    size_t count = 0;
    for (size_t e = g * group; e < (g + 1) * group; ++e) {
      if (config.part.experts.Has(e)) ++count;
    }
    if (count >= 2) present.push_back(count);
  }
  std::sort(present.begin(), present.end());
  present.resize(std::min(present.size(), moe.groups_kept));
  size_t sure = 0;
  for (const size_t count : present) sure += count;
  return sure;
}

}  // namespace

ModelPart ParseModelPart(std::string_view text) {
  ModelPart part;
  bool layers = false;
  bool experts = false;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) Refuse(text);
    const std::string_view name = item.substr(0, equals);
    if (name != "layers" && name != "experts") Refuse(text);
    bool& given = name == "layers" ? layers : experts;
    if (given) Fail(ErrorKind::kUsage, "--shard: {}= is given twice", name);
    given = true;
    (name == "layers" ? part.layers : part.experts) = ParseRange(item.substr(equals + 1), text);
    if (comma == std::string_view::npos) return part;
    rest.remove_prefix(comma + 1);
  }
}

void CheckModelPart(const ModelPart& part, const ModelConfig& config) {
  CheckInside(part.layers, "layers", config.layers);
  CheckInside(part.experts, "experts", config.moe.experts);
  ModelConfig chosen = config;
  chosen.part = part;
  if (chosen.moe_layers() == 0) return;
  const size_t sure = SureExperts(chosen);
  if (sure >= config.moe.experts_per_token) return;
  if (chosen.experts_present() < config.moe.experts_per_token) {
    Fail(ErrorKind::kUsage,
         "--shard: {} expert{} of each layer are too few: every token goes to {}, so give a range "
         "of at least that many",
         chosen.experts_present(), chosen.experts_present() == 1 ? "" : "s",
         config.moe.experts_per_token);
  }
  Fail(ErrorKind::kUsage,
       "--shard: experts={}-{} leaves too few experts in the {} of {} groups that the router "
       "keeps: every token needs {}, and only {} are sure; give a range of whole groups of {}",
       part.experts.first, std::min(part.experts.last, config.moe.experts - 1),
       config.moe.groups_kept, config.moe.groups, config.moe.experts_per_token, sure,
       config.moe.experts / config.moe.groups);
}

std::string DescribeModelPart(const ModelConfig& config) {
  if (!config.is_part()) return "";
  std::string text = fmt::format("layers {}-{} of {}", config.first_layer(), config.end_layer() - 1,
                                 config.layers);
  if (config.experts_present() != config.moe.experts) {
    text +=
        fmt::format(", experts {}-{} of {}", config.part.experts.first,
                    config.part.experts.first + config.experts_present() - 1, config.moe.experts);
  }
  return text;
}

}  // namespace kimi_k3

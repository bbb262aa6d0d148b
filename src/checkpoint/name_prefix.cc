// Whether a checkpoint names its tensors with "language_model." in front: all alike.
#include "checkpoint/name_prefix.h"

#include "checkpoint/tensor_slots.h"

namespace kimi_k3 {

void NamePrefix::Note(bool prefixed, std::string_view name, ProblemList& problems) {
  std::string& first = prefixed ? prefixed_name_ : unprefixed_name_;
  if (!first.empty()) return;
  first = name;
  if (!prefixed_name_.empty() && !unprefixed_name_.empty()) {
    problems.Add("{}: some tensors are named with \"{}\" in front ({}) and some without ({})",
                 folders_, kNamePrefix, prefixed_name_, unprefixed_name_);
  }
}

std::string_view NamePrefix::Text(std::string_view expected) const {
  if (!prefixed_name_.empty()) return kNamePrefix;
  return unprefixed_name_.empty() ? expected : std::string_view();
}

}  // namespace kimi_k3

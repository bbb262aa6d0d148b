// Flags that several commands have alike.
#include "cli/shared_flags.h"

#include "base/error.h"

namespace kimi_k3 {

void AddEffortFlag(FlagGroup& group, std::optional<ThinkingEffort>& effort) {
  group.Value("--effort", "low|high|max", "How much to reason; the model's default is max",
              [&effort](const std::string& text) {
                effort = text == "low"    ? ThinkingEffort::kLow
                         : text == "high" ? ThinkingEffort::kHigh
                                          : ThinkingEffort::kMax;
                if (text != "low" && text != "high" && text != "max") {
                  Fail(ErrorKind::kUsage, "--effort: \"{}\" is not one of low, high, max", text);
                }
              });
}

void AddPathFlag(FlagGroup& group, const std::string& names, const std::string& value,
                 std::optional<std::filesystem::path>& target, const std::string& help) {
  group.Value(names, value, help, [names, &target](const std::string& text) {
    if (text.empty()) Fail(ErrorKind::kUsage, "{}: the name is empty", names);
    target = text;
  });
}

}  // namespace kimi_k3

// Flags that several commands have alike.
#include "cli/shared_flags.h"

#include "base/error.h"

namespace kimi_k3 {
namespace {

constexpr size_t kUsualGuesses = 4;
constexpr size_t kMostGuesses = 16;

}  // namespace

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

void AddDraftFlag(FlagGroup& group, size_t& guesses) {
  group
      .Value("--draft", "none|ngram[:K]",
             "Guess up to K tokens (4) from what the text has said before and check them in one "
             "pass; the text stays the same",
             [&guesses](const std::string& text) {
               const std::string kind = text.substr(0, text.find(':'));
               if ((kind != "none" && kind != "ngram") || (kind == "none" && text != kind)) {
                 Fail(ErrorKind::kUsage, "--draft: \"{}\" is not none, ngram or ngram:K", text);
               }
               guesses = kind == "none" ? 0 : kUsualGuesses;
               if (text != kind) {
                 guesses = ParseCount("--draft", text.substr(kind.size() + 1), 1, kMostGuesses);
               }
             })
      .Default("none");
}

void AddStopFlag(FlagGroup& group, std::vector<std::string>& stop) {
  group.Values("--stop", "TEXT", "End the answer before this text (may be repeated)",
               [&stop](const std::vector<std::string>& texts) {
                 for (const std::string& text : texts) {
                   if (text.empty()) Fail(ErrorKind::kUsage, "--stop: the text is empty");
                 }
                 stop = texts;
               });
}

void AddStateDirFlag(FlagGroup& group, EngineOptions& engine) {
  group.Value("--state-dir", "DIR",
              "Folder for the states of texts that memory has no room for; each pass reads and "
              "writes them, which wears a drive",
              [&engine](const std::string& text) {
                if (text.empty()) Fail(ErrorKind::kUsage, "--state-dir: the name is empty");
                engine.state_dir = text;
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

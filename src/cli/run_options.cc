// The options of the run command.
#include "cli/run_options.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/engine_flags.h"
#include "cli/flag_group.h"
#include "cli/sampling_flags.h"
#include "cli/session_flags.h"
#include "cli/shared_flags.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kMostTokens = std::numeric_limits<int64_t>::max();

std::vector<TokenId> ParseTokenIds(const std::string& text) {
  constexpr std::string_view kSeparators = " ,\t\r\n";
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  bool after_comma = false;
  while (at != end) {
    if (kSeparators.find(*at) != std::string_view::npos) {
      if (*at == ',' && (after_comma || ids.empty())) {
        Fail(ErrorKind::kUsage, "--token-ids: a number is missing before comma {} (write 1,2,3)",
             std::count(text.data(), at, ',') + 1);
      }
      after_comma = after_comma || *at == ',';
      ++at;
      continue;
    }
    TokenId id = 0;
    const auto [next, status] = std::from_chars(at, end, id);
    const bool ends_well = next == end || kSeparators.find(*next) != std::string_view::npos;
    if (status != std::errc() || id < 0 || !ends_well) {
      const std::string_view rest(at, static_cast<size_t>(end - at));
      Fail(ErrorKind::kUsage, "--token-ids: \"{}\" is not a token id (write them as 1,2,3)",
           rest.substr(0, std::min<size_t>(rest.find_first_of(kSeparators), 40)));
    }
    ids.push_back(id);
    after_comma = false;
    at = next;
  }
  if (ids.empty()) Fail(ErrorKind::kUsage, "--token-ids: the list is empty");
  return ids;
}

void AddPromptOptions(CLI::App& app, RunOptions& options) {
  FlagGroup group(app, "Prompt (one of the first three)");
  group.Text("-p,--prompt", "TEXT", options.prompt_text, "The prompt");
  group.Text("-f,--file", "FILE", options.prompt_file,
             "Read the prompt from a file (-: standard input)");
  group.Value("--token-ids", "1,2,3",
              "The prompt as token ids: no template, and no tokenizer needed",
              [&options](const std::string& text) { options.prompt_ids = ParseTokenIds(text); });
  group.Switch("--raw", options.raw, "Continue the prompt as it stands: no chat template");
  group.Text("--system", "TEXT", options.system, "A system message before the prompt");
  group.Switch("--no-thinking", options.no_thinking, "Ask for an answer without reasoning first");
  AddEffortFlag(group, options.effort);
  group.Switch("--hide-thinking", options.hide_thinking, "Print the answer without its reasoning");
}

void AddSamplingOptions(CLI::App& app, RunOptions& options) {
  FlagGroup group(app, "Generation");
  group
      .Value("-n,--predict", "N", "Tokens to generate at the most; 0: only compute the prompt",
             [&options](const std::string& text) {
               options.max_tokens = ParseCount("-n,--predict", text, 0, kMostTokens);
               options.max_tokens_given = true;
             })
      .Default(fmt::to_string(options.max_tokens));
  AddSamplingFlags(group, options.sampling);
  AddDraftFlag(group, options.engine.tentative_rows);
  AddStopFlag(group, options.stop);
  group.Switch("--ignore-eos", options.ignore_eos, "Go on where the model ends its text");
  group.Text("-j,--json-schema", "JSON", options.json_schema,
             "The answer is JSON that satisfies this schema; {}: any");
  group.Text("--json-schema-file", "FILE", options.json_schema_file,
             "The same with the schema from a file");
}

void AddSessionOptions(CLI::App& app, RunOptions& options) {
  FlagGroup group(app, "Session");
  AddSessionFlags(group, options.session_file, options.session_every);
  group.Switch("--resume", options.resume,
               "Go on with the answer in --session: print it from the beginning, then the rest");
}

void AddOutputOptions(CLI::App& app, RunOptions& options) {
  FlagGroup group(app, "Output");
  group.Switch("--print-ids", options.print_ids, "Print token ids instead of text");
  AddPathFlag(group, "--logits", "FILE.npy", options.logits_file,
              "Write the logits of every prompt position (NumPy, f32 [rows, vocabulary])");
  AddPathFlag(group, "--stats", "FILE.json", options.stats_file,
              "Write times, tokens and bytes of the run");
  group.Switch("-q,--quiet", options.quiet, "Nothing but the answer, errors and warnings");
}

// The first chat flag that is set, or nothing.
const char* ChatFlag(const RunOptions& options) {
  if (options.system) return "--system";
  if (options.no_thinking) return "--no-thinking";
  if (options.effort) return "--effort";
  if (options.hide_thinking) return "--hide-thinking";
  return nullptr;
}

void CheckPrompt(const RunOptions& options) {
  const int prompts = static_cast<int>(options.prompt_text.has_value()) +
                      static_cast<int>(options.prompt_file.has_value()) +
                      static_cast<int>(options.prompt_ids.has_value());
  // What a session without a prompt means is known when it has been read.
  if (prompts != 1 && (prompts != 0 || !options.session_file)) {
    Fail(ErrorKind::kUsage,
         "{}: give one of -p TEXT, -f FILE (-f - reads standard input) or --token-ids 1,2,3",
         prompts == 0 ? "there is no prompt" : "there is more than one prompt");
  }
  if (options.prompt_text && options.prompt_text->empty()) {
    Fail(ErrorKind::kUsage, "-p,--prompt: the prompt is empty");
  }
  const char* chat_flag = ChatFlag(options);
  if (chat_flag == nullptr) return;
  if (options.raw || options.prompt_ids) {
    Fail(ErrorKind::kUsage, "{} belongs to the chat template, which {} leaves out", chat_flag,
         options.raw ? "--raw" : "--token-ids");
  }
  if (options.no_thinking && options.effort) {
    Fail(ErrorKind::kUsage, "--effort says how much to think, --no-thinking not to: give one");
  }
}

void CheckSchema(const RunOptions& options) {
  if (!options.json_schema && !options.json_schema_file) return;
  if (options.json_schema && options.json_schema_file) {
    Fail(ErrorKind::kUsage, "--json-schema and --json-schema-file both give a schema: give one");
  }
  const char* flag = options.json_schema ? "--json-schema" : "--json-schema-file";
  if (options.json_schema && options.json_schema->empty()) {
    Fail(ErrorKind::kUsage, "--json-schema: is empty; {{}} is any JSON");
  }
  if (options.session_file) {
    Fail(ErrorKind::kUsage, "{} is not kept by --session: give one", flag);
  }
  if (options.ignore_eos) {
    Fail(ErrorKind::kUsage, "{} says where the answer ends, --ignore-eos not to: give one", flag);
  }
}

void CheckSession(const RunOptions& options) {
  if (!options.session_file) {
    if (options.resume) Fail(ErrorKind::kUsage, "--resume goes on with --session FILE: name it");
    return;
  }
  if (options.logits_file) {
    Fail(ErrorKind::kUsage,
         "--logits wants every position of the prompt, which --session may have behind it: give "
         "one");
  }
  if (options.stats_file &&
      options.session_file->lexically_normal() == options.stats_file->lexically_normal()) {
    Fail(ErrorKind::kUsage, "--session and --stats name the same file");
  }
}

}  // namespace

void AddRunOptions(CLI::App& app, RunOptions& options) {
  AddEngineFlags(app, options.engine);
  AddPromptOptions(app, options);
  AddSamplingOptions(app, options);
  AddSessionOptions(app, options);
  AddOutputOptions(app, options);
}

void CheckRunOptions(const RunOptions& options) {
  if (options.engine.model_dir.empty()) {
    Fail(ErrorKind::kUsage, "which model? Give the checkpoint's folder with -m DIR (see --help)");
  }
  CheckSession(options);
  CheckPrompt(options);
  CheckSchema(options);
  if (options.print_ids && !options.stop.empty()) {
    Fail(ErrorKind::kUsage, "--stop looks for text, but --print-ids prints token ids: give one");
  }
  if (options.print_ids && options.hide_thinking) {
    Fail(ErrorKind::kUsage, "--hide-thinking works on text, but --print-ids prints all token ids");
  }
  if (options.logits_file && options.stats_file &&
      options.logits_file->lexically_normal() == options.stats_file->lexically_normal()) {
    Fail(ErrorKind::kUsage, "--logits and --stats name the same file");
  }
  CheckSamplingOptions(options.sampling);
}

std::vector<std::string> RunOptionWarnings(const RunOptions& options) {
  std::vector<std::string> warnings;
  const SamplingOptions& sampling = options.sampling;
  const SamplingOptions defaults;
  const auto no_effect = [&](bool given, const char* flag, const char* why) {
    if (given) warnings.push_back(fmt::format("{} has no effect {}", flag, why));
  };
  if (sampling.temperature == 0) {
    constexpr const char* kGreedy = "without --temp above 0: the likeliest token is always taken";
    no_effect(sampling.top_k != defaults.top_k, "--top-k", kGreedy);
    no_effect(sampling.top_p != defaults.top_p, "--top-p", kGreedy);
    no_effect(sampling.min_p != defaults.min_p, "--min-p", kGreedy);
    no_effect(sampling.seed != defaults.seed, "--seed", kGreedy);
  }
  no_effect(sampling.repeat_last != defaults.repeat_last && sampling.repeat_penalty == 1.0F,
            "--repeat-last-n", "without --repeat-penalty");
  const size_t cores = UsableCores();
  if (options.engine.threads > cores) {
    warnings.push_back(fmt::format(
        "-t {} is more than the {} physical core{} this process may use: likely much slower",
        options.engine.threads, cores, cores == 1 ? "" : "s"));
  }
  return warnings;
}

}  // namespace kimi_k3

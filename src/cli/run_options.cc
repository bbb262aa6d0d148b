// The options of the run command.
#include "cli/run_options.h"

#include <charconv>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/flag_group.h"
#include "cli/model_flags.h"
#include "residency/stream_options.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kMostThreads = 1024;
constexpr uint64_t kMostPromptChunk = 65536;
constexpr uint64_t kMostPrefetchLayers = 10000;

uint64_t ReadSize(const std::string& flag, const std::string& text) {
  try {
    return ParseByteSize(text);
  } catch (const Error& error) {
    Fail(error.kind(), "{}: {}", flag, error.what());
  }
}

std::vector<TokenId> ParseTokenIds(const std::string& text) {
  constexpr std::string_view kSeparators = " ,\t\r\n";
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (kSeparators.find(*at) != std::string_view::npos) {
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
    at = next;
  }
  if (ids.empty()) Fail(ErrorKind::kUsage, "--token-ids: the list is empty");
  return ids;
}

void AddPath(FlagGroup& group, const std::string& names, const std::string& value,
             std::optional<std::filesystem::path>& target, const std::string& help) {
  group.Value(names, value, help, [names, &target](const std::string& text) {
    if (text.empty()) Fail(ErrorKind::kUsage, "{}: the name is empty", names);
    target = text;
  });
}

void AddEngineOptions(CLI::App& app, RunOptions& options) {
  FlagGroup group(app, "Model and machine");
  EngineOptions& engine = options.engine;
  AddModelFlags(group, engine);
  group
      .Count("-c,--context", "N", engine.context, "Positions that prompt and answer have room for",
             1)
      ->default_str("2048");
  group.Value(
      "--memory", "SIZE",
      "Most memory to use, such as 8G; without it what the machine has to spare",
      [&engine](const std::string& text) { engine.memory_bytes = ReadSize("--memory", text); });
  group
      .Value("--io", "WAY", "How weights are read: auto, direct, buffered or mmap",
             [&engine](const std::string& text) {
               ParseIoMode(text);
               engine.io = text;
             })
      ->default_str(engine.io);
  group.Value("--prefetch", "LAYERS",
              "Read at most this many layers ahead; without it as far as there is room",
              [&engine](const std::string& text) {
                engine.prefetch_layers = ParseCount("--prefetch", text, 0, kMostPrefetchLayers);
              });
  group.Value("--expert-cache", "SIZE",
              "Memory for experts that stay; without it what the plan leaves",
              [&engine](const std::string& text) {
                engine.expert_cache_bytes = ReadSize("--expert-cache", text);
              });
  group.Count("-t,--threads", "N", engine.threads, "Threads that compute; 0: one a physical core",
              0, kMostThreads);
  group.Count("--prompt-chunk", "N", engine.prompt_chunk,
              "Prompt positions computed in one pass over the weights; 0: as many as pay", 0,
              kMostPromptChunk);
  group.Choice<KvCacheType>("--kv-cache-quant",
                            {{"none", KvCacheType::kF32}, {"bf16", KvCacheType::kBf16}},
                            engine.kv_cache, "Type of the latent cache: none is f32 (default)");
  group
      .Value("--isa", "NAME", "Instruction set: auto, avx512, avx2 or neon",
             [&engine](const std::string& text) { engine.isa = text; })
      ->default_str(engine.isa);
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
  group.Value("--effort", "low|high|max", "How much to reason; the model's default is max",
              [&options](const std::string& text) {
                options.effort = text == "low"    ? ThinkingEffort::kLow
                                 : text == "high" ? ThinkingEffort::kHigh
                                                  : ThinkingEffort::kMax;
                if (text != "low" && text != "high" && text != "max") {
                  Fail(ErrorKind::kUsage, "--effort: \"{}\" is not one of low, high, max", text);
                }
              });
  group.Switch("--hide-thinking", options.hide_thinking, "Print the answer without its reasoning");
}

void AddSamplingOptions(CLI::App& app, RunOptions& options) {
  FlagGroup group(app, "Generation");
  SamplingOptions& sampling = options.sampling;
  group.Count("-n,--predict", "N", options.max_tokens,
              "Tokens to generate at the most; 0: only compute the prompt");
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
  group.Count("--seed", "N", sampling.seed, "Seed of the draws: same seed, same text", 0,
              std::numeric_limits<uint64_t>::max());
  group.Texts("--stop", "TEXT", options.stop, "End the answer before this text (may be repeated)");
  group.Switch("--ignore-eos", options.ignore_eos, "Go on where the model ends its text");
}

void AddOutputOptions(CLI::App& app, RunOptions& options) {
  FlagGroup group(app, "Output");
  group.Switch("--print-ids", options.print_ids, "Print token ids instead of text");
  AddPath(group, "--logits", "FILE.npy", options.logits_file,
          "Write the logits of every prompt position (NumPy, f32 [rows, vocabulary])");
  AddPath(group, "--stats", "FILE.json", options.stats_file,
          "Write times, tokens and bytes of the run");
  group.Switch("-q,--quiet", options.quiet, "Nothing but the answer, and errors");
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
  if (prompts != 1) {
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

}  // namespace

void AddRunOptions(CLI::App& app, RunOptions& options) {
  AddEngineOptions(app, options);
  AddPromptOptions(app, options);
  AddSamplingOptions(app, options);
  AddOutputOptions(app, options);
}

void CheckRunOptions(const RunOptions& options) {
  if (options.engine.model_dir.empty()) {
    Fail(ErrorKind::kUsage, "which model? Give the checkpoint's folder with -m DIR (see --help)");
  }
  CheckPrompt(options);
  if (options.print_ids && !options.stop.empty()) {
    Fail(ErrorKind::kUsage, "--stop looks for text, but --print-ids prints token ids: give one");
  }
  if (options.print_ids && options.hide_thinking) {
    Fail(ErrorKind::kUsage, "--hide-thinking works on text, but --print-ids prints all token ids");
  }
  for (const std::string& stop : options.stop) {
    if (stop.empty()) Fail(ErrorKind::kUsage, "--stop: the text is empty");
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
    warnings.push_back(
        fmt::format("-t {} is more than the {} physical core{} this process may use: likely slower",
                    options.engine.threads, cores, cores == 1 ? "" : "s"));
  }
  return warnings;
}

}  // namespace kimi_k3

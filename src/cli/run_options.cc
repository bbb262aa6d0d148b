// The options of the run command.
#include "cli/run_options.h"

#include <charconv>
#include <map>

#include "base/error.h"

namespace kimi_k3 {
namespace {

std::vector<TokenId> ParseTokenIds(const std::string& text) {
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at == ' ' || *at == ',' || *at == '\n') {
      ++at;
      continue;
    }
    TokenId id = 0;
    const auto [next, status] = std::from_chars(at, end, id);
    const bool ends_well = next == end || *next == ' ' || *next == ',' || *next == '\n';
    if (status != std::errc() || id < 0 || !ends_well) {
      throw CLI::ValidationError("--token-ids",
                                 "\"" + text + "\" is not a list of token ids such as 1,2,3");
    }
    ids.push_back(id);
    at = next;
  }
  return ids;
}

void AddPromptOptions(CLI::App& app, RunOptions& options) {
  const std::string group = "Prompt";
  app.add_option("-p,--prompt", options.prompt_text, "The prompt")->group(group);
  app.add_option("-f,--file", options.prompt_file,
                 "Read the prompt from a file (-: standard input)")
      ->group(group);
  app.add_option_function<std::string>(
         "--token-ids",
         [&options](const std::string& text) { options.prompt_ids = ParseTokenIds(text); },
         "The prompt as token ids, such as 1,2,3; needs no tokenizer and no template")
      ->group(group);
  app.add_flag("--raw", options.raw, "Continue the prompt as it stands: no chat template")
      ->group(group);
  app.add_option("--system", options.system, "A system message before the prompt")->group(group);
  app.add_flag("--no-thinking", options.no_thinking, "Ask for an answer without reasoning first")
      ->group(group);
  app.add_option("--effort", options.effort, "How much to reason: low, high or max (default)")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, ThinkingEffort>{{"low", ThinkingEffort::kLow},
                                                {"high", ThinkingEffort::kHigh},
                                                {"max", ThinkingEffort::kMax}}))
      ->type_name("low|high|max")
      ->group(group);
  app.add_flag("--hide-thinking", options.hide_thinking, "Print the answer without its reasoning")
      ->group(group);
}

void AddSamplingOptions(CLI::App& app, RunOptions& options) {
  const std::string group = "Generation";
  SamplingOptions& sampling = options.sampling;
  app.add_option("-n,--predict", options.max_tokens, "Tokens to generate at the most")
      ->capture_default_str()
      ->group(group);
  app.add_option("--temp", sampling.temperature, "Temperature; 0 is greedy")
      ->capture_default_str()
      ->group(group);
  app.add_option("--top-k", sampling.top_k, "Draw from the K most likely tokens; 0: from all")
      ->capture_default_str()
      ->group(group);
  app.add_option("--top-p", sampling.top_p, "Draw from the most likely tokens that sum to P")
      ->capture_default_str()
      ->group(group);
  app.add_option("--min-p", sampling.min_p,
                 "Draw from tokens at least P times as likely as the likeliest")
      ->capture_default_str()
      ->group(group);
  app.add_option("--repeat-penalty", sampling.repeat_penalty,
                 "Make recent tokens less likely; 1: off")
      ->capture_default_str()
      ->group(group);
  app.add_option("--repeat-last-n", sampling.repeat_last, "How many tokens are recent; 0: all")
      ->capture_default_str()
      ->group(group);
  app.add_option("--seed", sampling.seed, "Seed: same seed, same text")
      ->capture_default_str()
      ->group(group);
  app.add_option("--stop", options.stop, "End the answer before this text (may be repeated)")
      ->allow_extra_args(false)
      ->group(group);
  app.add_flag("--ignore-eos", options.ignore_eos, "Go on after the model ends its text")
      ->group(group);
}

void AddEngineOptions(CLI::App& app, RunOptions& options) {
  const std::string group = "Model and machine";
  EngineOptions& engine = options.engine;
  app.add_option("-m,--model", engine.model_dir, "The checkpoint's folder, as downloaded")
      ->group(group);
  app.add_option("-c,--context", engine.context, "Positions that prompt and answer have room for")
      ->capture_default_str()
      ->group(group);
  app.add_option("-t,--threads", engine.threads, "Threads; 0: the physical cores")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024))
      ->group(group);
  app.add_option("--prompt-chunk", engine.prompt_chunk,
                 "Prompt positions computed in one pass; 0: as many as pay")
      ->capture_default_str()
      ->check(CLI::Range(0, 65536))
      ->group(group);
  app.add_option("--kv-cache-quant", engine.kv_cache,
                 "Type of the latent cache: none (f32) or bf16")
      ->transform(CLI::CheckedTransformer(std::map<std::string, KvCacheType>{
          {"none", KvCacheType::kF32}, {"bf16", KvCacheType::kBf16}}))
      ->type_name("none|bf16")
      ->group(group);
  app.add_option("--isa", engine.isa, "Instruction set: auto, avx512, avx2 or neon")
      ->capture_default_str()
      ->group(group);
}

void AddOutputOptions(CLI::App& app, RunOptions& options) {
  const std::string group = "Output";
  app.add_flag("--print-ids", options.print_ids, "Print token ids instead of text")->group(group);
  app.add_option("--logits", options.logits_file,
                 "Write the logits of every prompt position to a NumPy file")
      ->group(group);
  app.add_option("--stats", options.stats_file, "Write times and bytes of the run to a JSON file")
      ->group(group);
  app.add_flag("-q,--quiet", options.quiet, "Nothing but the answer, and errors")->group(group);
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
  const int prompts = static_cast<int>(options.prompt_text.has_value()) +
                      static_cast<int>(options.prompt_file.has_value()) +
                      static_cast<int>(options.prompt_ids.has_value());
  if (prompts != 1) {
    Fail(ErrorKind::kUsage, "give one prompt: -p TEXT, -f FILE or --token-ids 1,2,3{}",
         prompts == 0 ? "" : " (there are several)");
  }
  CheckSamplingOptions(options.sampling);
}

}  // namespace kimi_k3

// The compare command: what an approximation costs in quality and gains in speed, measured.
#include "cli/compare_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "cli/engine_flags.h"
#include "cli/flag_group.h"
#include "cli/interrupt.h"
#include "cli/logits_comparison.h"
#include "cli/logits_file.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/prompt_input.h"
#include "engine/engine_plan.h"
#include "kimi_k3/generation.h"
#include "kimi_k3/utf8.h"

namespace kimi_k3 {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr uint64_t kOtherBytes = uint64_t{8} << 20;  // the text and a row of logits
constexpr size_t kSpeedPrompt = 16;                  // tokens before those whose time is taken

// The text as the model reads it: windows of at most a context's length, each begun anew.
struct ComparedText {
  std::string name;
  std::vector<TokenId> ids;
  uint64_t bytes = 0;  // of all tokens but the first, which nothing predicts
  size_t positions() const { return ids.size() - 1; }
};

struct SettingResult {
  std::string name;  // empty: the exact run, which the others are compared with
  LogitsComparison comparison;
  double seconds_per_token = 0;
  uint64_t bytes_per_token = 0;
};

double BitsPerByte(const SettingResult& result, const ComparedText& text) {
  return result.comparison.bits() / static_cast<double>(text.bytes);
}

ComparedText ReadText(const CompareOptions& options, const Engine& engine, Output& output) {
  ComparedText text = {.name = *options.text_file, .ids = {}, .bytes = 0};
  const std::string read = ReadPromptText(*options.text_file);
  if (!IsValidUtf8(read)) {
    output.Note(
        fmt::format("{}: is not valid UTF-8: each broken part is read as U+FFFD", text.name));
  }
  text.ids = engine.tokenizer().Encode(read, SpecialText::kPlain);
  if (text.ids.size() > options.tokens) text.ids.resize(options.tokens);
  if (text.ids.size() < 2) {
    Fail(ErrorKind::kUsage, "{}: a text of at least two tokens is needed", text.name);
  }
  for (const TokenId id : std::span(text.ids).subspan(1)) {
    text.bytes += engine.tokenizer().TokenBytes(id).size();
  }
  return text;
}

// One engine at a time goes through the text; the first is the exact one, whose logits are kept.
class Comparison {
 public:
  Comparison(const CompareOptions& options, Output& output) : options_(options), output_(output) {}

  void Run(const EngineOptions& given) {
    EngineOptions wanted = given;
    wanted.all_prompt_logits = true;
    wanted.reserved_bytes += kOtherBytes;
    output_.Status(fmt::format("opening {}", options_.engine.model_dir.string()));
    Engine engine = Engine::Open(wanted);
    const EngineInterrupt interrupt(engine);
    output_.Note(engine.Description());
    if (results_.empty()) Begin(engine);
    SettingResult result;
    if (!results_.empty()) result.name = NameOf(engine, wanted);
    Predict(engine, result);
    Decode(engine, result);
    output_.ClearStatus();
    results_.push_back(std::move(result));
  }

  const std::vector<SettingResult>& results() const { return results_; }
  const ComparedText& text() const { return text_; }
  size_t window() const { return window_; }

 private:
  void Begin(const Engine& engine) {
    text_ = ReadText(options_, engine, output_);
    window_ = engine.context();
    kept_.emplace(options_.scratch, text_.positions(), engine.vocabulary());
    exact_row_.resize(engine.vocabulary());
  }

  void Predict(Engine& engine, SettingResult& result) {
    Sequence sequence = engine.NewSequence();
    const bool exact = results_.empty();
    for (size_t at = 0; at < text_.positions(); at += window_) {
      const size_t rows = std::min(window_, text_.positions() - at);
      sequence.Reset();
      GenerationOptions generation = {
          .max_tokens = 1, .sampling = {.temperature = 0}, .ignore_eos = true};
      generation.on_prompt_logits = [&](size_t row, std::span<const float> logits) {
        const TokenId next = text_.ids[at + row + 1];
        if (exact) {
          kept_->Write(at + row, logits);
          result.comparison.Add(logits, next);
        } else {
          kept_->Read(at + row, exact_row_);
          result.comparison.Add(logits, next, exact_row_);
        }
      };
      generation.on_prompt_progress = [&](size_t done) {
        if (!output_.WantsStatus()) return;
        output_.Status(fmt::format("{}: {} of {} tokens of the text", exact ? "exact" : result.name,
                                   at + done, text_.positions()));
      };
      Continue(engine, sequence, std::span(text_.ids).subspan(at, rows), generation, [] {});
    }
  }

  void Decode(Engine& engine, SettingResult& result) {
    if (options_.decode == 0) return;
    Sequence sequence = engine.NewSequence();
    const size_t room = engine.context() - std::min(engine.context(), options_.decode);
    const size_t prompt = std::clamp<size_t>(room, 1, std::min(kSpeedPrompt, text_.ids.size()));
    std::optional<Clock::time_point> start;
    EngineCounters before;
    size_t tokens = 0;
    Continue(
        engine, sequence, std::span(text_.ids).first(prompt),
        {.max_tokens = options_.decode + 1, .sampling = {.temperature = 0}, .ignore_eos = true},
        [&] {
          if (start) ++tokens;
          if (start) return;
          start = Clock::now();
          before = engine.counters();
        });
    if (tokens == 0) return;
    result.seconds_per_token = SecondsSince(*start) / static_cast<double>(tokens);
    result.bytes_per_token = (engine.counters().bytes_read() - before.bytes_read()) / tokens;
  }

  static void Continue(Engine& engine, Sequence& sequence, std::span<const TokenId> prompt,
                       const GenerationOptions& generation, const std::function<void()>& on_token) {
    const GenerationResult result = Generate(engine, sequence, prompt, generation, [&](TokenId) {
      on_token();
      return true;
    });
    if (result.reason == StopReason::kInterrupted) Fail(ErrorKind::kInterrupted, "interrupted");
  }

  static std::string NameOf(const Engine& engine, const EngineOptions& options) {
    std::string flags = engine.approximations();
    if (options.overlay_dir.empty() || flags.find("--overlay") != std::string::npos) return flags;
    return flags + (flags.empty() ? "" : " ") + "--overlay lossless";
  }

  const CompareOptions& options_;
  Output& output_;
  ComparedText text_;
  size_t window_ = 0;
  std::optional<LogitsFile> kept_;
  std::vector<float> exact_row_;
  std::vector<SettingResult> results_;
};

Json ToJson(const Comparison& comparison) {
  const ComparedText& text = comparison.text();
  Json settings = Json::array();
  for (const SettingResult& result : comparison.results()) {
    Json setting = {{"approximations", result.name}, {"bits_per_byte", BitsPerByte(result, text)}};
    if (!result.name.empty()) {
      setting["kl_divergence"] = result.comparison.mean_divergence();
      setting["largest_kl_divergence"] = result.comparison.largest_divergence();
      setting["same_first_choice"] = result.comparison.same_first_choice();
    }
    if (result.seconds_per_token > 0) {
      setting["tokens_per_second"] = 1 / result.seconds_per_token;
      setting["bytes_read_per_token"] = result.bytes_per_token;
    }
    settings.push_back(std::move(setting));
  }
  return {{"text", text.name},
          {"tokens", text.ids.size()},
          {"bytes", text.bytes},
          {"window", comparison.window()},
          {"settings", std::move(settings)}};
}

std::string ToTable(const Comparison& comparison) {
  const ComparedText& text = comparison.text();
  const std::vector<SettingResult>& results = comparison.results();
  size_t width = 7;
  for (const SettingResult& result : results) width = std::max(width, result.name.size());
  const bool with_speed = std::ranges::any_of(
      results, [](const SettingResult& result) { return result.seconds_per_token > 0; });
  std::string table = fmt::format(
      "{}: {} tokens in windows of {}\n{:{}}  bits a byte  to exact  KL, mean   largest  same "
      "first{}\n",
      text.name, text.ids.size(), comparison.window(), "setting", width,
      with_speed ? "  tokens/s  read a token" : "");
  const double exact_bits = BitsPerByte(results.front(), text);
  for (const SettingResult& result : results) {
    const double bits = BitsPerByte(result, text);
    table +=
        fmt::format("{:{}}  {:>11.5f}", result.name.empty() ? "exact" : result.name, width, bits);
    if (result.name.empty()) {
      table += fmt::format("  {:>8}  {:>8}  {:>8}  {:>10}", "", "", "", "");
    } else {
      table +=
          fmt::format("  {:>+7.2f}%  {:>8.2g}  {:>8.2g}  {:>9.2f}%", 100 * (bits / exact_bits - 1),
                      result.comparison.mean_divergence(), result.comparison.largest_divergence(),
                      100 * result.comparison.same_first_choice());
    }
    if (result.seconds_per_token > 0) {
      table += fmt::format("  {:>8.3g}  {:>12}", 1 / result.seconds_per_token,
                           FormatByteSize(result.bytes_per_token));
    }
    table += '\n';
  }
  return table;
}

// The exact settings first, then what is compared with them.
std::vector<EngineOptions> SettingsOf(const CompareOptions& options) {
  std::vector<EngineOptions> settings = {WithoutApproximations(options.engine)};
  if (HasApproximations(options.engine)) settings.push_back(options.engine);
  for (const std::string& flags : options.others) {
    EngineOptions& setting = settings.emplace_back(settings.front());
    try {
      ReadFlags("--with", flags, [&](CLI::App& app) {
        FlagGroup group(app, "Approximations");
        AddApproximationFlags(group, setting);
      });
    } catch (const Error& error) {
      Fail(error.kind(),
           "{}\n--with takes --kv-cache-quant, --state-type, --experts-per-token and --overlay; "
           "other flags hold for all settings and stand outside it",
           error.what());
    }
    if (!HasApproximations(setting)) {
      Fail(ErrorKind::kUsage, "--with \"{}\": this is the exact model", flags);
    }
  }
  if (settings.size() == 1) {
    Fail(ErrorKind::kUsage,
         "compare what? Give approximations, such as --experts-per-token 8, or several settings, "
         "each with --with \"FLAGS\"");
  }
  return settings;
}

void AddOptions(CLI::App& command, CompareOptions& options) {
  FlagGroup group(command, "Compare");
  group.Text("-f,--file", "FILE", options.text_file, "The text (-: standard input)");
  group.Texts("--with", "\"FLAGS\"", options.others,
              "A further setting to compare, such as \"--experts-per-token 8\"");
  group.Count("--tokens", "N", options.tokens, "Tokens of the text to take, at the most", 2);
  group.Count("-n,--predict", "N", options.decode,
              "Tokens to generate for the speed; 0: it is not measured", 0, 65536);
  group
      .Value("--scratch", "DIR",
             "Where the exact run's logits lie meanwhile, 4 bytes a token of text and vocabulary",
             [&options](const std::string& text) { options.scratch = text; })
      .Default(".");
  group.Switch("--json", options.json, "Write JSON");
  group.Switch("-q,--quiet", options.quiet, "Say nothing on standard error but errors");
  AddEngineFlags(command, options.engine);
}

}  // namespace

void RunCompare(const CompareOptions& options, std::ostream& out) {
  if (options.engine.model_dir.empty()) {
    Fail(ErrorKind::kUsage, "which model? Give the checkpoint's folder with -m DIR");
  }
  if (!options.text_file) Fail(ErrorKind::kUsage, "which text? Give a file with -f FILE");
  const std::vector<EngineOptions> settings = SettingsOf(options);
  const InterruptGuard interrupts;
  Output output(options.quiet);
  Comparison comparison(options, output);
  const auto write = [&] {
    out << (options.json ? ToJson(comparison).dump(2) + "\n" : ToTable(comparison)) << std::flush;
    if (!out) Fail(ErrorKind::kIo, "cannot write the comparison");
  };
  // What cannot be opened is told of before hours go into the first.
  for (const EngineOptions& setting : settings) OpenCheckpoint(setting);
  try {
    for (const EngineOptions& setting : settings) comparison.Run(setting);
  } catch (const Error&) {
    output.ClearStatus();
    if (comparison.results().size() > 1) write();
    throw;
  }
  write();
}

void AddCompareCommand(CLI::App& app) {
  CLI::App& command = AddCommand(
      app, "compare", "What approximations cost in quality and gain in speed, measured on a text");
  const auto options = std::make_shared<CompareOptions>();
  AddOptions(command, *options);
  OnCommand(command, [options] { RunCompare(*options, std::cout); });
}

}  // namespace kimi_k3

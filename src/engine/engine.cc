// The engine: a checkpoint opened for running, and the sequences that run through it.
#include "kimi_k3/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "kernels/isa.h"
#include "model/sequence_state.h"
#include "model/transformer.h"
#include "residency/mapped_stream.h"

namespace kimi_k3 {
namespace {

// Rows of a prompt chunk where nothing else is asked for.
constexpr size_t kDefaultPromptChunk = 64;
// The most that may be asked for: far beyond what pays, and no size computed from it overflows.
constexpr size_t kMostPromptChunk = 65536;

kernels::CacheType CacheTypeOf(KvCacheType type) {
  return type == KvCacheType::kBf16 ? kernels::CacheType::kBf16 : kernels::CacheType::kF32;
}

}  // namespace

struct Sequence::State {
  State(const ModelConfig& config, size_t context, kernels::CacheType cache)
      : state(config, context, cache) {}
  SequenceState state;
  std::vector<TokenId> tokens;
  bool intact = true;
};

Sequence::Sequence(std::unique_ptr<State> state) : state_(std::move(state)) {}
Sequence::Sequence(Sequence&&) noexcept = default;
Sequence& Sequence::operator=(Sequence&&) noexcept = default;
Sequence::~Sequence() = default;

std::span<const TokenId> Sequence::tokens() const { return state_->tokens; }
size_t Sequence::room() const { return state_->state.max_positions() - state_->state.positions(); }
bool Sequence::intact() const { return state_->intact; }

void Sequence::Reset() {
  state_->state.Reset();
  state_->tokens.clear();
  state_->intact = true;
}

struct Engine::Parts {
  explicit Parts(const EngineOptions& engine_options)
      : options(engine_options),
        checkpoint(Checkpoint::Open(options.model_dir)),
        pool(options.threads != 0 ? options.threads : UsableCores()),
        weights(MakeMappedStream(checkpoint)),
        transformer(checkpoint.config(), *weights, pool,
                    options.prompt_chunk != 0 ? options.prompt_chunk : kDefaultPromptChunk) {}

  EngineOptions options;
  Checkpoint checkpoint;
  ThreadPool pool;
  std::unique_ptr<WeightStream> weights;
  Transformer transformer;
  std::optional<Tokenizer> tokenizer;
  std::function<void(const PassProgress&)> progress;
  std::atomic<bool> interrupted{false};
  EngineCounters counters;
};

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Engine Engine::Open(const EngineOptions& options) {
  if (options.context == 0) Fail(ErrorKind::kUsage, "the context must have at least 1 position");
  if (options.prompt_chunk > kMostPromptChunk) {
    Fail(ErrorKind::kUsage, "a prompt chunk has at most {} rows, not {}", kMostPromptChunk,
         options.prompt_chunk);
  }
  kernels::UseIsa(options.isa);
  auto parts = std::make_unique<Parts>(options);
  const size_t most_positions = parts->checkpoint.config().max_positions;
  if (most_positions != 0 && options.context > most_positions) {
    Fail(ErrorKind::kUsage,
         "a context of {} positions is more than this model has, {}: ask for a smaller one (-c)",
         options.context, most_positions);
  }
  return Engine(std::move(parts));
}

size_t Engine::vocabulary() const { return parts_->checkpoint.config().vocabulary; }
size_t Engine::context() const { return parts_->options.context; }
size_t Engine::max_rows() const { return parts_->transformer.max_rows(); }
size_t Engine::layers() const { return parts_->checkpoint.config().layers; }
size_t Engine::threads() const { return parts_->pool.threads(); }

std::string Engine::Description() const {
  const ModelConfig& config = parts_->checkpoint.config();
  return fmt::format("{}, {} layers, {:.2f} GB on disk; {} with {} thread{}", config.model_type,
                     config.layers, static_cast<double>(parts_->checkpoint.tensor_bytes()) / 1e9,
                     kernels::CurrentIsa(), threads(), threads() == 1 ? "" : "s");
}

const Tokenizer& Engine::tokenizer() {
  if (!parts_->tokenizer) {
    parts_->tokenizer =
        Tokenizer::Load(parts_->options.model_dir, static_cast<TokenId>(vocabulary()));
  }
  return *parts_->tokenizer;
}

std::vector<TokenId> Engine::StopTokens() {
  if (std::filesystem::exists(parts_->options.model_dir / "tiktoken.model")) {
    return tokenizer().StopTokens();
  }
  const std::optional<int64_t> eos = parts_->checkpoint.config().eos_token_id;
  return eos ? std::vector<TokenId>{static_cast<TokenId>(*eos)} : std::vector<TokenId>{};
}

Sequence Engine::NewSequence() const {
  return Sequence(std::make_unique<Sequence::State>(parts_->checkpoint.config(), context(),
                                                    CacheTypeOf(parts_->options.kv_cache)));
}

void Engine::Forward(std::span<const PassRow> rows, std::span<float> logits) {
  std::vector<Row> model_rows;
  model_rows.reserve(rows.size());
  for (const PassRow& row : rows) {
    if (!row.sequence->intact()) {
      Fail(ErrorKind::kRun,
           "this text's state was lost when an earlier pass failed; start it anew");
    }
    model_rows.push_back({.sequence = &row.sequence->state_->state,
                          .token = row.token,
                          .wants_logits = row.wants_logits});
  }
  parts_->transformer.CheckRows(model_rows, logits.size());
  for (const PassRow& row : rows) row.sequence->state_->intact = false;
  parts_->transformer.SetLayerObserver([&](size_t layer) {
    if (interrupted()) Fail(ErrorKind::kInterrupted, "interrupted");
    if (parts_->progress) {
      parts_->progress({.layer = layer + 1, .layers = layers(), .rows = rows.size()});
    }
  });
  parts_->transformer.Forward(model_rows, logits);
  for (const PassRow& row : rows) {
    row.sequence->state_->intact = true;
    row.sequence->state_->tokens.push_back(row.token);
  }
  ++parts_->counters.passes;
  parts_->counters.rows += rows.size();
}

void Engine::SetProgress(std::function<void(const PassProgress&)> progress) {
  parts_->progress = std::move(progress);
}

void Engine::Interrupt() { parts_->interrupted.store(true, std::memory_order_relaxed); }
void Engine::ClearInterrupt() { parts_->interrupted.store(false, std::memory_order_relaxed); }
bool Engine::interrupted() const { return parts_->interrupted.load(std::memory_order_relaxed); }

EngineCounters Engine::counters() const {
  EngineCounters counters = parts_->counters;
  counters.barriers = parts_->pool.barriers();
  return counters;
}

}  // namespace kimi_k3

// The engine: a checkpoint opened for running, and the sequences that run through it.
#include "kimi_k3/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/process_meter.h"
#include "engine/cache_type.h"
#include "engine/engine_parts.h"
#include "engine/engine_plan.h"
#include "kernels/isa.h"

namespace kimi_k3 {

Sequence::State::State(const ModelConfig& config, const EngineOptions& options,
                       std::shared_ptr<SequenceCount> alive_count,
                       std::shared_ptr<StateMover> mover)
    : moved(mover ? std::make_unique<MovedState>(std::move(mover)) : nullptr),
      state(config, options.context, CacheTypeOf(options.kv_cache), options.tentative_rows,
            StateTypeOf(options.state_type),
            moved ? SequenceState::Home::kPlaced : SequenceState::Home::kOwn),
      alive(std::move(alive_count)) {
  ++(moved ? alive->on_disk : alive->in_memory);
}

Sequence::State::~State() { --(moved ? alive->on_disk : alive->in_memory); }

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
  state_->tentative.clear();
  state_->intact = true;
}

namespace {

IoOptions MakeIoOptions(const EngineOptions& options, const std::atomic<bool>& stop) {
  IoOptions io;
  io.mode = ParseIoMode(options.io);
  io.prefetch_layers = options.prefetch_layers;
  io.stop = &stop;
  return io;
}

std::shared_ptr<StateMover> MakeStateMover(const ModelConfig& config, const EngineOptions& options,
                                           const MemoryPlan& plan) {
  std::error_code ignored;
  if (!options.state_dir.empty() && !std::filesystem::is_directory(options.state_dir, ignored)) {
    Fail(ErrorKind::kIo, "{}: is no folder that could hold states (--state-dir)",
         options.state_dir.string());
  }
  const size_t on_disk = options.sequences - plan.sequences_in_memory;
  if (on_disk == 0) return nullptr;
  return std::make_shared<StateMover>(config, MakeStateLayout(config, options), options.state_dir,
                                      on_disk);
}

MemoryPlan MakePlan(const Checkpoint& checkpoint, const EngineOptions& options) {
  const uint64_t resident = ReadProcessMeters().resident_bytes;
  MemoryPlan plan = MakeMemoryPlan(checkpoint, MakePlanRequest(checkpoint, options, resident));
  CheckAvailable(plan, ReadMemoryLimit(resident));
  return plan;
}

// The runs of rows whose sequences' states are moved.
std::vector<MovedRun> MovedRuns(std::span<const PassRow> rows, const auto& parts_of) {
  std::vector<MovedRun> runs;
  for (const PassRow& row : rows) {
    auto& parts = parts_of(row);
    if (!parts.moved) continue;
    if (runs.empty() || runs.back().moved != parts.moved.get()) {
      runs.push_back({.moved = parts.moved.get(), .state = &parts.state});
    }
    ++runs.back().rows;
  }
  return runs;
}

}  // namespace

Engine::Parts::Parts(const EngineOptions& given)
    : checkpoint(OpenCheckpoint(given)),
      options(ResolveOptions(given, checkpoint.config())),
      tokenizer(LoadTokenizer(options, checkpoint.config())),
      plan(MakePlan(checkpoint, options)),
      mover(MakeStateMover(checkpoint.config(), options, plan)),
      pool(options.threads),
      weights(MakeWeightStream(checkpoint, plan, MakeIoOptions(options, interrupted))),
      transformer(checkpoint.config(), *weights, pool, plan.chunk_rows) {}

Engine::Engine(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Engine Engine::Open(const EngineOptions& options) {
  kernels::UseIsa(options.isa);
  return Engine(std::make_unique<Parts>(options));
}

size_t Engine::vocabulary() const { return parts_->checkpoint.config().vocabulary; }
size_t Engine::context() const { return parts_->options.context; }
size_t Engine::max_rows() const { return parts_->transformer.max_rows(); }
size_t Engine::tentative_rows() const { return parts_->options.tentative_rows; }
size_t Engine::layers() const { return parts_->checkpoint.config().layers_run(); }
size_t Engine::threads() const { return parts_->pool.threads(); }
std::string Engine::part() const { return DescribeModelPart(parts_->checkpoint.config()); }

std::string Engine::approximations() const {
  return DescribeApproximations(parts_->options, parts_->checkpoint);
}

std::string Engine::Description() const {
  const ModelConfig& config = parts_->checkpoint.config();
  const std::string extent =
      config.is_part() ? fmt::format("a part whose answers are not the model's: {}", part())
                       : fmt::format("{} layers", config.layers);
  const std::string flags = approximations();
  const std::string overlay = DescribeOverlay(parts_->checkpoint);
  return fmt::format(
      "{}, {}{}, {} on disk{}; budget {}; {}; {} with {} thread{}", config.model_type, extent,
      flags.empty() ? "" : " (not the exact answers: " + flags + ")",
      FormatByteSize(parts_->checkpoint.tensor_bytes()), overlay.empty() ? "" : ", " + overlay,
      FormatByteSize(parts_->plan.budget_bytes), parts_->weights->io_description(),
      kernels::CurrentIsa(), threads(), threads() == 1 ? "" : "s");
}

const std::vector<std::string>& Engine::warnings() const { return parts_->checkpoint.warnings(); }

std::string Engine::PlanTable() const { return FormatPlan(parts_->plan); }
size_t Engine::sequences_on_disk() const {
  return parts_->options.sequences - parts_->plan.sequences_in_memory;
}

uint64_t Engine::state_dir_bytes() const { return parts_->mover ? parts_->mover->file_bytes() : 0; }

uint64_t Engine::memory_budget_bytes() const { return parts_->plan.budget_bytes; }

bool Engine::has_tokenizer() const { return parts_->tokenizer.has_value(); }

const Tokenizer& Engine::tokenizer() const {
  if (!parts_->tokenizer) {
    Fail(ErrorKind::kCheckpoint,
         "{}: has no tiktoken.model, so text cannot become tokens: fetch the tokenizer files into "
         "it (kimi_k3 pull); without them there is only run, with token ids",
         parts_->options.model_dir.string());
  }
  return *parts_->tokenizer;
}

std::vector<TokenId> Engine::StopTokens() const {
  if (parts_->tokenizer) return parts_->tokenizer->StopTokens();
  const std::optional<int64_t> eos = parts_->checkpoint.config().eos_token_id;
  return eos ? std::vector<TokenId>{static_cast<TokenId>(*eos)} : std::vector<TokenId>{};
}

Sequence Engine::NewSequence() const {
  const SequenceCount& alive = *parts_->sequences;
  if (alive.in_memory + alive.on_disk >= parts_->options.sequences) {
    Fail(ErrorKind::kBudget, "the memory plan has room for {} sequence{} at once",
         parts_->options.sequences, parts_->options.sequences == 1 ? "" : "s");
  }
  const bool in_memory = alive.in_memory < parts_->plan.sequences_in_memory;
  return Sequence(std::make_unique<Sequence::State>(parts_->checkpoint.config(), parts_->options,
                                                    parts_->sequences,
                                                    in_memory ? nullptr : parts_->mover));
}

void Engine::Forward(std::span<const PassRow> rows, std::span<float> logits) {
  std::vector<Row> model_rows;
  model_rows.reserve(rows.size());
  for (const PassRow& row : rows) {
    if (row.sequence->state_->alive != parts_->sequences) {
      throw std::logic_error("a sequence is run by the engine that made it");
    }
    if (!row.sequence->intact()) {
      Fail(ErrorKind::kRun,
           "this text's state was lost when an earlier pass failed; start it anew");
    }
    model_rows.push_back({.sequence = &row.sequence->state_->state,
                          .token = row.token,
                          .wants_logits = row.wants_logits,
                          .tentative = row.tentative});
  }
  parts_->transformer.CheckRows(model_rows, logits.size());
  for (const PassRow& row : rows) {
    row.sequence->state_->intact = false;
    row.sequence->state_->tentative.clear();
  }
  std::optional<MovingPass> moving;
  if (parts_->mover) {
    moving.emplace(*parts_->mover, MovedRuns(rows, [](const PassRow& row) -> Sequence::State& {
      return *row.sequence->state_;
    }));
  }
  parts_->transformer.SetLayerObserver([&](size_t layer) {
    if (interrupted()) Fail(ErrorKind::kInterrupted, "interrupted");
    if (moving) moving->LayerDone(layer);
    if (parts_->progress) {
      const size_t first = parts_->checkpoint.config().first_layer();
      parts_->progress({.layer = layer + 1 - first, .layers = layers(), .rows = rows.size()});
    }
  });
  parts_->transformer.Forward(model_rows, logits);
  if (moving) moving->End();
  for (const PassRow& row : rows) {
    row.sequence->state_->intact = true;
    Sequence::State& state = *row.sequence->state_;
    (row.tentative ? state.tentative : state.tokens).push_back(row.token);
    if (row.tentative) ++parts_->tentative_rows;
  }
  ++parts_->passes;
  parts_->rows += rows.size();
}

void Engine::Accept(Sequence& sequence, size_t rows) {
  Sequence::State& state = *sequence.state_;
  parts_->transformer.Accept(state.state, rows);
  const auto end = state.tentative.begin() + static_cast<ptrdiff_t>(rows);
  state.tokens.insert(state.tokens.end(), state.tentative.begin(), end);
  state.tentative.clear();
  parts_->accepted_rows += rows;
}

void Engine::SetProgress(std::function<void(const PassProgress&)> progress) {
  parts_->progress = std::move(progress);
}

void Engine::Interrupt() { parts_->interrupted.store(true, std::memory_order_relaxed); }
void Engine::ClearInterrupt() { parts_->interrupted.store(false, std::memory_order_relaxed); }
bool Engine::interrupted() const { return parts_->interrupted.load(std::memory_order_relaxed); }

EngineCounters Engine::counters() const {
  const StreamStats stream = parts_->weights->ReadStats();
  const StateMover* mover = parts_->mover.get();
  return {.passes = parts_->passes,
          .rows = parts_->rows,
          .barriers = parts_->pool.barriers(),
          .tentative_rows = parts_->tentative_rows,
          .accepted_rows = parts_->accepted_rows,
          .trunk_bytes = stream.trunk_bytes,
          .expert_bytes = stream.expert_bytes,
          .head_bytes = stream.head_bytes,
          .embedding_bytes = stream.embedding_bytes,
          .read_calls = stream.read_calls,
          .expert_hits = stream.expert_hits,
          .expert_misses = stream.expert_misses,
          .compute_waited_seconds = stream.compute_waited_seconds,
          .reads_waited_seconds = stream.reads_waited_seconds,
          .state_bytes_read = mover != nullptr ? mover->bytes_read() : 0,
          .state_bytes_written = mover != nullptr ? mover->bytes_written() : 0,
          .states_waited_seconds = mover != nullptr ? mover->waited_seconds() : 0};
}

}  // namespace kimi_k3

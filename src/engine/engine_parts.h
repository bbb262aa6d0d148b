// What an engine and its sequences are made of, for the sources of this room.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "engine/state_mover.h"
#include "kimi_k3/engine.h"
#include "model/sequence_state.h"
#include "model/transformer.h"
#include "residency/memory_plan.h"
#include "residency/stream_factory.h"

namespace kimi_k3 {

// Sequences of an engine that exist.
struct SequenceCount {
  std::atomic<size_t> in_memory{0};
  std::atomic<size_t> on_disk{0};
};

struct Sequence::State {
  // mover: null where the state stays in memory.
  State(const ModelConfig& config, const EngineOptions& options,
        std::shared_ptr<SequenceCount> alive_count, std::shared_ptr<StateMover> mover);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::unique_ptr<MovedState> moved;  // null where the state stays in memory
  SequenceState state;
  std::shared_ptr<SequenceCount> alive;  // of this engine
  std::vector<TokenId> tokens;
  std::vector<TokenId> tentative;  // of the latest pass
  bool intact = true;
};

// In the order of set-up: everything that the plan must know is in memory before the plan is made.
struct Engine::Parts {
  explicit Parts(const EngineOptions& given);

  Checkpoint checkpoint;
  EngineOptions options;
  std::optional<Tokenizer> tokenizer;
  MemoryPlan plan;
  std::shared_ptr<StateMover> mover;  // null where all states stay in memory
  ThreadPool pool;
  std::atomic<bool> interrupted{false};
  std::unique_ptr<PlannedStream> weights;
  Transformer transformer;
  std::function<void(const PassProgress&)> progress;
  uint64_t passes = 0;
  uint64_t rows = 0;
  uint64_t tentative_rows = 0;
  uint64_t accepted_rows = 0;
  std::shared_ptr<SequenceCount> sequences = std::make_shared<SequenceCount>();
  std::optional<std::string> fingerprint;  // once it has been asked for
};

// The way in for the room's other sources.
struct EngineAccess {
  using EngineParts = Engine::Parts;
  using SequenceParts = Sequence::State;
  static EngineParts& Parts(const Engine& engine) { return *engine.parts_; }
  static SequenceParts& Parts(const Sequence& sequence) { return *sequence.state_; }
};

}  // namespace kimi_k3

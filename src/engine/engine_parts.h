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
#include "kimi_k3/engine.h"
#include "model/sequence_state.h"
#include "model/transformer.h"
#include "residency/memory_plan.h"
#include "residency/stream_factory.h"

namespace kimi_k3 {

struct Sequence::State {
  State(const ModelConfig& config, const EngineOptions& options,
        std::shared_ptr<std::atomic<size_t>> alive_count);
  ~State() { --*alive; }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  SequenceState state;
  std::shared_ptr<std::atomic<size_t>> alive;  // sequences of this engine
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
  ThreadPool pool;
  std::atomic<bool> interrupted{false};
  std::unique_ptr<PlannedStream> weights;
  Transformer transformer;
  std::function<void(const PassProgress&)> progress;
  uint64_t passes = 0;
  uint64_t rows = 0;
  uint64_t tentative_rows = 0;
  uint64_t accepted_rows = 0;
  std::shared_ptr<std::atomic<size_t>> sequences = std::make_shared<std::atomic<size_t>>(0);
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

// The engine: a checkpoint opened for running, and the sequences that run through it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {

// Type of the numbers in the latent cache; kQ8, kQ4: integers of so many bits in blocks of 32 with
// a scale (docs/arithmetic.md).
enum class KvCacheType { kF32, kBf16, kQ8, kQ4 };

// Type of the numbers of the recurrent (KDA) state; kBf16 rounds it after every position.
enum class StateType { kF32, kBf16 };

struct EngineOptions {
  std::filesystem::path model_dir;
  // Further folders with files of the same model, perhaps on other drives: config, index and
  // tokenizer come from the first folder that has them, each shard from the first that has it.
  std::vector<std::filesystem::path> more_model_dirs;
  // "layers=0-11,experts=0-63": run a part of the model, from the shards that hold it; empty: all
  // of it. Counted from 0, both ends included; either may be left out.
  std::string shard;
  size_t context = 0;  // positions that each sequence has room for; 0: 2048, or what the model has
  size_t threads = 0;  // 0: the physical cores that this process may use
  size_t prompt_chunk = 0;  // rows of a prompt computed in one pass; 0: as the engine sees fit
  KvCacheType kv_cache = KvCacheType::kF32;
  StateType state_type = StateType::kF32;
  // Experts that a token goes to, fewer than the model says, for speed; 0: as many as it says.
  size_t experts_per_token = 0;
  // Folder of an overlay whose matrices are used in place of the model's own (docs/overlay.md);
  // empty: none.
  std::filesystem::path overlay_dir;
  std::string isa = "auto";  // instruction set: auto, avx512, avx2, neon

  // Peak resident memory stays within this; unset: what the machine really has to spare.
  std::optional<uint64_t> memory_bytes;
  size_t sequences = 1;            // that may exist at once
  size_t tentative_rows = 0;       // that a pass may have of each sequence (see PassRow)
  bool all_prompt_logits = false;  // every row of a pass may want logits, not one of each sequence
  std::string io = "auto";         // how weights are read: auto, direct, buffered, mmap
  // Read-ahead reaches this many layers beyond the one in use; unset: as far as there is room.
  std::optional<size_t> prefetch_layers;
  // Memory for experts that stay; unset: what the plan leaves.
  std::optional<uint64_t> expert_cache_bytes;
  uint64_t reserved_bytes = 0;  // of the memory, that the program needs besides the engine
  bool sessions = false;        // sessions will be saved or loaded: the plan keeps memory for it

  // Folder for the states of sequences that memory has no room for, gone when the engine is: each
  // pass reads and writes them once, layer by layer. Empty: all stay in memory. Goes neither with
  // sessions nor with tentative rows.
  std::filesystem::path state_dir;
  // Of the sequences, how many stay in memory beside state_dir; unset: as many as the plan has room
  // for.
  std::optional<size_t> sequences_in_memory;
};

// Where a pass stands, for a progress display.
struct PassProgress {
  size_t layer = 0;  // layers done in this pass
  size_t layers = 0;
  size_t rows = 0;  // rows of this pass
};

// What the engine has read and used so far; differences of two readings describe a phase.
struct EngineCounters {
  uint64_t passes = 0;
  uint64_t rows = 0;
  uint64_t barriers = 0;  // loops that several threads shared
  uint64_t tentative_rows = 0;
  uint64_t accepted_rows = 0;  // of these

  // Fetched from the shards, padding to whole blocks included.
  uint64_t trunk_bytes = 0;
  uint64_t expert_bytes = 0;
  uint64_t head_bytes = 0;
  uint64_t embedding_bytes = 0;
  uint64_t read_calls = 0;
  // Experts that were in memory when the router named them, and those that were not.
  uint64_t expert_hits = 0;
  uint64_t expert_misses = 0;
  double compute_waited_seconds = 0;  // compute had nothing to do until a read came
  double reads_waited_seconds = 0;    // no read in flight: no room, or nothing known to be needed

  // Moved between memory and EngineOptions::state_dir.
  uint64_t state_bytes_read = 0;
  uint64_t state_bytes_written = 0;
  double states_waited_seconds = 0;  // compute had nothing to do until they came

  uint64_t bytes_read() const { return trunk_bytes + expert_bytes + head_bytes + embedding_bytes; }
};

// One text: its tokens and the model's state after them. Made by Engine::NewSequence, which must
// outlive it. Movable, not copyable.
class Sequence {
 public:
  Sequence(Sequence&&) noexcept;
  Sequence& operator=(Sequence&&) noexcept;
  ~Sequence();

  // The tokens that the state has seen, in order.
  std::span<const TokenId> tokens() const;
  // Positions still free.
  size_t room() const;
  // False after a pass over this sequence failed: then only Reset() makes it usable again.
  bool intact() const;
  // Back to the empty text.
  void Reset();

 private:
  friend class Engine;
  friend struct EngineAccess;
  struct State;
  explicit Sequence(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// One position to compute. Rows of the same sequence stand together, in order.
struct PassRow {
  Sequence* sequence = nullptr;
  TokenId token = 0;
  bool wants_logits = false;
  // It may be taken back: only Engine::Accept makes it part of the text. Tentative rows are the
  // last of their sequence.
  bool tentative = false;
};

// A checkpoint opened for running. One thread calls at a time, but Interrupt may be called from
// anywhere. Movable, not copyable.
class Engine {
 public:
  // Opens and checks the checkpoint; throws Error (kCheckpoint, kIo, kBudget, kUsage).
  static Engine Open(const EngineOptions& options);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  size_t vocabulary() const;  // numbers in one row of logits
  size_t context() const;
  size_t max_rows() const;        // of one pass
  size_t tentative_rows() const;  // of one sequence in a pass, at most
  size_t layers() const;          // that are run
  size_t threads() const;
  // Which part of the model is run, such as "layers 0-11 of 93, experts 0-63 of 896": its answers
  // are not the model's. Empty for the whole model.
  std::string part() const;
  // By what its answers differ from the model's besides the part, as flags of the command line such
  // as "--experts-per-token 8", separated by spaces. Empty: by nothing.
  std::string approximations() const;
  // What was opened, in one line: kind, size, layers, instruction set, threads.
  std::string Description() const;

  // The folder's tokenizer; throws Error(kCheckpoint) where it has none.
  const Tokenizer& tokenizer() const;
  bool has_tokenizer() const;
  // The tokens that end a text: the tokenizer's, or without tokenizer files the config's
  // eos_token_id.
  std::vector<TokenId> StopTokens() const;

  // What is odd about the model's folders but does no harm, a line each: files that are ignored,
  // shards with holes.
  const std::vector<std::string>& warnings() const;

  // Sequences whose states live in EngineOptions::state_dir, and the bytes that they take there.
  size_t sequences_on_disk() const;
  uint64_t state_dir_bytes() const;

  // What memory is used for, as lines of a table.
  std::string PlanTable() const;
  uint64_t memory_budget_bytes() const;

  // Those whose state stays in memory come first. Throws Error(kBudget) where options.sequences
  // exist already.
  Sequence NewSequence() const;

  // One pass over the weights for all rows (at most max_rows()). logits: [rows that want them,
  // vocabulary()], in order of rows. Throws Error(kRun) and changes nothing where a sequence has no
  // room or a token is outside the vocabulary; where reading or moving states fails (kIo), the
  // weights are damaged (kCheckpoint, kRun) or Interrupt was called (kInterrupted), the sequences
  // are no longer intact.
  void Forward(std::span<const PassRow> rows, std::span<float> logits);

  // Makes the first `rows` tentative rows of the sequence's latest pass part of its text, as if
  // they had not been tentative; the others are forgotten, as all are by the sequence's next pass.
  // Reads no weights. Throws std::logic_error for more rows than there are.
  void Accept(Sequence& sequence, size_t rows);

  // Called on the calling thread after each layer of each pass.
  void SetProgress(std::function<void(const PassProgress&)> progress);

  // Makes the pass in progress, and each later one, throw Error(kInterrupted). Async-signal-safe.
  void Interrupt();
  // Forgets an interruption.
  void ClearInterrupt();
  bool interrupted() const;

  EngineCounters counters() const;

 private:
  friend struct EngineAccess;
  struct Parts;
  explicit Engine(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace kimi_k3

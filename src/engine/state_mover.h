// Moves states that live on disk through memory, layer by layer beside the pass that needs them.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "engine/state_file.h"
#include "engine/state_layout.h"
#include "kimi_k3/error.h"
#include "model/sequence_state.h"
#include "residency/page_buffer.h"

namespace kimi_k3 {

class StateMover;

// Of one sequence: its part of the file, and memory for kStateWindows of its layers.
class MovedState {
 public:
  explicit MovedState(std::shared_ptr<StateMover> mover);
  ~MovedState();
  MovedState(const MovedState&) = delete;
  MovedState& operator=(const MovedState&) = delete;

 private:
  friend class StateMover;
  std::shared_ptr<StateMover> mover_;
  size_t place_;  // in the file
  PageBuffer windows_;
};

// What a pass computes of a sequence whose state is moved.
struct MovedRun {
  MovedState* moved = nullptr;
  SequenceState* state = nullptr;  // Home::kPlaced
  size_t rows = 0;
};

// In each pass every layer of each sequence is read once before it is computed and written once
// after, by threads of its own: while one layer is computed, the one before is written and the next
// is read. A pass is run by one thread at a time.
class StateMover {
 public:
  // sequences: how many states the file has room for. Throws as StateFile does. config must outlive
  // the object.
  StateMover(const ModelConfig& config, const StateLayout& layout,
             const std::filesystem::path& folder, size_t sequences);
  ~StateMover();
  StateMover(const StateMover&) = delete;
  StateMover& operator=(const StateMover&) = delete;

  // A pass begins: waits for the first layer. Each run's state is at its position before the pass.
  void BeginPass(std::vector<MovedRun> runs);
  // The layer has been computed: waits for the next.
  void LayerDone(size_t layer);
  // All layers have been computed: waits until they are written. These three throw Error(kIo) where
  // a read or a write failed; the pass has then failed.
  void EndPass();
  // Whatever is on its way comes to an end; the states of the pass's sequences are spoilt.
  void Abandon();

  uint64_t file_bytes() const { return sequences_ * layout_.sequence_bytes(); }
  uint64_t bytes_read() const { return file_.bytes_read(); }
  uint64_t bytes_written() const { return file_.bytes_written(); }
  double waited_seconds() const { return waited_seconds_; }  // passes, for states

 private:
  friend class MovedState;
  struct Move {
    size_t run = 0;
    size_t layer = 0;
    bool writes = false;
  };
  // Moves of one sequence are done in order, by the same thread.
  struct Lane {
    std::deque<Move> moves;
    std::thread thread;
  };

  size_t TakePlace();
  void GiveBack(size_t place);

  size_t WindowOf(size_t layer) const { return (layer - config_->first_layer()) % kStateWindows; }
  std::byte* Window(const MovedRun& run, size_t layer) const;
  void BeginReading(size_t layer);
  void Queue(size_t layer, bool writes);
  template <typename Condition>
  void WaitFor(Condition condition);
  void Work(Lane& lane);
  void Do(const Move& move);

  const ModelConfig* config_;
  const StateLayout layout_;
  const size_t sequences_;
  StateFile file_;
  std::vector<MovedRun> runs_;
  std::vector<size_t> positions_;  // of the runs, before the pass
  double waited_seconds_ = 0;

  std::mutex mutex_;
  std::condition_variable queued_;
  std::condition_variable done_;
  std::vector<size_t> free_places_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::array<size_t, kStateWindows> reads_left_ = {};  // into each window
  size_t moves_left_ = 0;
  std::optional<Error> failure_;
  bool stopping_ = false;
};

// One pass's use of a mover: whatever ends the pass, nothing is on its way afterwards.
class MovingPass {
 public:
  // Throws as BeginPass.
  MovingPass(StateMover& mover, std::vector<MovedRun> runs);
  ~MovingPass();
  MovingPass(const MovingPass&) = delete;
  MovingPass& operator=(const MovingPass&) = delete;
  void LayerDone(size_t layer) { mover_.LayerDone(layer); }
  void End();

 private:
  StateMover& mover_;
  bool ended_ = false;
};

}  // namespace kimi_k3

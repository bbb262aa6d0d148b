// Moves states that live on disk through memory, layer by layer beside the pass that needs them.
#include "engine/state_mover.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kimi_k3 {
namespace {

// Enough reads and writes of megabytes at a time to keep a fast drive busy.
constexpr size_t kLanes = 4;

}  // namespace

MovedState::MovedState(std::shared_ptr<StateMover> mover)
    : mover_(std::move(mover)),
      place_(mover_->TakePlace()),
      windows_(mover_->layout_.memory_bytes()) {}

MovedState::~MovedState() { mover_->GiveBack(place_); }

StateMover::StateMover(const ModelConfig& config, const StateLayout& layout,
                       const std::filesystem::path& folder, size_t sequences)
    : config_(&config),
      layout_(layout),
      sequences_(sequences),
      file_(folder, sequences * layout.sequence_bytes(),
            fmt::format("the states of {} text{}", sequences, sequences == 1 ? "" : "s")) {
  for (size_t place = sequences; place > 0; --place) free_places_.push_back(place - 1);
  for (size_t i = 0; i < std::min(kLanes, sequences); ++i) {
    lanes_.push_back(std::make_unique<Lane>());
    Lane& lane = *lanes_.back();
    lane.thread = std::thread([this, &lane] { Work(lane); });
  }
}

StateMover::~StateMover() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  queued_.notify_all();
  for (const auto& lane : lanes_) lane->thread.join();
}

size_t StateMover::TakePlace() {
  const std::lock_guard lock(mutex_);
  const size_t place = free_places_.back();
  free_places_.pop_back();
  return place;
}

void StateMover::GiveBack(size_t place) {
  const std::lock_guard lock(mutex_);
  free_places_.push_back(place);
}

std::byte* StateMover::Window(const MovedRun& run, size_t layer) const {
  return run.moved->windows_.data() + WindowOf(layer) * layout_.window_bytes();
}

void StateMover::BeginPass(std::vector<MovedRun> runs) {
  runs_ = std::move(runs);
  positions_.clear();
  for (const MovedRun& run : runs_) positions_.push_back(run.state->positions());
  const size_t first = config_->first_layer();
  for (size_t l = first; l < std::min(first + kStateWindows, config_->end_layer()); ++l) {
    BeginReading(l);
  }
  WaitFor([&] { return reads_left_[WindowOf(first)] == 0; });
}

void StateMover::LayerDone(size_t layer) {
  Queue(layer, true);
  if (layer + kStateWindows < config_->end_layer()) BeginReading(layer + kStateWindows);
  if (layer + 1 == config_->end_layer()) return;
  WaitFor([&] { return reads_left_[WindowOf(layer + 1)] == 0; });
}

void StateMover::EndPass() {
  WaitFor([&] { return moves_left_ == 0; });
  runs_.clear();
}

void StateMover::Abandon() {
  std::unique_lock lock(mutex_);
  for (const auto& lane : lanes_) {
    moves_left_ -= lane->moves.size();
    lane->moves.clear();
  }
  done_.wait(lock, [&] { return moves_left_ == 0; });
  reads_left_.fill(0);
  failure_.reset();
  runs_.clear();
}

// The window's layer before has been computed; that it is written first is seen to by the order of
// its sequence's moves.
void StateMover::BeginReading(size_t layer) {
  for (const MovedRun& run : runs_) run.state->Place(layer, Window(run, layer));
  Queue(layer, false);
}

void StateMover::Queue(size_t layer, bool writes) {
  {
    const std::lock_guard lock(mutex_);
    for (size_t run = 0; run < runs_.size(); ++run) {
      lanes_[run % lanes_.size()]->moves.push_back({.run = run, .layer = layer, .writes = writes});
    }
    moves_left_ += runs_.size();
    if (!writes) reads_left_[WindowOf(layer)] += runs_.size();
  }
  queued_.notify_all();
}

template <typename Condition>
void StateMover::WaitFor(Condition condition) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return condition() || failure_; });
  waited_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (failure_) throw Error(*failure_);
}

void StateMover::Work(Lane& lane) {
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [&] { return stopping_ || !lane.moves.empty(); });
    if (stopping_) return;
    const Move move = lane.moves.front();
    lane.moves.pop_front();
    lock.unlock();
    std::optional<Error> failure;
    try {
      Do(move);
    } catch (const Error& error) {
      failure = error;
    } catch (const std::exception& error) {
      failure = Error(ErrorKind::kRun, error.what());
    }
    lock.lock();
    if (failure && !failure_) failure_ = failure;
    --moves_left_;
    if (!move.writes) --reads_left_[WindowOf(move.layer)];
    done_.notify_all();
  }
}

void StateMover::Do(const Move& move) {
  const MovedRun& run = runs_[move.run];
  const size_t positions = positions_[move.run];
  std::byte* const window = Window(run, move.layer);
  const uint64_t begin = run.moved->place_ * layout_.sequence_bytes() + layout_.offset(move.layer);
  if (move.writes) {
    const StateStretch after = layout_.After(move.layer, positions, run.rows);
    file_.Write(begin + after.begin, {window + after.begin, after.bytes});
    return;
  }
  const StateStretch before = layout_.Before(move.layer, positions);
  file_.Read(begin + before.begin, {window + before.begin, before.bytes});
  if (positions == 0)
    std::fill_n(window, layout_.After(move.layer, 0, run.rows).bytes, std::byte{0});
}

MovingPass::MovingPass(StateMover& mover, std::vector<MovedRun> runs) : mover_(mover) {
  try {
    mover_.BeginPass(std::move(runs));
  } catch (...) {
    mover_.Abandon();
    throw;
  }
}

MovingPass::~MovingPass() {
  if (!ended_) mover_.Abandon();
}

void MovingPass::End() {
  mover_.EndPass();
  ended_ = true;
}

}  // namespace kimi_k3

// The threads that keep reads in flight, each with a reader of its own.
#include "residency/read_lanes.h"

#include <system_error>
#include <utility>

#include "base/error.h"

namespace kimi_k3 {

ReadLanes::ReadLanes(std::mutex& mutex, ReadClient& client,
                     std::vector<std::unique_ptr<Reader>> readers, size_t drives)
    : mutex_(&mutex), client_(&client), lanes_(readers.size()) {
  for (size_t i = 0; i < readers.size(); ++i) {
    lanes_[i].reader = std::move(readers[i]);
    lanes_[i].drive = i % drives;
  }
  try {
    const std::scoped_lock lock(mutex);
    for (size_t i = 0; i < lanes_.size(); ++i) {
      lanes_[i].thread = std::thread([this, i] { Run(lanes_[i]); });
    }
  } catch (const std::system_error& error) {
    Stop();
    Fail(ErrorKind::kRun, "cannot start a thread that reads: {}; raise the limits (ulimit -u, -v)",
         error.what());
  }
}

ReadLanes::~ReadLanes() { Stop(); }

void ReadLanes::Stop() {
  {
    const std::scoped_lock lock(*mutex_);
    stopping_ = true;
    Kick();
  }
  for (Lane& lane : lanes_) {
    if (lane.thread.joinable()) lane.thread.join();
  }
}

void ReadLanes::Kick() {
  ++kicks_;
  work_.notify_all();
  for (Lane& lane : lanes_) {
    if (lane.collecting) lane.reader->Wake();
  }
}

LaneMeters ReadLanes::meters() const {
  LaneMeters meters = meters_;
  const double seconds = std::chrono::duration<double>(Clock::now() - last_change_).count();
  (in_flight_ > 0 ? meters.busy_seconds : meters.idle_seconds) += seconds;
  meters.depth_seconds += seconds * static_cast<double>(in_flight_);
  return meters;
}

void ReadLanes::ChangeInFlight(Lane& lane, int change) {
  meters_ = meters();
  last_change_ = Clock::now();
  lane.in_flight += change;
  in_flight_ += change;
}

void ReadLanes::Run(Lane& lane) {
  std::vector<ReadCompletion> done;
  std::unique_lock lock(*mutex_);
  try {
    while (Step(lane, lock, done)) {
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    client_->LaneFailed(std::current_exception());
  }
}

bool ReadLanes::Step(Lane& lane, std::unique_lock<std::mutex>& lock,
                     std::vector<ReadCompletion>& done) {
  if (stopping_ && lane.in_flight == 0) return false;
  std::optional<ReadRequest> request;
  const bool room = lane.in_flight < lane.reader->depth() && !stopping_;
  const uint64_t seen = kicks_;
  if (room && kicks_ > 0) request = client_->NextRead(lane.drive);
  if (!request && lane.in_flight == 0) {
    work_.wait(lock, [&] { return stopping_ || kicks_ != seen; });
    return true;
  }
  done.clear();
  if (request) ChangeInFlight(lane, 1);
  lane.collecting = !request && room;
  lock.unlock();
  if (request) lane.reader->Submit(*request);
  lane.reader->Collect(/*block=*/!request, done);
  lock.lock();
  lane.collecting = false;
  for (const ReadCompletion& completion : done) {
    ChangeInFlight(lane, -1);
    ++meters_.read_calls;
    meters_.bytes += completion.bytes;
    client_->ReadDone(completion);
  }
  return true;
}

}  // namespace kimi_k3

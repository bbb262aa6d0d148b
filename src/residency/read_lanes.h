// The threads that keep reads in flight, each with a reader of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "residency/reader.h"

namespace kimi_k3 {

// Who decides what is read next. Both are called by lanes with the common mutex held.
class ReadClient {
 public:
  virtual ~ReadClient() = default;
  // The next read of this drive, or nothing while there is no room or nothing is known to be
  // needed.
  virtual std::optional<ReadRequest> NextRead(size_t drive) = 0;
  virtual void ReadDone(const ReadCompletion& completion) = 0;
  // A lane has died with this error: no further read will come from it.
  virtual void LaneFailed(std::exception_ptr error) = 0;
};

// How busy the drive was kept.
struct LaneMeters {
  uint64_t read_calls = 0;
  uint64_t bytes = 0;
  double busy_seconds = 0;   // at least one read in flight
  double idle_seconds = 0;   // none in flight: no room, or nothing known
  double depth_seconds = 0;  // integral of the reads in flight
};

// Runs one thread for each reader until destroyed. Asks the client for reads as long as readers
// have depth to spare. Each reader serves one drive, so that a drive that is slow, or stuck, takes
// no depth from another.
class ReadLanes {
 public:
  // mutex: protects the client; must outlive the lanes, as the client must. Reader i serves drive
  // i mod `drives`; there is at least one for each. No read starts before the first Kick.
  ReadLanes(std::mutex& mutex, ReadClient& client, std::vector<std::unique_ptr<Reader>> readers,
            size_t drives = 1);
  // Waits for the reads in flight; starts no more. The mutex must not be held.
  ~ReadLanes();
  ReadLanes(const ReadLanes&) = delete;
  ReadLanes& operator=(const ReadLanes&) = delete;

  // There may be something to read that NextRead did not give before. REQUIRES: mutex held.
  void Kick();
  // Reads in flight. REQUIRES: mutex held.
  size_t in_flight() const { return in_flight_; }
  // REQUIRES: mutex held.
  LaneMeters meters() const;

 private:
  struct Lane {
    std::unique_ptr<Reader> reader;
    size_t drive = 0;
    size_t in_flight = 0;
    bool collecting = false;  // blocked in Collect although it has depth to spare
    std::thread thread;
  };
  void Stop();
  void Run(Lane& lane);
  // One round: start a read, or wait for one, or sleep. False when the lane is to end.
  bool Step(Lane& lane, std::unique_lock<std::mutex>& lock, std::vector<ReadCompletion>& done);
  void ChangeInFlight(Lane& lane, int change);

  using Clock = std::chrono::steady_clock;
  std::mutex* mutex_;
  ReadClient* client_;
  std::condition_variable work_;
  std::vector<Lane> lanes_;
  bool stopping_ = false;
  uint64_t kicks_ = 0;
  size_t in_flight_ = 0;
  LaneMeters meters_;
  Clock::time_point last_change_ = Clock::now();
};

}  // namespace kimi_k3

// Tests of the threads that keep reads in flight.
#include "residency/read_lanes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace kimi_k3 {
namespace {

// Completes every read at once, or throws when told to.
class InstantReader : public Reader {
 public:
  explicit InstantReader(size_t depth, bool broken = false) : depth_(depth), broken_(broken) {}
  size_t depth() const override { return depth_; }
  void Submit(const ReadRequest& request) override {
    if (broken_) throw std::runtime_error("broken");
    done_.push_back({request.tag, request.bytes, std::nullopt});
  }
  void Collect(bool, std::vector<ReadCompletion>& done) override {
    done.insert(done.end(), done_.begin(), done_.end());
    done_.clear();
  }
  void Wake() override {}

 private:
  size_t depth_;
  bool broken_;
  std::vector<ReadCompletion> done_;
};

// Completes nothing before it is released.
class HangingReader : public InstantReader {
 public:
  HangingReader(size_t depth, const std::atomic<bool>& released)
      : InstantReader(depth), released_(&released) {}
  void Collect(bool block, std::vector<ReadCompletion>& done) override {
    if (!block && !*released_) return;
    while (!*released_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    InstantReader::Collect(block, done);
  }

 private:
  const std::atomic<bool>* released_;
};

// Hands out `left` reads.
class Client : public ReadClient {
 public:
  std::optional<ReadRequest> NextRead(size_t /*drive*/) override {
    if (left == 0) return std::nullopt;
    --left;
    return ReadRequest{this, 0, 0, nullptr, 100, 100};
  }
  void ReadDone(const ReadCompletion& completion) override {
    EXPECT_EQ(completion.tag, this);
    ++done;
    changed.notify_all();
  }
  void LaneFailed(std::exception_ptr e) override {
    error = e;
    changed.notify_all();
  }
  std::mutex mutex;
  std::condition_variable changed;
  size_t left = 0;
  size_t done = 0;
  std::exception_ptr error;
};

std::vector<std::unique_ptr<Reader>> Readers(size_t count, size_t depth, bool broken = false) {
  std::vector<std::unique_ptr<Reader>> readers;
  for (size_t i = 0; i < count; ++i) {
    readers.push_back(std::make_unique<InstantReader>(depth, broken));
  }
  return readers;
}

TEST(ReadLanes, ReadsWhatIsAskedForAfterEachKick) {
  for (const size_t lanes_count : {1U, 3U}) {
    Client client;
    ReadLanes lanes(client.mutex, client, Readers(lanes_count, 2));
    for (size_t round = 1; round <= 50; ++round) {
      std::unique_lock lock(client.mutex);
      client.left += 7;
      lanes.Kick();
      client.changed.wait(lock, [&] { return client.done == 7 * round; });
      EXPECT_EQ(lanes.in_flight(), 0U);
      EXPECT_EQ(lanes.meters().read_calls, 7 * round);
      EXPECT_EQ(lanes.meters().bytes, 700 * round);
    }
  }
}

TEST(ReadLanes, ADriveThatHangsTakesNoDepthFromAnother) {
  // Hands out reads of both drives without end and counts what is started.
  class Drives : public Client {
   public:
    std::optional<ReadRequest> NextRead(size_t drive) override {
      if (drive == 1 && started[1] == 100) return std::nullopt;
      ++started[drive];
      changed.notify_all();
      return ReadRequest{this, 0, 0, nullptr, 100, 100};
    }
    size_t started[2] = {0, 0};
  };
  std::atomic<bool> released = false;
  Drives client;
  std::vector<std::unique_ptr<Reader>> readers;
  readers.push_back(std::make_unique<HangingReader>(3, released));
  readers.push_back(std::make_unique<InstantReader>(3));
  {
    ReadLanes lanes(client.mutex, client, std::move(readers), 2);
    std::unique_lock lock(client.mutex);
    lanes.Kick();
    client.changed.wait(lock, [&] { return client.done == 100 && client.started[0] == 3; });
    EXPECT_EQ(lanes.in_flight(), 3U);
    released = true;
  }
  EXPECT_GE(client.done, 103U);
}

TEST(ReadLanes, ReadsNothingBeforeTheFirstKick) {
  Client client;
  client.left = 5;
  { const ReadLanes lanes(client.mutex, client, Readers(2, 1)); }
  EXPECT_EQ(client.left, 5U);
}

TEST(ReadLanes, ReportsALaneThatBreaks) {
  Client client;
  ReadLanes lanes(client.mutex, client, Readers(1, 1, true));
  std::unique_lock lock(client.mutex);
  client.left = 1;
  lanes.Kick();
  client.changed.wait(lock, [&] { return client.error != nullptr; });
  EXPECT_THROW(std::rethrow_exception(client.error), std::runtime_error);
}

}  // namespace
}  // namespace kimi_k3

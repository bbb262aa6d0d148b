// A reader that fails, delays or never finishes the reads a test picks.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "residency/reader.h"

namespace kimi_k3 {

// What happens to one read. Faults are counted over all readers that share a plan.
struct FaultPlan {
  enum class Fault : uint8_t {
    kNone,
    kError,  // completes with `error_number`, rubbish at the destination if `spoil`
    kHang    // does not complete before `released`
  };
  // Decides by the number of the read, from 0.
  std::function<Fault(uint64_t)> fault = [](uint64_t) { return Fault::kNone; };
  // Reads of these shards do not complete before `released`.
  std::function<bool(uint32_t)> stuck = [](uint32_t) { return false; };
  int error_number = 5;  // EIO; 0: the file ends early
  bool spoil = true;     // not for maps, which cannot be written
  std::chrono::microseconds delay{0};
  bool reverse = false;  // reports completions in the reverse order
  std::atomic<uint64_t> reads{0};
  std::atomic<bool> released{false};
};

class FaultInjectingReader : public Reader {
 public:
  FaultInjectingReader(std::unique_ptr<Reader> reader, std::shared_ptr<FaultPlan> plan)
      : reader_(std::move(reader)), plan_(std::move(plan)) {}

  size_t depth() const override { return reader_->depth(); }

  void Submit(const ReadRequest& request) override {
    switch (plan_->fault(plan_->reads++)) {
      case FaultPlan::Fault::kError:
        if (plan_->spoil) std::fill_n(request.destination, request.bytes, std::byte{0x55});
        failed_.push_back(
            {request.tag, 0, ReadFailure{request.shard, request.offset, plan_->error_number}});
        return;
      case FaultPlan::Fault::kHang:
        WaitForRelease();
        break;
      case FaultPlan::Fault::kNone:
        if (plan_->stuck(request.shard)) WaitForRelease();
        break;
    }
    std::this_thread::sleep_for(plan_->delay);
    ++inside_;
    reader_->Submit(request);
  }

  void Collect(bool block, std::vector<ReadCompletion>& done) override {
    const size_t before = done.size();
    done.insert(done.end(), failed_.begin(), failed_.end());
    failed_.clear();
    const size_t inside = done.size();
    reader_->Collect(block && inside == before && inside_ > 0, done);
    inside_ -= done.size() - inside;
    if (plan_->reverse) {
      std::reverse(done.begin() + static_cast<std::ptrdiff_t>(before), done.end());
    }
  }

  void Wake() override { reader_->Wake(); }

 private:
  void WaitForRelease() const {
    while (!plan_->released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::unique_ptr<Reader> reader_;
  std::shared_ptr<FaultPlan> plan_;
  std::vector<ReadCompletion> failed_;
  size_t inside_ = 0;
};

}  // namespace kimi_k3

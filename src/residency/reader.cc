// What one read went through.
#include "residency/reader.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace kimi_k3 {
namespace {

// Results in a row that bring nothing before a read is given up: interruptions are transient.
constexpr int kPatience = 1000;

}  // namespace

ReadProgress::Next ReadProgress::Take(ssize_t result) {
  if (result == -EINTR || result == -EAGAIN) {
    if (++fruitless_ < kPatience) return Next::kAgain;
  }
  if (result < 0) {
    failed_ = true;
    error_number_ = static_cast<int>(-result);
    return Next::kFailed;
  }
  const uint64_t reached = done_ + std::min(static_cast<uint64_t>(result), bytes());
  arrived_ = std::max(arrived_, reached);
  if (arrived_ >= request_.needed_bytes) return Next::kDone;
  const uint64_t next = direct_ ? BlockFloor(reached) : reached;
  if (next > done_) {
    done_ = next;
    fruitless_ = 0;
    return Next::kAgain;
  }
  failed_ = true;  // nothing new although more was asked for: the file ends here
  return Next::kFailed;
}

ReadCompletion ReadProgress::completion() const {
  ReadCompletion completion = {request_.tag, arrived_, std::nullopt};
  if (failed_) {
    completion.failure = ReadFailure{request_.shard, request_.offset + arrived_, error_number_};
  }
  return completion;
}

std::string DescribeFailure(const ReadFailure& failure, const Checkpoint& checkpoint) {
  const Shard& shard = checkpoint.shards()[failure.shard];
  if (failure.error_number == 0) {
    return fmt::format(
        "{}: ends at offset {}, was {} bytes long when its header was read: was it "
        "cut or replaced in mid-run?",
        shard.path.string(), failure.offset, shard.bytes);
  }
  const std::string reason = std::generic_category().message(failure.error_number);
  const char* advice = failure.error_number == EINVAL
                           ? " (this file system may not allow direct reads: try --io buffered)"
                       : failure.error_number == EIO ? " (the drive or its link failed)"
                                                     : "";
  return fmt::format("{}: cannot read at offset {}: {}{}", shard.path.string(), failure.offset,
                     reason, advice);
}

}  // namespace kimi_k3

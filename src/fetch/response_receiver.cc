// Takes the bytes of one response, believes nothing that it says unchecked, and makes blocks of
// them.
#include "fetch/response_receiver.h"

#include <algorithm>
#include <utility>

#include "fetch/digest.h"

namespace kimi_k3 {
namespace {

std::string Unquoted(std::string tag) {
  if (tag.starts_with("W/")) tag.erase(0, 2);
  std::erase(tag, '"');
  return tag;
}

}  // namespace

ResponseReceiver::ResponseReceiver(DownloadBoard& board, DownloadAssignment& assignment)
    : board_(board),
      assignment_(assignment),
      task_(assignment.job->task),
      begin_(assignment.whole ? 0 : task_.sums().OffsetOf(assignment.run.first)),
      end_(assignment.whole ? task_.remote().bytes : EndOf(assignment.run.end - 1)),
      position_(begin_) {}

std::optional<HttpRequest::Range> ResponseReceiver::range() const {
  if (begin_ == 0 && end_ == task_.remote().bytes) return std::nullopt;
  return HttpRequest::Range{begin_, end_ - 1};
}

uint64_t ResponseReceiver::EndOf(size_t block) const {
  return task_.sums().OffsetOf(block) + task_.sums().BytesOf(block);
}

bool ResponseReceiver::Refuse(std::string what) {
  outcome_.what = std::move(what);
  return false;
}

bool ResponseReceiver::Begin(const HttpReply& reply) {
  const uint64_t size = task_.remote().bytes;
  if (reply.status == 200 && range() && !TakeWhole()) return false;
  uint64_t total = reply.content_length.value_or(size);
  uint64_t length = size;
  if (reply.status == 206) {
    if (!reply.content_range) return Refuse("the server does not say which bytes it sends");
    total = reply.content_range->total;
    length = reply.content_range->last - reply.content_range->first + 1;
  }
  if (total != size) {
    return RefuseChanged(fmt::format("it is {} bytes long now, not {}", total, size));
  }
  if (reply.status == 206 &&
      (reply.content_range->first != begin_ || reply.content_range->last >= end_)) {
    return Refuse("the server sends other bytes than it was asked for");
  }
  if (reply.content_length && *reply.content_length != length) {
    return Refuse("the server contradicts itself about how much it sends");
  }
  return CheckTag(reply);
}

bool ResponseReceiver::Take(std::span<const std::byte> data) {
  while (!data.empty()) {
    if (position_ >= end_) return Refuse("the server sends more than it was asked for");
    const size_t block = position_ / task_.sums().block_bytes();
    const size_t n = std::min<uint64_t>(data.size(), EndOf(block) - position_);
    block_.insert(block_.end(), data.begin(), data.begin() + n);
    position_ += n;
    data = data.subspan(n);
    if (position_ == EndOf(block)) Complete(block);
  }
  return !board_.Stopped();
}

// The file that the server has is no longer the one that was begun.
bool ResponseReceiver::RefuseChanged(const std::string& what) {
  outcome_.fatal = true;
  outcome_.kind = ErrorKind::kRun;
  outcome_.what = "has changed on the server: " + what +
                  "; ask again (kimi_k3 pull) for what the repository holds now";
  board_.ForgetUnhashed(task_);
  return false;
}

// The server knows no ranges: the first connection that finds out reads from the beginning.
bool ResponseReceiver::TakeWhole() {
  if (!board_.TakeWhole(task_)) {
    outcome_.yield = true;
    return false;
  }
  assignment_.whole = true;
  begin_ = 0;
  end_ = task_.remote().bytes;
  position_ = 0;
  return true;
}

bool ResponseReceiver::CheckTag(const HttpReply& reply) {
  std::string tag = Unquoted(reply.Header("x-linked-etag"));
  if (tag.empty()) tag = Unquoted(reply.Header("etag"));
  const auto& hash = task_.remote().hash;
  if (hash && IsHexDigest(tag, hash->kind) && tag != hash->hex) {
    return RefuseChanged("its hash is another one");
  }
  return board_.SameTag(task_, tag) || RefuseChanged("its ETag is another one");
}

void ResponseReceiver::Complete(size_t block) {
  if (board_.BeginWrite(task_, block)) {
    const uint64_t sum = SumOfBlock(block_);
    task_.WriteBlock(block, block_);
    board_.MarkPresent(task_, block, sum);
    outcome_.progress = true;
  }
  block_.clear();
}

}  // namespace kimi_k3

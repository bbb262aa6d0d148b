// Lines of the server's log about texts on their way: when one begins, and where those stand that
// take long.
#include "server/request_log.h"

#include <fmt/format.h>

#include <utility>

#include "checkpoint/problem_list.h"
#include "server/progress_text.h"

namespace kimi_k3::server {
namespace {

std::string NameOfRequest(size_t number) { return fmt::format("request {}", number); }

}  // namespace

RequestLog::RequestLog(std::function<void(const std::string&)> write,
                       std::chrono::milliseconds every)
    : write_(std::move(write)), every_(every) {}

size_t RequestLog::Register() {
  const std::lock_guard lock(mutex_);
  ++known_;
  return ++latest_;
}

void RequestLog::Forget(size_t number) {
  const std::lock_guard lock(mutex_);
  --known_;
  running_.erase(number);
}

void RequestLog::TellBegin(size_t number, const std::string& line) {
  const std::lock_guard lock(mutex_);
  running_.insert(number);
  last_line_ = Clock::now();
  if (write_) write_(line);
}

// Of those that run it is the next after the one that was told of last.
bool RequestLog::IsTurnOf(size_t number) const {
  const std::lock_guard lock(mutex_);
  if (!write_ || running_.empty() || Clock::now() - last_line_ < every_) return false;
  const auto next = running_.upper_bound(told_);
  return number == (next == running_.end() ? *running_.begin() : *next);
}

void RequestLog::TellProgress(size_t number, const TextProgress& progress) {
  const std::lock_guard lock(mutex_);
  told_ = number;
  last_line_ = Clock::now();
  std::string line = fmt::format("{}: {}", NameOfRequest(number), DescribeProgress(progress));
  const size_t others = running_.size() - 1;
  const size_t waiting = known_ - running_.size();
  if (others > 0) line += fmt::format("; {} other{} at work", others, others == 1 ? "" : "s");
  if (waiting > 0) line += fmt::format("; {} waiting", waiting);
  write_(line);
}

RequestLog::Entry::Entry(RequestLog& log, const char* kind)
    : log_(log), kind_(kind), number_(log.Register()) {}

RequestLog::Entry::~Entry() { log_.Forget(number_); }

std::string RequestLog::Entry::Name() const { return NameOfRequest(number_); }

void RequestLog::Entry::Look(const std::function<TextProgress()>& progress) {
  using Phase = TextProgress::Phase;
  if (begun_ && !log_.IsTurnOf(number_)) return;
  const TextProgress now = progress();
  if (now.phase == Phase::kWaiting) return;
  if (!std::exchange(begun_, true)) {
    log_.TellBegin(number_,
                   fmt::format("{}: {}, {} prompt token{}, {} of them cached", Name(), kind_,
                               GroupedDigits(now.prompt_tokens), now.prompt_tokens == 1 ? "" : "s",
                               GroupedDigits(now.cached_tokens)));
  } else if (now.phase != Phase::kEnded) {
    log_.TellProgress(number_, now);
  }
}

}  // namespace kimi_k3::server

// Lines of the server's log about texts on their way: when one begins, and where those stand that
// take long.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "kimi_k3/scheduler.h"
#include "server/request_reader.h"

namespace kimi_k3::server {

// One for all requests; every function may be called from any thread.
class RequestLog {
 public:
  // write: takes a line; null: nothing is logged. every: between lines of progress, in which those
  // that run take turns, and after another line of this log.
  RequestLog(std::function<void(const std::string&)> write, std::chrono::milliseconds every);

  // A text that waits or runs; it is forgotten when the object ends.
  class Entry {
   public:
    // kind: "chat" or "text". The log must outlive the entry.
    Entry(RequestLog& log, const char* kind);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    // "request 12", as all lines about it begin.
    std::string Name() const;

    // Tells what there is to tell, if anything. Wants to be called several times a second, and
    // once when the text has ended.
    void Look(const Scheduler::Ticket& ticket) {
      Look([&] { return ticket.progress(); });
    }
    void Look(const std::function<TextProgress()>& progress);

   private:
    RequestLog& log_;
    const char* const kind_;
    const size_t number_;
    bool begun_ = false;
  };

 private:
  size_t Register();
  void Forget(size_t number);
  void TellBegin(size_t number, const std::string& line);
  bool IsTurnOf(size_t number) const;
  void TellProgress(size_t number, const TextProgress& progress);

  const std::function<void(const std::string&)> write_;
  const std::chrono::milliseconds every_;
  mutable std::mutex mutex_;
  size_t latest_ = 0;         // number given
  size_t known_ = 0;          // entries
  std::set<size_t> running_;  // numbers
  size_t told_ = 0;           // whose progress was the last
  Clock::time_point last_line_;
};

}  // namespace kimi_k3::server

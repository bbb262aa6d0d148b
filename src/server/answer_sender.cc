// Sends an answer to its client while it is generated, with signs of life where it takes long.
#include "server/answer_sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "server/progress_text.h"

namespace kimi_k3::server {
namespace {

// How soon a client that has gone is noticed.
constexpr std::chrono::milliseconds kLook{200};
constexpr std::string_view kEventType = "text/event-stream";

ApiError ErrorOf(const Error& error) {
  if (error.kind() == ErrorKind::kInterrupted) {
    return ApiError(503, "shutting_down", "", error.what());
  }
  return ApiError(500, "generation_failed", "", error.what());
}

// The two ways of sending differ in what is written when.
class Sender {
 public:
  Sender(Scheduler::Ticket& ticket, AnswerQueue& queue, AnswerWriter& writer,
         std::chrono::milliseconds sign_of_life, RequestLog::Entry& entry, ResponseWriter& response)
      : ticket_(ticket),
        queue_(queue),
        writer_(writer),
        sign_of_life_(sign_of_life),
        entry_(entry),
        response_(response) {}
  virtual ~Sender() = default;

  void Run() {
    bool there = Begin();
    while (there) {
      if (std::optional<AnswerPiece> piece = queue_.Take(std::min(kLook, sign_of_life_))) {
        there = Send(std::move(*piece));
      } else if (const std::optional<AnswerEnd> end = queue_.end()) {
        entry_.Look(ticket_);
        End(*end);
        return;
      }
      entry_.Look(ticket_);
      there = there && IsThere();
    }
    ticket_.Cancel();
  }

 protected:
  virtual bool Begin() = 0;
  virtual bool Send(AnswerPiece piece) = 0;
  virtual bool SendSignOfLife() = 0;
  virtual void End(const AnswerEnd& end) = 0;

  bool Sent(bool there) {
    last_sent_ = Clock::now();
    return there;
  }

  Scheduler::Ticket& ticket_;
  AnswerQueue& queue_;
  AnswerWriter& writer_;
  const std::chrono::milliseconds sign_of_life_;
  RequestLog::Entry& entry_;
  ResponseWriter& response_;

 private:
  // A client that has closed its sending side may be waiting for its answer; if it is gone, it
  // shows after the next thing it is sent.
  bool IsThere() {
    const Connection::Peer peer = response_.connection().Probe();
    if (peer == Connection::Peer::kGone) return false;
    const bool newly_silent = peer == Connection::Peer::kSilent && !std::exchange(silent_, true);
    if (!newly_silent && Clock::now() - last_sent_ < sign_of_life_) return true;
    return Sent(SendSignOfLife());
  }

  Clock::time_point last_sent_ = Clock::now();
  bool silent_ = false;
};

class StreamSender : public Sender {
 public:
  using Sender::Sender;

 protected:
  bool Begin() override {
    return response_.BeginStream(200, kEventType) && Sent(Write(writer_.FirstEvent()));
  }
  bool Send(AnswerPiece piece) override { return Sent(Write(writer_.Event(std::move(piece)))); }
  bool SendSignOfLife() override {
    return Write(fmt::format(": {}\n\n", DescribeProgress(ticket_.progress())));
  }
  void End(const AnswerEnd& end) override {
    const bool written =
        Write(end.error ? ErrorEvent(ErrorOf(*end.error)) : writer_.LastEvents(end));
    if (written) response_.EndStream();
  }

 private:
  bool Write(const std::string& events) { return response_.WritePiece(events); }
};

class WholeSender : public Sender {
 public:
  using Sender::Sender;

 protected:
  bool Begin() override { return true; }
  bool Send(AnswerPiece piece) override {
    writer_.Collect(std::move(piece));
    return true;
  }
  // White space may stand before a JSON text. Once it does, the status is said.
  bool SendSignOfLife() override {
    if (!response_.begun() && !response_.BeginStream(200, kJsonType)) return false;
    return response_.WritePiece(" ");
  }
  void End(const AnswerEnd& end) override {
    if (!response_.begun()) {
      if (end.error) throw ErrorOf(*end.error);
      response_.Send(200, kJsonType, writer_.Whole(end));
    } else if (end.error) {
      response_.WritePiece(ErrorJson(ErrorOf(*end.error)));  // and no end follows
    } else if (response_.WritePiece(writer_.Whole(end))) {
      response_.EndStream();
    }
  }
};

}  // namespace

void SendAnswer(Scheduler::Ticket& ticket, AnswerQueue& queue, AnswerWriter& writer, bool stream,
                std::chrono::milliseconds sign_of_life, RequestLog::Entry& entry,
                ResponseWriter& response) {
  if (stream) {
    StreamSender(ticket, queue, writer, sign_of_life, entry, response).Run();
  } else {
    WholeSender(ticket, queue, writer, sign_of_life, entry, response).Run();
  }
}

}  // namespace kimi_k3::server

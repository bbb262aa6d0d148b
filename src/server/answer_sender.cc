// Sends an answer to its client while it is generated, with signs of life where it takes long.
#include "server/answer_sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

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

std::string Duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::max(1.0, std::round(seconds)));
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

// The two ways of sending differ in what is written when.
class Sender {
 public:
  Sender(Scheduler::Ticket& ticket, AnswerQueue& queue, AnswerWriter& writer,
         std::chrono::milliseconds sign_of_life, ResponseWriter& response)
      : ticket_(ticket),
        queue_(queue),
        writer_(writer),
        sign_of_life_(sign_of_life),
        response_(response) {}
  virtual ~Sender() = default;

  void Run() {
    bool there = Begin();
    while (there) {
      if (std::optional<AnswerPiece> piece = queue_.Take(std::min(kLook, sign_of_life_))) {
        there = Send(std::move(*piece));
      } else if (const std::optional<AnswerEnd> end = queue_.end()) {
        End(*end);
        return;
      }
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

std::string DescribeProgress(const TextProgress& progress) {
  std::string text;
  switch (progress.phase) {
    case TextProgress::Phase::kWaiting:
      return progress.ahead == 0 ? "waiting, next in line"
                                 : fmt::format("waiting, {} request{} before this one",
                                               progress.ahead, progress.ahead == 1 ? "" : "s");
    case TextProgress::Phase::kPrompt:
      text = fmt::format("prefill {}/{} layers, {} of {} tokens done", progress.layer,
                         progress.layers, progress.prompt_done, progress.prompt_tokens);
      break;
    case TextProgress::Phase::kAnswer:
      text = fmt::format("token {}, {}/{} layers", progress.generated + 1, progress.layer,
                         progress.layers);
      break;
    case TextProgress::Phase::kEnded:
      return "ended";
  }
  if (progress.seconds_left)
    text += fmt::format(", about {} left", Duration(*progress.seconds_left));
  return text;
}

void SendAnswer(Scheduler::Ticket& ticket, AnswerQueue& queue, AnswerWriter& writer, bool stream,
                std::chrono::milliseconds sign_of_life, ResponseWriter& response) {
  if (stream) {
    StreamSender(ticket, queue, writer, sign_of_life, response).Run();
  } else {
    WholeSender(ticket, queue, writer, sign_of_life, response).Run();
  }
}

}  // namespace kimi_k3::server

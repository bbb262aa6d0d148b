// What the log says of texts on their way.
#include "server/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace kimi_k3::server {
namespace {

using namespace std::chrono_literals;
using Phase = TextProgress::Phase;
using testing::ElementsAre;
using testing::IsEmpty;

class RequestLogs : public testing::Test {
 protected:
  RequestLog Log(std::chrono::milliseconds every) {
    return RequestLog([this](const std::string& line) { lines_.push_back(line); }, every);
  }
  static std::function<TextProgress()> At(Phase phase) {
    return [phase] {
      return TextProgress{.phase = phase,
                          .prompt_tokens = 1003214,
                          .prompt_done = 2200,
                          .cached_tokens = 2100,
                          .generated = 4,
                          .layer = 34,
                          .layers = 93,
                          .seconds_left = 40.0};
    };
  }
  std::vector<std::string> lines_;
};

TEST_F(RequestLogs, ALineWhenItBeginsWhichIsOnce) {
  RequestLog log = Log(1h);
  RequestLog::Entry entry(log, "chat");
  EXPECT_EQ(entry.Name(), "request 1");
  entry.Look(At(Phase::kWaiting));
  EXPECT_THAT(lines_, IsEmpty());
  for (const Phase phase : {Phase::kPrompt, Phase::kPrompt, Phase::kAnswer, Phase::kEnded}) {
    entry.Look(At(phase));
  }
  EXPECT_THAT(lines_,
              ElementsAre("request 1: chat, 1,003,214 prompt tokens, 2,100 of them cached"));
}

TEST_F(RequestLogs, OneThatIsOverAtOnceBeganToo) {
  RequestLog log = Log(0ms);
  RequestLog::Entry entry(log, "text");
  entry.Look(At(Phase::kEnded));
  EXPECT_EQ(lines_.size(), 1U);
}

TEST_F(RequestLogs, ThoseThatRunTakeTurnsInLinesOfProgress) {
  RequestLog log = Log(0ms);
  RequestLog::Entry first(log, "chat");
  {
    RequestLog::Entry second(log, "text");
    const RequestLog::Entry third(log, "text");
    first.Look(At(Phase::kPrompt));
    second.Look(At(Phase::kPrompt));
    lines_.clear();
    for (int i = 0; i < 2; ++i) first.Look(At(Phase::kPrompt));
    for (int i = 0; i < 2; ++i) second.Look(At(Phase::kAnswer));
  }
  first.Look(At(Phase::kEnded));
  first.Look(At(Phase::kAnswer));
  EXPECT_THAT(
      lines_,
      ElementsAre("request 1: prefill 34/93 layers, 2200 of 1003214 tokens done, about 40 s left; "
                  "1 other at work; 1 waiting",
                  "request 2: token 5, 34/93 layers, this token in about 40 s; "
                  "1 other at work; 1 waiting",
                  "request 1: token 5, 34/93 layers, this token in about 40 s"));
}

TEST_F(RequestLogs, WithoutALogNothingIsAsked) {
  RequestLog log({}, 0ms);
  RequestLog::Entry entry(log, "chat");
  entry.Look(At(Phase::kPrompt));
  entry.Look([]() -> TextProgress { throw std::logic_error("asked"); });
}

}  // namespace
}  // namespace kimi_k3::server

// Many texts through one engine, against each of them alone.
#include "kimi_k3/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "engine/golden_engine.h"
#include "engine/likely_tokens.h"
#include "engine/temporary_folder.h"
#include "kimi_k3/generation.h"

namespace kimi_k3 {
namespace {

using namespace std::chrono_literals;

// Collects a text. It may hold the scheduler's thread at its first token until it is let go.
class Collector : public TextConsumer {
 public:
  bool Take(const ChosenToken& token) override {
    std::unique_lock lock(mutex_);
    chosen_.push_back(token);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_; });
    return true;
  }
  void End(const TextResult& result) override {
    const std::lock_guard lock(mutex_);
    result_ = result;
    changed_.notify_all();
  }

  void Hold() { held_ = true; }
  void LetGo() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  void AwaitToken() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, 60s, [&] { return !chosen_.empty() || result_; }));
  }
  TextResult AwaitEnd() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 60s, [&] { return result_.has_value(); })) {
      ADD_FAILURE() << "the text did not end";
      return {};
    }
    return *result_;
  }
  std::vector<ChosenToken> chosen() {
    const std::lock_guard lock(mutex_);
    return chosen_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  std::vector<ChosenToken> chosen_;
  std::optional<TextResult> result_;
};

// Prompts of different lengths, which need several chunks, and samplings of their own.
TextRequest RequestOf(size_t i) {
  std::vector<TokenId> prompt = GoldenIds("k3", "prompt_ids");
  prompt.resize(2 + i % prompt.size());
  prompt.front() = static_cast<TokenId>(i);
  return {.prompt = prompt,
          .max_tokens = 6 + i,
          .sampling = {.temperature = i % 3 == 0 ? 0.0F : 0.9F, .top_p = 0.9F, .seed = i},
          .ignore_eos = true};
}

std::vector<TokenId> Alone(const TextRequest& request, size_t context = 64) {
  Engine engine = Engine::Open(GoldenOptions("k3", context));
  Sequence sequence = engine.NewSequence();
  return Generate(engine, sequence, request.prompt,
                  {.max_tokens = request.max_tokens,
                   .sampling = request.sampling,
                   .ignore_eos = request.ignore_eos},
                  [](TokenId) { return true; })
      .tokens;
}

// A part of the tests that needs a scheduler of `sequences`.
class Scheduling : public testing::Test {
 protected:
  void Start(size_t sequences, size_t most_waiting = 64, size_t prompt_chunk = 5) {
    EngineOptions options = GoldenOptions("k3", 64, prompt_chunk);
    options.sequences = sequences;
    options.all_prompt_logits = true;
    scheduler_.reset();
    engine_.emplace(Engine::Open(options));
    scheduler_.emplace(*engine_,
                       SchedulerOptions{.sequences = sequences, .most_waiting = most_waiting});
  }

  std::shared_ptr<Collector> Submit(TextRequest request, bool hold = false) {
    auto collector = std::make_shared<Collector>();
    if (hold) collector->Hold();
    std::optional<Scheduler::Ticket> ticket = scheduler_->Submit(std::move(request), collector);
    EXPECT_TRUE(ticket.has_value());
    if (ticket) tickets_.push_back(std::move(*ticket));
    return collector;
  }

  TextResult Run(TextRequest request) { return Submit(std::move(request))->AwaitEnd(); }

  std::optional<Engine> engine_;
  std::optional<Scheduler> scheduler_;
  std::vector<Scheduler::Ticket> tickets_;
};

TEST_F(Scheduling, EightTextsAtOnceAreEachTheSameAsAlone) {
  Start(8);
  std::vector<std::shared_ptr<Collector>> collectors;
  for (size_t i = 0; i < 8; ++i) collectors.push_back(Submit(RequestOf(i)));
  for (size_t i = 0; i < 8; ++i) {
    const TextResult result = collectors[i]->AwaitEnd();
    EXPECT_FALSE(result.error);
    EXPECT_EQ(result.reason, StopReason::kMaxTokens);
    EXPECT_EQ(result.tokens, Alone(RequestOf(i))) << i;
  }
}

TEST_F(Scheduling, MoreTextsThanSequencesWaitAndAreTheSame) {
  Start(2);
  std::vector<std::shared_ptr<Collector>> collectors;
  for (size_t i = 0; i < 7; ++i) collectors.push_back(Submit(RequestOf(i)));
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(collectors[i]->AwaitEnd().tokens, Alone(RequestOf(i))) << i;
  }
}

TEST_F(Scheduling, APassWithFewerRowsThanTextsServesThemInTurns) {
  Start(4, 64, 1);
  ASSERT_EQ(engine_->max_rows(), 1U);
  std::vector<std::shared_ptr<Collector>> collectors;
  for (size_t i = 0; i < 4; ++i) collectors.push_back(Submit(RequestOf(i)));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(collectors[i]->AwaitEnd().tokens, Alone(RequestOf(i))) << i;
  }
}

TEST_F(Scheduling, TextsShareThePasses) {
  Start(4, 64, 0);
  const auto first = Submit(RequestOf(0), true);
  first->AwaitToken();
  std::vector<std::shared_ptr<Collector>> others;
  for (size_t i = 0; i < 3; ++i) {
    TextRequest request = RequestOf(0);
    request.max_tokens = 20;
    others.push_back(Submit(request));
  }
  const uint64_t before = scheduler_->status().engine.passes;
  first->LetGo();
  for (const auto& other : others) other->AwaitEnd();
  // Their prompts in one pass, and one for each further token.
  EXPECT_LE(scheduler_->status().engine.passes - before, 21U);
  EXPECT_GE(scheduler_->status().engine.rows, 3U * 21U);
}

TEST_F(Scheduling, WaitingTextsAreToldTheirPlaceAndTooManyAreRefused) {
  Start(1, 2);
  const auto first = Submit(RequestOf(0), true);
  first->AwaitToken();
  const auto second = Submit(RequestOf(1));
  const auto third = Submit(RequestOf(2));
  EXPECT_EQ(tickets_[0].progress().phase, TextProgress::Phase::kAnswer);
  EXPECT_EQ(tickets_[1].progress().phase, TextProgress::Phase::kWaiting);
  EXPECT_EQ(tickets_[1].progress().ahead, 0U);
  EXPECT_EQ(tickets_[2].progress().ahead, 1U);
  EXPECT_EQ(scheduler_->status().waiting, 2U);
  EXPECT_FALSE(scheduler_->Submit(RequestOf(3), std::make_shared<Collector>()).has_value());
  first->LetGo();
  EXPECT_EQ(third->AwaitEnd().tokens, Alone(RequestOf(2)));
  EXPECT_EQ(tickets_[2].progress().phase, TextProgress::Phase::kEnded);
  EXPECT_EQ(tickets_[2].progress().generated, RequestOf(2).max_tokens);
  EXPECT_TRUE(scheduler_->Submit(RequestOf(3), std::make_shared<Collector>()).has_value());
}

TEST_F(Scheduling, APromptThatContinuesAHeldTextCostsOnlyWhatIsNew) {
  Start(2);
  const TextRequest first = RequestOf(4);
  const TextResult result = Run(first);
  EXPECT_EQ(result.cached_tokens, 0U);
  EXPECT_EQ(scheduler_->status().held, 1U);
  TextRequest second = RequestOf(5);
  second.prompt = first.prompt;
  second.prompt.insert(second.prompt.end(), result.tokens.begin(), result.tokens.end());
  second.prompt.insert(second.prompt.end(), {3, 1, 4});
  const uint64_t rows = scheduler_->status().engine.rows;
  const TextResult continued = Run(second);
  // The last token of the first text has not been computed.
  EXPECT_EQ(continued.cached_tokens, first.prompt.size() + result.tokens.size() - 1);
  EXPECT_EQ(scheduler_->status().engine.rows - rows, 4 + second.max_tokens - 1);
  EXPECT_EQ(continued.tokens, Alone(second));
}

TEST_F(Scheduling, ThePromptOfAHeldTextItselfIsComputedAnew) {
  Start(1);
  const TextResult first = Run(RequestOf(4));
  const TextResult again = Run(RequestOf(4));
  EXPECT_EQ(again.cached_tokens, 0U);
  EXPECT_EQ(again.tokens, first.tokens);
}

TEST_F(Scheduling, TheLeastRecentlyUsedTextMakesRoom) {
  Start(2);
  const auto continued = [](const TextRequest& request, const TextResult& result) {
    TextRequest next = request;
    next.prompt.insert(next.prompt.end(), result.tokens.begin(), result.tokens.end());
    next.prompt.push_back(7);
    return next;
  };
  const TextResult old = Run(RequestOf(1));
  const TextResult recent = Run(RequestOf(2));
  Run(RequestOf(3));
  EXPECT_GT(Run(continued(RequestOf(2), recent)).cached_tokens, 0U);
  EXPECT_EQ(Run(continued(RequestOf(1), old)).cached_tokens, 0U);
}

// A folder of states between a first run and a second.
TEST(SchedulerCache, TextsThatLeftMemoryAreGoneOnWithAlsoInALaterRun) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "scheduler_cache";
  std::filesystem::remove_all(folder);
  EngineOptions options = GoldenOptions("k3");
  options.sequences = 1;
  options.sessions = true;
  std::vector<TextRequest> next;
  for (const bool later : {false, true}) {
    Engine engine = Engine::Open(options);
    Scheduler scheduler(engine, {.sequences = 1, .cache_dir = folder});
    const auto run = [&](const TextRequest& request) {
      const auto collector = std::make_shared<Collector>();
      const auto ticket = scheduler.Submit(request, collector);
      return collector->AwaitEnd();
    };
    if (!later) {
      for (const size_t i : {1, 2, 3}) {
        const TextResult result = run(RequestOf(i));
        EXPECT_EQ(result.cached_tokens, 0U);
        next.push_back(RequestOf(i));
        next.back().prompt.insert(next.back().prompt.end(), result.tokens.begin(),
                                  result.tokens.end());
      }
    }
    for (const size_t i : {0, 2, 1}) {
      const TextResult result = run(next[i]);
      EXPECT_EQ(result.cached_tokens, next[i].prompt.size() - 1) << i << later;
      EXPECT_EQ(result.tokens, Alone(next[i])) << i << later;
    }
  }
  std::filesystem::remove_all(folder);
}

TEST_F(Scheduling, ACancelledTextMakesRoomForTheNext) {
  Start(1);
  TextRequest endless = RequestOf(4);
  endless.max_tokens = 50;
  const auto first = Submit(endless, true);
  first->AwaitToken();
  const auto second = Submit(RequestOf(2));
  tickets_[0].Cancel();
  first->LetGo();
  const TextResult result = first->AwaitEnd();
  ASSERT_TRUE(result.error.has_value());
  EXPECT_EQ(result.error->kind(), ErrorKind::kInterrupted);
  EXPECT_LT(result.tokens.size(), 50U);
  EXPECT_EQ(second->AwaitEnd().tokens, Alone(RequestOf(2)));
  EXPECT_EQ(scheduler_->status().failed_passes, 0U);
}

// Its client goes away at any moment, and asks again: nothing of what was computed is lost.
TEST_F(Scheduling, AnAbandonedTextIsGoneOnWithWhereItStood) {
  for (int i = 0; i < 12; ++i) {
    Start(1);
    TextRequest request = RequestOf(7);
    request.max_tokens = 40;
    const auto first = Submit(request);
    first->AwaitToken();
    for (volatile int wait = 0; wait < i * 60000;) wait = wait + 1;
    tickets_.back().Cancel();
    first->AwaitEnd();
    TextRequest again = request;
    const std::vector<TokenId> answer = Alone(request);
    const size_t seen = first->chosen().size();
    again.prompt.insert(again.prompt.end(), answer.begin(),
                        answer.begin() + static_cast<ptrdiff_t>(seen));
    again.prompt.push_back(1);
    again.max_tokens = 2;
    again.sampling.temperature = 0;
    const TextResult result = Run(again);
    EXPECT_EQ(result.tokens, Alone(again));
    EXPECT_GE(result.cached_tokens + 1, request.prompt.size() + seen);
    EXPECT_EQ(scheduler_->status().failed_passes, 0U);
    tickets_.clear();
  }
}

// With states on disk, the state before the last question stays.
TEST(SchedulerStates, TheLastQuestionMayBePutInOtherWords) {
  const TemporaryFolder folder;
  EngineOptions options = GoldenOptions("k3", 64);
  options.sessions = true;
  Engine engine = Engine::Open(options);
  Scheduler scheduler(engine, {.sequences = 1, .cache_dir = folder.path()});
  const auto run = [&](const TextRequest& request) {
    const auto collector = std::make_shared<Collector>();
    const auto ticket = scheduler.Submit(request, collector);
    return collector->AwaitEnd();
  };
  const TextRequest first = RequestOf(5);
  const TextResult answer = run(first);
  TextRequest second = first;
  second.prompt.insert(second.prompt.end(), answer.tokens.begin(), answer.tokens.end());
  const size_t before = second.prompt.size() - 1;  // the last token has not been through the model
  for (const TokenId question : {3, 4, 3}) {
    TextRequest asked = second;
    asked.prompt.push_back(question);
    const TextResult result = run(asked);
    EXPECT_EQ(result.cached_tokens, before) << question;
    EXPECT_EQ(result.tokens, Alone(asked)) << question;
  }
}

TEST_F(Scheduling, ADestroyedTicketCancelsItsTextAlsoWhileItWaits) {
  Start(1);
  const auto first = Submit(RequestOf(0), true);
  first->AwaitToken();
  const auto second = Submit(RequestOf(1));
  const auto third = Submit(RequestOf(2));
  tickets_.erase(tickets_.begin() + 1);
  first->LetGo();
  EXPECT_TRUE(second->AwaitEnd().error.has_value());
  EXPECT_TRUE(second->AwaitEnd().tokens.empty());
  EXPECT_EQ(third->AwaitEnd().tokens, Alone(RequestOf(2)));
}

TEST_F(Scheduling, StopEndsEveryTextAndTakesNoMore) {
  Start(1);
  TextRequest endless = RequestOf(4);
  endless.max_tokens = 50;
  const auto first = Submit(endless, true);
  first->AwaitToken();
  const auto second = Submit(RequestOf(1));
  std::thread stopping([&] { scheduler_->Stop(); });
  // It waits for the text that is held.
  while (scheduler_->Submit(RequestOf(0), std::make_shared<Collector>()).has_value()) {
    std::this_thread::sleep_for(1ms);
  }
  first->LetGo();
  stopping.join();
  for (const auto& collector : {first, second}) {
    const TextResult result = collector->AwaitEnd();
    ASSERT_TRUE(result.error.has_value());
    EXPECT_EQ(result.error->kind(), ErrorKind::kInterrupted);
  }
  EXPECT_FALSE(scheduler_->Submit(RequestOf(0), std::make_shared<Collector>()).has_value());
  EXPECT_FALSE(engine_->interrupted());
}

TEST_F(Scheduling, WrongRequestsAreRefused) {
  Start(1);
  const auto refused = [&](TextRequest request) {
    EXPECT_THROW(scheduler_->Submit(std::move(request), std::make_shared<Collector>()), Error);
  };
  refused({.prompt = {}});
  refused({.prompt = std::vector<TokenId>(65, 1)});
  refused({.prompt = {-1}});
  refused({.prompt = {static_cast<TokenId>(engine_->vocabulary())}});
  refused({.prompt = {1}, .sampling = {.temperature = -1}});
}

TEST_F(Scheduling, AFullContextEndsATextAndNoTokensAreNone) {
  Start(1);
  TextRequest request = RequestOf(4);
  request.max_tokens = 1000000;
  const TextResult full = Run(request);
  EXPECT_EQ(full.reason, StopReason::kContextFull);
  EXPECT_EQ(full.tokens.size(), 64 - request.prompt.size() + 1);
  request.max_tokens = 0;
  const TextResult none = Run(request);
  EXPECT_EQ(none.reason, StopReason::kMaxTokens);
  EXPECT_TRUE(none.tokens.empty());
}

TEST_F(Scheduling, ProbabilitiesAreThoseOfTheLogits) {
  Start(1);
  TextRequest request = RequestOf(4);
  request.likely_tokens = 3;
  const auto collector = Submit(request);
  collector->AwaitEnd();
  Engine engine = Engine::Open(GoldenOptions("k3"));
  Sequence sequence = engine.NewSequence();
  std::vector<PassRow> rows;
  for (const TokenId token : request.prompt) rows.push_back({&sequence, token, false});
  rows.back().wants_logits = true;
  std::vector<float> logits(engine.vocabulary());
  engine.Forward(rows, logits);
  const ChosenToken first = collector->chosen().front();
  const double log_sum = LogSumExp(logits);
  EXPECT_FLOAT_EQ(
      first.logprob,
      static_cast<float>(static_cast<double>(logits[static_cast<size_t>(first.token)]) - log_sum));
  ASSERT_EQ(first.likely.size(), 3U);
  EXPECT_GE(first.likely[0].logprob, first.likely[1].logprob);
  EXPECT_GE(first.likely[0].logprob, first.logprob);
}

// Collects scores too.
class ScoreCollector : public Collector {
 public:
  void Score(const ChosenToken& token) override { scores.push_back(token); }
  std::vector<ChosenToken> scores;
};

// The scheduler of a part of the tests that scores.
class Scores : public Scheduling {
 protected:
  // The logits of each position of `prompt`.
  static std::vector<std::vector<float>> AllLogits(const std::vector<TokenId>& prompt) {
    EngineOptions options = GoldenOptions("k3");
    options.all_prompt_logits = true;
    Engine engine = Engine::Open(options);
    Sequence sequence = engine.NewSequence();
    std::vector<std::vector<float>> rows;
    Generate(engine, sequence, prompt,
             {.max_tokens = 0,
              .on_prompt_logits =
                  [&](size_t, std::span<const float> row) {
                    rows.emplace_back(row.begin(), row.end());
                  }},
             [](TokenId) { return true; });
    return rows;
  }

  TextResult RunScored(const TextRequest& request) {
    collector_ = std::make_shared<ScoreCollector>();
    std::optional<Scheduler::Ticket> ticket = scheduler_->Submit(request, collector_);
    return collector_->AwaitEnd();
  }

  // The scores are those of the logits, token by token.
  void ExpectScoresOf(const std::vector<TokenId>& prompt, size_t from) {
    const auto logits = AllLogits(prompt);
    ASSERT_EQ(collector_->scores.size(), prompt.size() - from);
    for (size_t i = from; i < prompt.size(); ++i) {
      const ChosenToken& scored = collector_->scores[i - from];
      EXPECT_EQ(scored.token, prompt[i]);
      const std::vector<float>& row = logits[i - 1];
      const auto logit = static_cast<double>(row[static_cast<size_t>(prompt[i])]);
      EXPECT_EQ(scored.logprob, static_cast<float>(logit - LogSumExp(row))) << i;
    }
  }

  std::shared_ptr<ScoreCollector> collector_;
};

TEST_F(Scores, AreThoseOfTheLogitsHoweverThePromptIsCut) {
  const std::vector<TokenId> prompt = GoldenIds("k3", "prompt_ids");
  for (const size_t chunk : {1, 5, 64}) {
    Start(2, 64, chunk);
    const TextResult result =
        RunScored({.prompt = prompt, .max_tokens = 0, .likely_tokens = 2, .score_from = 1});
    EXPECT_FALSE(result.error);
    EXPECT_TRUE(result.tokens.empty());
    ExpectScoresOf(prompt, 1);
    EXPECT_EQ(collector_->scores.back().likely.size(), 2U);
    EXPECT_EQ(scheduler_->status().scored_tokens, prompt.size() - 1);
  }
}

TEST_F(Scores, MayComeBeforeAnAnswer) {
  Start(1);
  TextRequest request = RequestOf(4);
  const std::vector<TokenId> alone = Alone(request);
  request.score_from = 2;
  EXPECT_EQ(RunScored(request).tokens, alone);
  ExpectScoresOf(request.prompt, 2);
}

TEST_F(Scores, NeedTheRowsThatAHeldTextHasSeen) {
  Start(1);
  const TextRequest first = RequestOf(4);
  TextRequest second = first;
  const TextResult result = Run(first);
  second.prompt.insert(second.prompt.end(), result.tokens.begin(), result.tokens.end());
  second.max_tokens = 0;
  // All of the text is held, but what is scored begins within it.
  second.score_from = first.prompt.size();
  EXPECT_EQ(RunScored(second).cached_tokens, 0U);
  ExpectScoresOf(second.prompt, first.prompt.size());
  EXPECT_THROW(
      scheduler_->Submit({.prompt = {1, 2}, .score_from = 2}, std::make_shared<Collector>()),
      Error);
  EXPECT_THROW(
      scheduler_->Submit({.prompt = {1, 2}, .score_from = 0}, std::make_shared<Collector>()),
      Error);
}

TEST_F(Scheduling, ATextThatWasBegunGoesOnAsIfItHadNeverStopped) {
  Start(2);
  for (const size_t i : {3, 4}) {  // greedy and drawn
    const std::vector<TokenId> whole = Alone(RequestOf(i));
    for (const size_t begun : {size_t{1}, whole.size() - 1, whole.size()}) {
      TextRequest request = RequestOf(i);
      request.begun.assign(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(begun));
      const auto collector = Submit(request);
      const TextResult result = collector->AwaitEnd();
      EXPECT_EQ(result.tokens, whole) << begun;
      EXPECT_EQ(result.reason, StopReason::kMaxTokens);
      // The consumer has had all of them, each once.
      ASSERT_EQ(collector->chosen().size(), whole.size());
      EXPECT_EQ(collector->chosen().back().token, whole.back());
      EXPECT_EQ(tickets_.back().progress().generated, whole.size());
    }
  }
  TextRequest wrong = RequestOf(3);
  wrong.begun = {1};
  wrong.likely_tokens = 1;
  EXPECT_THROW(scheduler_->Submit(wrong, std::make_shared<Collector>()), Error);
  wrong = RequestOf(3);
  wrong.begun.assign(64, 1);
  EXPECT_THROW(scheduler_->Submit(wrong, std::make_shared<Collector>()), Error);
}

TEST_F(Scheduling, ATextThatWasBegunAndHasNoRoomLeftIsFull) {
  Start(1);
  TextRequest request = RequestOf(4);
  request.max_tokens = 1000;
  const std::vector<TokenId> whole = Run(request).tokens;
  request.begun = whole;
  const TextResult result = Run(request);
  EXPECT_EQ(result.reason, StopReason::kContextFull);
  EXPECT_EQ(result.tokens, whole);
}

// Tells that its text ends, and takes its time over it.
class SlowEnd final : public Collector {
 public:
  void End(const TextResult& result) override {
    Collector::End(result);
    std::this_thread::sleep_for(100ms);
  }
};

TEST_F(Scheduling, AWishToStopThatComesWhileATextEndsIsNotMissed) {
  Start(1);
  TextRequest request = RequestOf(4);
  request.max_tokens = 1000;
  request.begun = Run(request).tokens;
  // This one ends as it is admitted.
  const auto slow = std::make_shared<SlowEnd>();
  const auto ticket = scheduler_->Submit(request, slow);
  ASSERT_TRUE(ticket.has_value());
  EXPECT_EQ(slow->AwaitEnd().reason, StopReason::kContextFull);
  scheduler_->Stop();
  EXPECT_EQ(scheduler_->status().running, 0U);
}

TEST_F(Scheduling, PromptsGoOnBesideManyAnswers) {
  Start(4, 64, 4);
  ASSERT_EQ(engine_->max_rows(), 4U);
  TextRequest endless = RequestOf(0);
  endless.max_tokens = 55;
  for (size_t i = 0; i < 3; ++i) Submit(endless)->AwaitToken();
  TextRequest longest = RequestOf(2);
  longest.prompt.assign(20, 7);
  longest.max_tokens = 1;
  EXPECT_EQ(Submit(longest)->AwaitEnd().tokens, Alone(longest));
}

// Allows one token alone, and counts.
class OneTokenOnly : public Collector {
 public:
  void Constrain(std::span<float> logits) override {
    const float kept = logits[9];
    std::ranges::fill(logits, -std::numeric_limits<float>::infinity());
    logits[9] = kept;
  }
};

// Guesses what known texts go on with.
class KnownTexts final : public Drafter {
 public:
  using Texts = std::vector<std::vector<TokenId>>;
  explicit KnownTexts(Texts texts) : texts_(std::move(texts)) {}
  std::vector<TokenId> Propose(std::span<const TokenId> text, size_t most) override {
    for (const std::vector<TokenId>& known : texts_) {
      if (text.size() >= known.size() ||
          !std::ranges::equal(text.first(2), std::span(known).first(2))) {
        continue;
      }
      const auto begin = known.begin() + static_cast<ptrdiff_t>(text.size());
      return {begin, begin + static_cast<ptrdiff_t>(std::min(most, known.size() - text.size()))};
    }
    return {};
  }

 private:
  Texts texts_;
};

class SchedulingGuesses : public Scheduling {
 protected:
  // Guesses at `known`, with prompts of several passes.
  void StartGuessing(size_t sequences, const KnownTexts::Texts& known, size_t context = 64) {
    EngineOptions options = GoldenOptions("k3", context, 5);
    options.sequences = sequences;
    options.tentative_rows = 3;
    scheduler_.reset();
    engine_.emplace(Engine::Open(options));
    scheduler_.emplace(*engine_, SchedulerOptions{.sequences = sequences, .make_drafter = [known] {
                                                    return std::make_unique<KnownTexts>(known);
                                                  }});
  }
  static std::vector<TokenId> Whole(const TextRequest& request) {
    std::vector<TokenId> text = request.prompt;
    const std::vector<TokenId> answer = Alone(request);
    text.insert(text.end(), answer.begin(), answer.end());
    return text;
  }
};

// How many are guessed depends on how long passes take, but for the first ones.
TEST_F(SchedulingGuesses, ATextAloneIsTheSameInFewerPasses) {
  for (const size_t i : {size_t{6}, size_t{7}}) {  // greedy and drawn
    TextRequest request = RequestOf(i);
    request.max_tokens = 24;
    std::vector<TokenId> known = Whole(request);
    known[known.size() - 5] = 0;  // one wrong guess
    StartGuessing(2, {known});
    EXPECT_EQ(Run(request).tokens, Alone(request));
    const EngineCounters counters = engine_->counters();
    EXPECT_GT(counters.accepted_rows, 0U);
    const size_t prompt_passes = (request.prompt.size() + 4) / 5;
    EXPECT_EQ(counters.passes + counters.accepted_rows, prompt_passes + request.max_tokens - 1);
    // The state that is held is of the text.
    request.prompt = Whole(request);
    const uint64_t rows = engine_->counters().rows;
    request.max_tokens = 1;
    EXPECT_EQ(Run(request).tokens, Alone(request));
    EXPECT_EQ(engine_->counters().rows, rows + 1);
  }
}

// Right guesses, wrong ones and none beside each other, prompts among them.
TEST_F(SchedulingGuesses, TextsTogetherAreTheSameAsAlone) {
  KnownTexts::Texts known;
  for (const size_t i : {4, 6, 7, 8}) {
    known.push_back(Whole(RequestOf(i)));
    const size_t answer = RequestOf(i).prompt.size();
    for (size_t t = answer + 2; t < known.back().size(); t += i) ++known.back()[t];
  }
  for (const size_t sequences : {2, 3, 5}) {
    StartGuessing(sequences, known);
    std::vector<std::shared_ptr<Collector>> collectors;
    for (size_t i = 3; i < 9; ++i) collectors.push_back(Submit(RequestOf(i)));
    for (size_t i = 3; i < 9; ++i) {
      EXPECT_EQ(collectors[i - 3]->AwaitEnd().tokens, Alone(RequestOf(i))) << i;
    }
  }
}

TEST_F(SchedulingGuesses, AWrongGuessLeavesTheOtherTextsOfItsPassTheirs) {
  std::vector<TextRequest> requests;
  KnownTexts::Texts known;
  for (const size_t i : {4, 5, 6}) {
    requests.push_back(RequestOf(i));
    requests.back().max_tokens = 24;
    known.push_back(Whole(requests.back()));
  }
  for (size_t wrong = 0; wrong < requests.size(); ++wrong) {
    KnownTexts::Texts guessed = known;
    for (size_t t = requests[wrong].prompt.size(); t < guessed[wrong].size(); ++t) {
      ++guessed[wrong][t];
    }
    StartGuessing(3, guessed);
    std::vector<std::shared_ptr<Collector>> collectors;
    collectors.push_back(Submit(requests[0], true));  // held until the others are there
    collectors[0]->AwaitToken();
    for (size_t i = 1; i < requests.size(); ++i) collectors.push_back(Submit(requests[i]));
    collectors[0]->LetGo();
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(collectors[i]->AwaitEnd().tokens, Alone(requests[i])) << i;
    }
    EXPECT_GT(engine_->counters().accepted_rows, 0U);
    EXPECT_LT(engine_->counters().accepted_rows, engine_->counters().tentative_rows);
  }
}

TEST_F(SchedulingGuesses, AFullContextEndsATextAsWithout) {
  TextRequest request = RequestOf(6);
  request.max_tokens = 1000;
  const size_t context = request.prompt.size() + 9;
  const std::vector<TokenId> expected = Alone(request, context);
  std::vector<TokenId> known = request.prompt;
  known.insert(known.end(), expected.begin(), expected.end());
  known.resize(known.size() + 10);
  StartGuessing(1, {known}, context);
  const TextResult result = Run(request);
  EXPECT_EQ(result.tokens, expected);
  EXPECT_EQ(result.reason, StopReason::kContextFull);
}

TEST_F(Scheduling, AConsumerMayForbidTokens) {
  Start(1);
  for (const float temperature : {0.0F, 1.0F}) {
    TextRequest request = RequestOf(4);
    request.sampling.temperature = temperature;
    const auto collector = std::make_shared<OneTokenOnly>();
    const auto ticket = scheduler_->Submit(request, collector);
    EXPECT_EQ(collector->AwaitEnd().tokens, std::vector<TokenId>(request.max_tokens, 9));
  }
}

// Throws at its first token.
class Throwing : public Collector {
 public:
  bool Take(const ChosenToken& /*token*/) override { throw std::runtime_error("no more room"); }
};

TEST_F(Scheduling, AConsumerThatFailsEndsItsTextAlone) {
  Start(2);
  const auto failing = std::make_shared<Throwing>();
  const auto ticket = scheduler_->Submit(RequestOf(1), failing);
  const auto other = Submit(RequestOf(2));
  ASSERT_TRUE(failing->AwaitEnd().error.has_value());
  EXPECT_STREQ(failing->AwaitEnd().error->what(), "no more room");
  EXPECT_EQ(other->AwaitEnd().tokens, Alone(RequestOf(2)));
}

// The drive fails and comes back: a shard is cut, and then is what it was.
TEST(SchedulerFaults, AFailedPassEndsItsTextsAndTheNextOnesRun) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "scheduler_faults";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(GoldenFolder("k3") / "checkpoint", folder);
  EngineOptions options = GoldenOptions("k3", 64);
  options.model_dir = folder;
  options.io = "buffered";
  options.expert_cache_bytes = 0;
  Engine engine = Engine::Open(options);
  Scheduler scheduler(engine, {.sequences = 2});
  const auto run = [&](size_t i) {
    const auto collector = std::make_shared<Collector>();
    const auto ticket = scheduler.Submit(RequestOf(i), collector);
    return collector->AwaitEnd();
  };
  EXPECT_EQ(run(1).tokens, Alone(RequestOf(1)));

  struct Shard {
    std::filesystem::path path;
    std::string bytes;
    std::filesystem::file_time_type time;
  };
  std::vector<Shard> shards;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    shards.push_back(
        {entry.path(), ReadWholeFile(entry.path(), uint64_t{1} << 30), entry.last_write_time()});
    std::filesystem::resize_file(entry.path(), 100);
  }
  ASSERT_FALSE(shards.empty());
  for (const size_t i : {2, 3}) {
    const TextResult result = run(i);
    ASSERT_TRUE(result.error.has_value());
    EXPECT_EQ(result.error->kind(), ErrorKind::kIo) << result.error->what();
  }
  EXPECT_EQ(scheduler.status().failed_passes, 2U);
  for (const Shard& shard : shards) {
    std::fstream file(shard.path, std::ios::in | std::ios::out | std::ios::binary);
    file.write(shard.bytes.data(), static_cast<std::streamsize>(shard.bytes.size()));
    file.close();
    std::filesystem::last_write_time(shard.path, shard.time);
  }
  EXPECT_EQ(run(4).tokens, Alone(RequestOf(4)));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kimi_k3

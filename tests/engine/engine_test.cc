// The engine: opening, passes over several sequences, and what remains after a failure.
#include "kimi_k3/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <stdexcept>
#include <thread>

#include "base/file.h"
#include "engine/golden_engine.h"
#include "engine/temporary_folder.h"
#include "kimi_k3/error.h"

namespace kimi_k3 {
namespace {

ErrorKind KindOf(const std::function<void()>& run, std::string* message = nullptr) {
  try {
    run();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::kRun;
}

TEST(EngineOpen, SaysWhatItOpened) {
  EngineOptions options = GoldenOptions("k3", 33, 5);
  options.threads = 2;
  const Engine engine = Engine::Open(options);
  EXPECT_EQ(engine.vocabulary(), 199U);
  EXPECT_EQ(engine.layers(), 7U);
  EXPECT_EQ(engine.context(), 33U);
  EXPECT_EQ(engine.max_rows(), 5U);
  EXPECT_EQ(engine.threads(), 2U);
  const std::string description = engine.Description();
  for (const char* part : {"kimi", "7 layers", "2 threads"}) {
    EXPECT_NE(description.find(part), std::string::npos) << description;
  }
}

TEST(EngineOpen, ChoosesThreadsPromptChunkAndContextWhereNoneAreAskedFor) {
  EngineOptions options = GoldenOptions("kimi-linear");
  options.threads = 0;
  options.context = 0;
  const Engine engine = Engine::Open(options);
  EXPECT_GE(engine.threads(), 1U);
  EXPECT_GE(engine.max_rows(), 2U);
  EXPECT_EQ(engine.context(), 2048U);
}

TEST(EngineOpen, HasRoomForAsManySequencesAsThePlan) {
  EngineOptions options = GoldenOptions("k3");
  options.sequences = 2;
  const Engine engine = Engine::Open(options);
  const Sequence first = engine.NewSequence();
  {
    const Sequence second = engine.NewSequence();
    EXPECT_EQ(KindOf([&] { engine.NewSequence(); }), ErrorKind::kBudget);
  }
  EXPECT_NO_THROW(engine.NewSequence());
}

TEST(EngineOpen, ABudgetThatIsTooSmallIsRefusedWithTheSmallestThatWouldDo) {
  EngineOptions options = GoldenOptions("k3");
  options.memory_bytes = 1000;
  std::string message;
  EXPECT_EQ(KindOf([&] { Engine::Open(options); }, &message), ErrorKind::kBudget);
  EXPECT_NE(message.find("MB"), std::string::npos) << message;
}

TEST(EngineOpen, RefusesWhatCannotBe) {
  std::string message;
  EngineOptions options = GoldenOptions("k3");
  options.model_dir = GoldenFolder("no-such-model");
  const ErrorKind kind = KindOf([&] { Engine::Open(options); }, &message);
  EXPECT_TRUE(kind == ErrorKind::kCheckpoint || kind == ErrorKind::kIo);
  EXPECT_NE(message.find("no-such-model"), std::string::npos) << message;

  options = GoldenOptions("k3");
  options.isa = "abacus";
  EXPECT_EQ(KindOf([&] { Engine::Open(options); }, &message), ErrorKind::kUsage);
  EXPECT_NE(message.find("abacus"), std::string::npos) << message;

  options = GoldenOptions("k3", 64, std::numeric_limits<size_t>::max());
  EXPECT_EQ(KindOf([&] { Engine::Open(options); }, &message), ErrorKind::kUsage);
  EXPECT_NE(message.find("prompt"), std::string::npos) << message;
}

TEST(EngineOpen, AContextBeyondTheModelsPositionsIsRefused) {
  const std::string config =
      ReadWholeFile(GoldenFolder("k3") / "checkpoint/config.json", uint64_t{1} << 20);
  const auto most =
      nlohmann::json::parse(config).at("text_config").at("max_position_embeddings").get<size_t>();
  EXPECT_EQ(Engine::Open(GoldenOptions("k3", most)).context(), most);
  for (const size_t context : {most + 1, std::numeric_limits<size_t>::max()}) {
    std::string message;
    EXPECT_EQ(KindOf([&] { Engine::Open(GoldenOptions("k3", context)); }, &message),
              ErrorKind::kUsage);
    EXPECT_NE(message.find(std::to_string(most)), std::string::npos) << message;
  }
}

TEST(EngineTokenizer, WithoutTokenizerFilesTheConfigSaysWhereATextEnds) {
  Engine engine = Engine::Open(GoldenOptions("k3"));
  const std::string config =
      ReadWholeFile(GoldenFolder("k3") / "checkpoint/config.json", uint64_t{1} << 20);
  const auto json = nlohmann::json::parse(config);
  const auto& text = json.contains("text_config") ? json.at("text_config") : json;
  EXPECT_EQ(engine.StopTokens(), std::vector<TokenId>{text.at("eos_token_id").get<TokenId>()});
  EXPECT_EQ(KindOf([&] { engine.tokenizer(); }), ErrorKind::kCheckpoint);
}

class Passes : public testing::Test {
 protected:
  // Logits of `tokens` at the end of `sequence`, in one pass.
  std::vector<float> Run(Sequence& sequence, std::span<const TokenId> tokens) {
    std::vector<PassRow> rows;
    for (const TokenId token : tokens) rows.push_back({&sequence, token, true});
    std::vector<float> logits(rows.size() * engine_.vocabulary());
    engine_.Forward(rows, logits);
    return logits;
  }
  std::vector<TokenId> TokensOf(const Sequence& sequence) {
    return {sequence.tokens().begin(), sequence.tokens().end()};
  }

  const std::vector<TokenId> tokens_ = {3, 1, 4, 1, 5};
  Engine engine_ = Engine::Open(GoldenOptions("k3", 8));
  Sequence a_ = engine_.NewSequence();
  Sequence b_ = engine_.NewSequence();
};

TEST_F(Passes, ASequenceKnowsItsTokensAndItsRoom) {
  EXPECT_TRUE(a_.tokens().empty());
  EXPECT_EQ(a_.room(), 8U);
  Run(a_, tokens_);
  EXPECT_EQ(TokensOf(a_), tokens_);
  EXPECT_EQ(a_.room(), 3U);
  EXPECT_TRUE(b_.tokens().empty());
  a_.Reset();
  EXPECT_TRUE(a_.tokens().empty());
  EXPECT_EQ(a_.room(), 8U);
}

TEST_F(Passes, AResetSequenceIsAsNew) {
  const std::vector<float> expected = Run(a_, tokens_);
  a_.Reset();
  EXPECT_EQ(Run(a_, tokens_), expected);
}

TEST_F(Passes, AreCounted) {
  Run(a_, tokens_);
  Run(b_, tokens_);
  Run(b_, std::vector<TokenId>{2});
  EXPECT_EQ(engine_.counters().passes, 3U);
  EXPECT_EQ(engine_.counters().rows, 2 * tokens_.size() + 1);
  EXPECT_EQ(engine_.counters().barriers, 0U);  // one thread
}

TEST_F(Passes, SurviveTheEngineAndTheSequenceBeingMoved) {
  const std::vector<float> expected = Run(a_, tokens_);
  Engine moved = std::move(engine_);
  Sequence sequence = std::move(b_);
  std::vector<PassRow> rows;
  for (const TokenId token : tokens_) rows.push_back({&sequence, token, true});
  std::vector<float> logits(expected.size());
  moved.Forward(rows, logits);
  EXPECT_EQ(logits, expected);
  engine_ = std::move(moved);
  a_.Reset();
  EXPECT_EQ(Run(a_, tokens_), expected);
}

TEST_F(Passes, WhatIsRefusedChangesNothing) {
  const std::vector<float> expected = Run(b_, tokens_);
  std::vector<float> logits(expected.size());
  std::string message;
  const TokenId vocabulary = static_cast<TokenId>(engine_.vocabulary());
  for (const TokenId token : {-1, vocabulary}) {
    const std::vector<PassRow> rows = {{&a_, 3, false}, {&a_, token, false}};
    EXPECT_EQ(KindOf([&] { engine_.Forward(rows, {}); }, &message), ErrorKind::kRun);
    EXPECT_NE(message.find(std::to_string(token)), std::string::npos) << message;
  }
  std::vector<PassRow> rows(9, {&a_, 1, false});
  EXPECT_EQ(KindOf([&] { engine_.Forward(rows, {}); }, &message), ErrorKind::kRun);
  EXPECT_NE(message.find("context is full"), std::string::npos) << message;
  EXPECT_TRUE(a_.intact());
  EXPECT_EQ(a_.room(), 8U);
  EXPECT_EQ(Run(a_, tokens_), expected);
}

TEST_F(Passes, MisuseLeavesTheSequencesIntact) {
  EXPECT_THROW(engine_.Forward({}, {}), std::logic_error);
  const std::vector<PassRow> apart = {{&a_, 1, false}, {&b_, 1, false}, {&a_, 1, false}};
  EXPECT_THROW(engine_.Forward(apart, {}), std::logic_error);
  const Engine other = Engine::Open(GoldenOptions("k3", 8));
  Sequence foreign = other.NewSequence();
  const std::vector<PassRow> mixed = {{&a_, 1, false}, {&foreign, 1, false}};
  EXPECT_THROW(engine_.Forward(mixed, {}), std::logic_error);
  const std::vector<PassRow> no_room = {{&a_, 1, true}};
  EXPECT_THROW(engine_.Forward(no_room, {}), std::logic_error);
  EXPECT_TRUE(a_.intact());
  EXPECT_TRUE(b_.intact());
}

TEST_F(Passes, ProgressIsToldLayerByLayer) {
  std::vector<size_t> layers;
  engine_.SetProgress([&](const PassProgress& progress) {
    layers.push_back(progress.layer);
    EXPECT_EQ(progress.layers, 7U);
    EXPECT_EQ(progress.rows, tokens_.size());
  });
  Run(a_, tokens_);
  EXPECT_EQ(layers, (std::vector<size_t>{1, 2, 3, 4, 5, 6, 7}));
  engine_.SetProgress({});
  Run(b_, tokens_);
  EXPECT_EQ(layers.size(), 7U);
}

// A pass that breaks spoils the sequences it had, and no others.
TEST_F(Passes, AfterAFailedPassItsSequencesAreRefusedUntilReset) {
  const std::vector<float> expected = Run(b_, tokens_);
  struct Broken {};
  for (size_t layer = 1; layer <= engine_.layers(); ++layer) {
    engine_.SetProgress([&](const PassProgress& progress) {
      if (progress.layer == layer) throw Broken();
    });
    EXPECT_THROW(Run(a_, tokens_), Broken);
    engine_.SetProgress({});
    EXPECT_FALSE(a_.intact());
    EXPECT_TRUE(b_.intact());
    std::string message;
    const uint64_t passes = engine_.counters().passes;
    EXPECT_EQ(KindOf([&] { Run(a_, tokens_); }, &message), ErrorKind::kRun);
    EXPECT_NE(message.find("start it anew"), std::string::npos) << message;
    EXPECT_EQ(engine_.counters().passes, passes);
    a_.Reset();
    EXPECT_TRUE(a_.intact());
    EXPECT_EQ(Run(a_, tokens_), expected);
    a_.Reset();
  }
}

// A sequence that is not intact must not drag down others that are in the same pass.
TEST_F(Passes, ARefusedPassLeavesItsOtherSequencesIntact) {
  engine_.Interrupt();
  EXPECT_EQ(KindOf([&] { Run(a_, tokens_); }), ErrorKind::kInterrupted);
  engine_.ClearInterrupt();
  const std::vector<PassRow> rows = {{&b_, 1, false}, {&a_, 1, false}};
  EXPECT_EQ(KindOf([&] { engine_.Forward(rows, {}); }), ErrorKind::kRun);
  EXPECT_TRUE(b_.intact());
  EXPECT_TRUE(b_.tokens().empty());
}

TEST_F(Passes, AnInterruptEndsThisPassAndEveryLaterOneUntilItIsCleared) {
  EXPECT_FALSE(engine_.interrupted());
  engine_.SetProgress([&](const PassProgress& progress) {
    if (progress.layer != 3) return;
    std::thread([&] { engine_.Interrupt(); }).join();
  });
  EXPECT_EQ(KindOf([&] { Run(a_, tokens_); }), ErrorKind::kInterrupted);
  EXPECT_TRUE(engine_.interrupted());
  engine_.SetProgress({});
  EXPECT_EQ(KindOf([&] { Run(b_, tokens_); }), ErrorKind::kInterrupted);
  engine_.ClearInterrupt();
  EXPECT_FALSE(engine_.interrupted());
  b_.Reset();
  EXPECT_EQ(Run(b_, tokens_).size(), tokens_.size() * engine_.vocabulary());
}

struct SmallerMemory {
  KvCacheType cache;
  StateType state;
  double most;  // squared error of the logits, relative
};

TEST_F(Passes, ASmallerCacheOrStateGivesSlightlyOtherLogitsWhateverTheChunksAndThreads) {
  const std::vector<float> exact = Run(a_, tokens_);
  for (const auto& [type, state_type, most] :
       {SmallerMemory{KvCacheType::kBf16, StateType::kF32, 1e-2},
        {KvCacheType::kQ8, StateType::kF32, 1e-2},
        {KvCacheType::kQ4, StateType::kF32, 1.0},
        {KvCacheType::kF32, StateType::kBf16, 1e-2},
        {KvCacheType::kQ8, StateType::kBf16, 2e-2}}) {
    EngineOptions options = GoldenOptions("k3", tokens_.size());
    options.kv_cache = type;
    options.state_type = state_type;
    options.sequences = 2;
    options.all_prompt_logits = true;
    Engine rounded = Engine::Open(options);
    Sequence whole = rounded.NewSequence();
    Sequence pieces = rounded.NewSequence();
    std::vector<PassRow> rows;
    for (const TokenId token : tokens_) rows.push_back({&whole, token, true});
    std::vector<float> logits(exact.size());
    rounded.Forward(rows, logits);
    std::vector<float> one_by_one(exact.size());
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const PassRow row = {&pieces, tokens_[i], true};
      rounded.Forward(
          std::span(&row, 1),
          std::span(one_by_one).subspan(i * rounded.vocabulary(), rounded.vocabulary()));
    }
    EXPECT_EQ(one_by_one, logits);
    options.threads = 3;
    options.prompt_chunk = 4;
    Engine others = Engine::Open(options);
    Sequence sequence = others.NewSequence();
    std::vector<float> in_chunks(exact.size());
    for (size_t i = 0; i < tokens_.size(); i += 4) {
      rows.clear();
      for (size_t j = i; j < std::min(i + 4, tokens_.size()); ++j) {
        rows.push_back({&sequence, tokens_[j], true});
      }
      others.Forward(rows, std::span(in_chunks).subspan(i * others.vocabulary(),
                                                        rows.size() * others.vocabulary()));
    }
    EXPECT_EQ(in_chunks, logits);
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      const double d = static_cast<double>(logits[i]) - static_cast<double>(exact[i]);
      difference += d * d;
      norm += static_cast<double>(exact[i]) * static_cast<double>(exact[i]);
    }
    EXPECT_GT(difference / norm, 1e-12);
    EXPECT_LT(difference / norm, most);
  }
}

// The first that the model would choose: as if its config said so.
TEST(EngineApproximations, FewerExpertsAreThoseOfAModelThatChoosesFewer) {
  const TemporaryFolder folder;
  const std::filesystem::path copy = folder.path() / "copy";
  std::filesystem::copy(GoldenFolder("k3") / "checkpoint", copy);
  std::string config = ReadWholeFile(copy / "config.json", uint64_t{1} << 20);
  const std::string chosen = "\"num_experts_per_token\": 3";
  ASSERT_NE(config.find(chosen), std::string::npos);
  config.replace(config.find(chosen), chosen.size(), "\"num_experts_per_token\": 2");
  std::ofstream(copy / "config.json") << config;
  const std::vector<TokenId> tokens = GoldenIds("k3", "prompt_ids");
  const auto logits_of = [&](const EngineOptions& options) {
    Engine engine = Engine::Open(options);
    Sequence sequence = engine.NewSequence();
    std::vector<PassRow> rows;
    for (const TokenId token : tokens) rows.push_back({&sequence, token, true});
    std::vector<float> logits(rows.size() * engine.vocabulary());
    engine.Forward(rows, logits);
    return logits;
  };
  EngineOptions fewer = GoldenOptions("k3");
  fewer.experts_per_token = 2;
  EngineOptions other = GoldenOptions("k3");
  other.model_dir = copy;
  EXPECT_EQ(logits_of(fewer), logits_of(other));
  fewer.experts_per_token = 3;
  EXPECT_EQ(logits_of(fewer), logits_of(GoldenOptions("k3")));
}

TEST(EngineApproximations, AreNamedAsFlagsAndOnlyWhereTheyChangeSomething) {
  EngineOptions options = GoldenOptions("k3");
  EXPECT_EQ(Engine::Open(options).approximations(), "");
  options.experts_per_token = 3;  // what the model says
  EXPECT_EQ(Engine::Open(options).approximations(), "");
  options.experts_per_token = 1;
  options.kv_cache = KvCacheType::kBf16;
  options.state_type = StateType::kBf16;
  const Engine engine = Engine::Open(options);
  EXPECT_EQ(engine.approximations(),
            "--kv-cache-quant bf16 --state-type bf16 --experts-per-token 1");
  EXPECT_THAT(engine.Description(), testing::HasSubstr("not the exact answers: --kv-cache-quant"));
  options.experts_per_token = 4;
  EXPECT_EQ(KindOf([&] { Engine::Open(options); }), ErrorKind::kUsage);
}

}  // namespace
}  // namespace kimi_k3

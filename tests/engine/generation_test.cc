// Generating text with the golden checkpoints, and the filter that finds stop texts.
#include "kimi_k3/generation.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>

#include "engine/golden_engine.h"
#include "kimi_k3/error.h"

namespace kimi_k3 {
namespace {

bool GoOn(TokenId /*token*/) { return true; }

class Generation : public testing::TestWithParam<std::string> {
 protected:
  std::vector<TokenId> prompt() const { return GoldenIds(GetParam(), "prompt_ids"); }
  std::vector<TokenId> greedy() const { return GoldenIds(GetParam(), "greedy_ids"); }
};

TEST_P(Generation, GreedyTokensAreTheGoldenOnesForEveryPromptChunk) {
  for (const size_t chunk : {0, 1, 3}) {
    Engine engine = Engine::Open(GoldenOptions(GetParam(), 64, chunk));
    Sequence sequence = engine.NewSequence();
    std::vector<TokenId> seen;
    const GenerationResult result =
        Generate(engine, sequence, prompt(), {.max_tokens = greedy().size(), .ignore_eos = true},
                 [&](TokenId token) {
                   seen.push_back(token);
                   return true;
                 });
    EXPECT_EQ(result.tokens, greedy());
    EXPECT_EQ(seen, greedy());
    EXPECT_EQ(result.reason, StopReason::kMaxTokens);
    // The sequence has seen all but the last token.
    std::vector<TokenId> expected = prompt();
    expected.insert(expected.end(), result.tokens.begin(), result.tokens.end() - 1);
    EXPECT_EQ(std::vector<TokenId>(sequence.tokens().begin(), sequence.tokens().end()), expected);
  }
}

// Allows one token, three times.
class ThreeTimes : public OutputConstraint {
 public:
  explicit ThreeTimes(TokenId token) : token_(token) {}
  void MaskLogits(std::span<float> logits) override {
    for (size_t i = 0; i < logits.size(); ++i) {
      if (i != static_cast<size_t>(token_)) logits[i] = -std::numeric_limits<float>::infinity();
    }
  }
  void Accept(TokenId token) override {
    EXPECT_EQ(token, token_);
    ++count_;
  }
  bool Ended() const override { return count_ == 3; }

 private:
  TokenId token_;
  size_t count_ = 0;
};

TEST_P(Generation, AConstraintChoosesAndEnds) {
  Engine engine = Engine::Open(GoldenOptions(GetParam(), 64, 0));
  Sequence sequence = engine.NewSequence();
  ThreeTimes constraint(5);
  const GenerationResult result =
      Generate(engine, sequence, prompt(),
               {.max_tokens = 9, .ignore_eos = true, .constraint = &constraint}, GoOn);
  EXPECT_EQ(result.tokens, (std::vector<TokenId>{5, 5, 5}));
  EXPECT_EQ(result.reason, StopReason::kEndOfText);
}

TEST_P(Generation, PromptLogitsAreTheGoldenOnesInOrder) {
  const std::string bytes =
      ReadWholeFile(GoldenFolder(GetParam()) / "prompt_logits.f32", uint64_t{1} << 24);
  std::vector<float> expected(bytes.size() / sizeof(float));
  std::memcpy(expected.data(), bytes.data(), bytes.size());
  Engine engine = Engine::Open(GoldenOptions(GetParam(), 64, 4));
  Sequence sequence = engine.NewSequence();
  std::vector<float> logits;
  std::vector<size_t> progress;
  const GenerationOptions options = {
      .max_tokens = 0,
      .on_prompt_logits =
          [&](size_t row, std::span<const float> values) {
            EXPECT_EQ(row * engine.vocabulary(), logits.size());
            logits.insert(logits.end(), values.begin(), values.end());
          },
      .on_prompt_progress = [&](size_t done) { progress.push_back(done); }};
  const GenerationResult result = Generate(engine, sequence, prompt(), options, GoOn);
  EXPECT_TRUE(result.tokens.empty());
  ASSERT_EQ(logits.size(), expected.size());
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    difference += std::pow(static_cast<double>(logits[i]) - static_cast<double>(expected[i]), 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  EXPECT_LE(std::sqrt(difference / norm), 1e-5);
  std::vector<size_t> steps;
  for (size_t done = 4; done < prompt().size() + 4; done += 4) {
    steps.push_back(std::min(done, prompt().size()));
  }
  EXPECT_EQ(progress, steps);
}

INSTANTIATE_TEST_SUITE_P(Golden, Generation,
                         testing::Values("k3", "kimi-linear", "grouped-latent", "odd-shapes"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

class Generating : public testing::Test {
 protected:
  const std::vector<TokenId> prompt_ = GoldenIds("k3", "prompt_ids");
  const std::vector<TokenId> greedy_ = GoldenIds("k3", "greedy_ids");
  Engine engine_ = Engine::Open(GoldenOptions("k3"));
  Sequence sequence_ = engine_.NewSequence();

  GenerationResult Run(const GenerationOptions& options) {
    return Generate(engine_, sequence_, prompt_, options, GoOn);
  }
};

// A copy of the golden checkpoint whose config names another token as the end of a text.
class CopyWithEndToken {
 public:
  explicit CopyWithEndToken(TokenId token) {
    std::filesystem::remove_all(folder_);
    std::filesystem::copy(GoldenFolder("k3") / "checkpoint", folder_,
                          std::filesystem::copy_options::recursive);
    const std::filesystem::path path = folder_ / "config.json";
    auto json = nlohmann::json::parse(ReadWholeFile(path, uint64_t{1} << 20));
    json.at("eos_token_id") = token;
    json.at("text_config").at("eos_token_id") = token;
    std::ofstream(path) << json;
  }
  CopyWithEndToken(const CopyWithEndToken&) = delete;
  CopyWithEndToken& operator=(const CopyWithEndToken&) = delete;
  ~CopyWithEndToken() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("kimi_k3_end_token_" + std::to_string(getpid()));
};

TEST_F(Generating, AStopTokenEndsTheTextAndIsNotPartOfIt) {
  for (const size_t end : {size_t{0}, size_t{6}, greedy_.size() - 1}) {
    const CopyWithEndToken copy(greedy_[end]);
    EngineOptions options = GoldenOptions("k3");
    options.model_dir = copy.folder();
    Engine engine = Engine::Open(options);
    Sequence sequence = engine.NewSequence();
    std::vector<TokenId> seen;
    const auto on_token = [&](TokenId token) {
      seen.push_back(token);
      return true;
    };
    const std::vector<TokenId> expected(greedy_.begin(),
                                        greedy_.begin() + static_cast<ptrdiff_t>(end));
    const GenerationResult result =
        Generate(engine, sequence, prompt_, {.max_tokens = greedy_.size()}, on_token);
    EXPECT_EQ(result.tokens, expected);
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(result.reason, StopReason::kEndOfText);
    sequence.Reset();
    EXPECT_EQ(Generate(engine, sequence, prompt_,
                       {.max_tokens = greedy_.size(), .ignore_eos = true}, on_token)
                  .tokens,
              greedy_);
  }
}

TEST_F(Generating, NoTokensAreNoneAndOneIsOne) {
  EXPECT_TRUE(Run({.max_tokens = 0, .ignore_eos = true}).tokens.empty());
  EXPECT_EQ(sequence_.tokens().size(), prompt_.size());
  sequence_.Reset();
  const GenerationResult one = Run({.max_tokens = 1, .ignore_eos = true});
  EXPECT_EQ(one.tokens, std::vector<TokenId>{greedy_[0]});
  EXPECT_EQ(one.reason, StopReason::kMaxTokens);
  EXPECT_EQ(sequence_.tokens().size(), prompt_.size());
}

TEST_F(Generating, GoesOnFromWhereItStopped) {
  const GenerationResult first = Run({.max_tokens = 5, .ignore_eos = true});
  const GenerationResult rest =
      Generate(engine_, sequence_, {&first.tokens.back(), 1},
               {.max_tokens = greedy_.size() - 5, .ignore_eos = true}, GoOn);
  EXPECT_EQ(rest.tokens, std::vector<TokenId>(greedy_.begin() + 5, greedy_.end()));
}

TEST_F(Generating, TheCallerStopsIt) {
  std::vector<TokenId> seen;
  const GenerationResult result =
      Generate(engine_, sequence_, prompt_, {.ignore_eos = true}, [&](TokenId token) {
        seen.push_back(token);
        return seen.size() < 3;
      });
  EXPECT_EQ(result.reason, StopReason::kCaller);
  EXPECT_EQ(result.tokens, std::vector<TokenId>(greedy_.begin(), greedy_.begin() + 3));
  EXPECT_EQ(seen, result.tokens);
}

TEST_F(Generating, AFullContextEndsTheTextWithItsLastToken) {
  Engine engine = Engine::Open(GoldenOptions("k3", prompt_.size() + 2));
  Sequence sequence = engine.NewSequence();
  const GenerationResult result =
      Generate(engine, sequence, prompt_, {.max_tokens = 10, .ignore_eos = true}, GoOn);
  EXPECT_EQ(result.reason, StopReason::kContextFull);
  // The token after the last position is known though it can no longer be seen.
  EXPECT_EQ(result.tokens, std::vector<TokenId>(greedy_.begin(), greedy_.begin() + 3));
  EXPECT_EQ(sequence.room(), 0U);
  EXPECT_TRUE(sequence.intact());
}

TEST_F(Generating, APromptThatDoesNotFitIsRefusedBeforeAnythingIsComputed) {
  for (const size_t context : {size_t{1}, prompt_.size() - 1}) {
    Engine engine = Engine::Open(GoldenOptions("k3", context));
    Sequence sequence = engine.NewSequence();
    try {
      Generate(engine, sequence, prompt_, {}, GoOn);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find("-c"), std::string::npos) << error.what();
    }
    EXPECT_EQ(engine.counters().passes, 0U);
    EXPECT_TRUE(sequence.tokens().empty());
    EXPECT_TRUE(sequence.intact());
  }
  // One that just fits is taken.
  Engine engine = Engine::Open(GoldenOptions("k3", prompt_.size()));
  Sequence sequence = engine.NewSequence();
  EXPECT_EQ(Generate(engine, sequence, prompt_, {.max_tokens = 1, .ignore_eos = true}, GoOn).tokens,
            std::vector<TokenId>{greedy_[0]});
}

TEST_F(Generating, AnEmptyPromptAndWrongOptionsAreRefused) {
  const auto kind_of = [&](std::span<const TokenId> prompt, const GenerationOptions& options) {
    try {
      Generate(engine_, sequence_, prompt, options, GoOn);
    } catch (const Error& error) {
      return error.kind();
    }
    ADD_FAILURE() << "no error";
    return ErrorKind::kRun;
  };
  EXPECT_EQ(kind_of({}, {}), ErrorKind::kUsage);
  EXPECT_EQ(kind_of(prompt_, {.sampling = {.temperature = -1}}), ErrorKind::kUsage);
  EXPECT_EQ(engine_.counters().passes, 0U);
}

TEST_F(Generating, AnInterruptionIsAResultThatKeepsWhatCameBefore) {
  std::vector<TokenId> seen;
  const GenerationResult result =
      Generate(engine_, sequence_, prompt_, {.ignore_eos = true}, [&](TokenId token) {
        seen.push_back(token);
        if (seen.size() == 4) engine_.Interrupt();
        return true;
      });
  EXPECT_EQ(result.reason, StopReason::kInterrupted);
  EXPECT_EQ(result.tokens, std::vector<TokenId>(greedy_.begin(), greedy_.begin() + 4));
  EXPECT_FALSE(sequence_.intact());
  engine_.ClearInterrupt();
  sequence_.Reset();
  EXPECT_EQ(Run({.max_tokens = 4, .ignore_eos = true}).tokens, result.tokens);
}

TEST_F(Generating, AnInterruptionDuringThePromptHasNoTokens) {
  engine_.SetProgress([&](const PassProgress& progress) {
    if (progress.layer == 2) engine_.Interrupt();
  });
  const GenerationResult result = Run({.ignore_eos = true});
  EXPECT_EQ(result.reason, StopReason::kInterrupted);
  EXPECT_TRUE(result.tokens.empty());
  EXPECT_FALSE(sequence_.intact());
}

// Draws by seed: what another sequence does in the same passes changes nothing.
TEST_F(Generating, ASeededTextIsTheSameInCompanyAsAlone) {
  constexpr size_t kTokens = 12;
  const std::vector<TokenId> prompts[] = {prompt_, {5, 4, 3}};
  const SamplingOptions sampling[] = {{.temperature = 1.5F, .seed = 1},
                                      {.temperature = 1.0F, .top_p = 0.9F, .seed = 2}};
  std::vector<TokenId> alone[2];
  for (size_t s = 0; s < 2; ++s) {
    Sequence sequence = engine_.NewSequence();
    alone[s] = Generate(engine_, sequence, prompts[s],
                        {.max_tokens = kTokens, .sampling = sampling[s], .ignore_eos = true}, GoOn)
                   .tokens;
  }
  Sequence sequences[] = {engine_.NewSequence(), engine_.NewSequence()};
  Sampler samplers[] = {Sampler(sampling[0]), Sampler(sampling[1])};
  std::vector<PassRow> rows;
  for (size_t s = 0; s < 2; ++s) {
    for (const TokenId token : prompts[s]) rows.push_back({&sequences[s], token, false});
    rows.back().wants_logits = true;
  }
  std::vector<TokenId> together[2];
  std::vector<float> logits(2 * engine_.vocabulary());
  for (size_t n = 0; n < kTokens; ++n) {
    engine_.Forward(rows, logits);
    rows.clear();
    for (size_t s = 0; s < 2; ++s) {
      const auto own = std::span(logits).subspan(s * engine_.vocabulary(), engine_.vocabulary());
      together[s].push_back(samplers[s].Sample(own, sequences[s].tokens()));
      rows.push_back({&sequences[s], together[s].back(), true});
    }
  }
  EXPECT_EQ(together[0], alone[0]);
  EXPECT_EQ(together[1], alone[1]);
}

TEST(StopReasons, AllHaveNamesOfTheirOwn) {
  std::vector<std::string_view> names;
  for (const StopReason reason :
       {StopReason::kEndOfText, StopReason::kCaller, StopReason::kMaxTokens,
        StopReason::kContextFull, StopReason::kInterrupted}) {
    names.push_back(StopReasonName(reason));
  }
  EXPECT_EQ(names, (std::vector<std::string_view>{"end of text", "stopped", "token limit",
                                                  "context full", "interrupted"}));
}

// What a filter gives out for a text that comes in these pieces.
struct Filtered {
  std::string shown;
  bool stopped = false;
};

Filtered Filter(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopTextFilter filter(stops);
  Filtered result;
  for (const std::string& piece : pieces) result.shown += filter.Append(piece);
  result.stopped = filter.stopped();
  result.shown += filter.Flush();
  EXPECT_EQ(filter.Flush(), "");
  return result;
}

// The same by trying every place, byte by byte: the stop text that ends first, the longest of
// those.
Filtered Expected(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      const bool ends =
          stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0;
      if (ends) longest = std::max(longest, stop.size());
    }
    if (longest != 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

std::vector<std::string> CutAtRandom(const std::string& text, std::mt19937& random) {
  std::vector<std::string> pieces;
  for (size_t done = 0; done < text.size();) {
    const size_t count = random() % 5;  // sometimes nothing
    pieces.push_back(text.substr(done, count));
    done += count;
  }
  return pieces;
}

TEST(StopTextFilter, RandomCutsOfRandomTextsGiveWhatTheWholeGives) {
  std::mt19937 random(11);
  const auto random_text = [&](size_t most) {
    std::string text(1 + random() % most, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  size_t stopped = 0;
  for (size_t round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = random_text(6);
    const std::string text = random_text(40);
    const Filtered expected = Expected(stops, text);
    for (size_t cut = 0; cut < 4; ++cut) {
      const Filtered result =
          Filter(stops, cut == 0 ? std::vector{text} : CutAtRandom(text, random));
      ASSERT_EQ(result.shown, expected.shown) << text << " " << testing::PrintToString(stops);
      ASSERT_EQ(result.stopped, expected.stopped) << text << " " << testing::PrintToString(stops);
    }
    stopped += expected.stopped ? 1U : 0U;
  }
  EXPECT_GT(stopped, 500U);
  EXPECT_LT(stopped, 2500U);
}

TEST(StopTextFilter, HoldsBackOnlyWhatMayBeginAStopText) {
  StopTextFilter filter({"</end>", "STOP"});
  EXPECT_EQ(filter.Append("some text"), "some text");
  EXPECT_EQ(filter.Append(" and <"), " and ");
  EXPECT_EQ(filter.Append("/en"), "");
  EXPECT_EQ(filter.Append("ough ST"), "</enough ");
  EXPECT_EQ(filter.Append("</"), "ST");
  EXPECT_FALSE(filter.stopped());
  EXPECT_EQ(filter.Append("end> and more"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.Append("STOP nothing follows"), "");
  EXPECT_EQ(filter.Flush(), "");
}

TEST(StopTextFilter, WhatWasHeldBackComesOutAtTheEnd) {
  StopTextFilter filter({"stop"});
  EXPECT_EQ(filter.Append("a sto"), "a ");
  EXPECT_EQ(filter.Flush(), "sto");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopTextFilter, HoldsBackABeginningWithinABeginning) {
  StopTextFilter filter({"aab"});
  EXPECT_EQ(filter.Append("aa"), "");
  EXPECT_EQ(filter.Append("a"), "a");
  EXPECT_EQ(filter.Append("b"), "");
  EXPECT_TRUE(filter.stopped());
}

TEST(StopTextFilter, OverlappingStopTextsCountByTheirEnd) {
  for (const std::vector<std::string>& pieces :
       {std::vector<std::string>{"xabcd"}, {"x", "a", "b", "c", "d"}, {"xab", "cd"}}) {
    EXPECT_EQ(Filter({"abcd", "bc"}, pieces).shown, "xa");
    EXPECT_EQ(Filter({"bc", "abc"}, pieces).shown, "x");
    EXPECT_EQ(Filter({"abc", "bc"}, pieces).shown, "x");
  }
}

TEST(StopTextFilter, EmptyStopTextsAreIgnored) {
  StopTextFilter none({});
  EXPECT_EQ(none.Append("all of it"), "all of it");
  StopTextFilter empty({"", ""});
  EXPECT_EQ(empty.Append("all of it"), "all of it");
  EXPECT_FALSE(empty.stopped());
}

}  // namespace
}  // namespace kimi_k3

// States on disk: found again, in bounds, and refused where they are damaged.
#include "engine/state_cache.h"

#include <gtest/gtest.h>

#include <fstream>

#include "engine/golden_engine.h"
#include "kimi_k3/error.h"
#include "kimi_k3/generation.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kPlenty = uint64_t{1} << 40;

class States : public testing::Test {
 protected:
  States()
      : folder_(std::filesystem::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()),
        engine_(Engine::Open(Options())) {
    std::filesystem::remove_all(folder_);
  }
  ~States() override { std::filesystem::remove_all(folder_); }

  static EngineOptions Options() {
    EngineOptions options = GoldenOptions("k3");
    options.sessions = true;
    return options;
  }

  static std::vector<TokenId> Prompt(size_t length) {
    std::vector<TokenId> prompt(length);
    for (size_t i = 0; i < length; ++i) prompt[i] = static_cast<TokenId>(i % 7);
    return prompt;
  }

  std::vector<TokenId> Continue(Sequence& sequence, std::vector<TokenId> prompt) {
    return Generate(engine_, sequence, prompt, {.max_tokens = 5, .ignore_eos = true},
                    [](TokenId) { return true; })
        .tokens;
  }

  std::filesystem::path folder_;
  Engine engine_;
};

TEST_F(States, AreFoundAgainByWhatContinuesThemAlsoInAnotherRun) {
  Sequence sequence = engine_.NewSequence();
  Continue(sequence, Prompt(10));
  const std::vector<TokenId> text(sequence.tokens().begin(), sequence.tokens().end());
  {
    StateCache cache(folder_, kPlenty);
    EXPECT_TRUE(cache.Save(engine_, sequence));
    EXPECT_TRUE(cache.Save(engine_, sequence));
    EXPECT_EQ(cache.files(), 1U);
  }
  StateCache cache(folder_, kPlenty);
  ASSERT_EQ(cache.files(), 1U);
  EXPECT_EQ(cache.TokensFor(text), 0U);  // nothing would be left to compute
  std::vector<TokenId> longer = text;
  longer.push_back(3);
  EXPECT_EQ(cache.TokensFor(longer), text.size());
  longer[2] ^= 1;
  EXPECT_EQ(cache.TokensFor(longer), 0U);
  longer[2] ^= 1;
  Sequence loaded = engine_.NewSequence();
  ASSERT_TRUE(cache.Load(engine_, loaded, longer));
  EXPECT_EQ(Continue(loaded, {3}), Continue(sequence, {3}));
  ASSERT_TRUE(cache.Load(engine_, loaded, longer));  // as often as it is needed
}

TEST_F(States, OfEnginesWithOtherApproximationsAreLeftAlone) {
  Sequence sequence = engine_.NewSequence();
  Continue(sequence, Prompt(10));
  EXPECT_TRUE(StateCache(folder_, kPlenty).Save(engine_, sequence));
  {
    StateCache other(folder_, kPlenty, "--overlay q8:12345678");
    EXPECT_EQ(other.files(), 0U);
    EXPECT_TRUE(other.Save(engine_, sequence));
  }
  size_t files = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(folder_)) ++files;
  EXPECT_EQ(files, 2U);
}

TEST_F(States, TheLongestTextCounts) {
  StateCache cache(folder_, kPlenty);
  for (const size_t length : {5, 9, 7}) {
    Sequence sequence = engine_.NewSequence();
    Continue(sequence, Prompt(length));
    sequence.Reset();
    std::vector<PassRow> rows;
    for (const TokenId token : Prompt(length)) rows.push_back({&sequence, token, false});
    engine_.Forward(rows, {});
    EXPECT_TRUE(cache.Save(engine_, sequence));
  }
  EXPECT_EQ(cache.TokensFor(Prompt(20)), 9U);
  EXPECT_EQ(cache.TokensFor(Prompt(9)), 7U);
  EXPECT_EQ(cache.TokensFor(Prompt(5)), 0U);
}

TEST_F(States, TheLeastRecentlyUsedMakesRoom) {
  Sequence sequence = engine_.NewSequence();
  Continue(sequence, Prompt(5));
  uint64_t one = 0;
  {
    StateCache cache(folder_, kPlenty);
    ASSERT_TRUE(cache.Save(engine_, sequence));
    one = cache.bytes();
  }
  StateCache cache(folder_, one * 5 / 2);
  Continue(sequence, {1});
  EXPECT_TRUE(cache.Save(engine_, sequence));
  EXPECT_EQ(cache.files(), 2U);
  Continue(sequence, {2});
  EXPECT_TRUE(cache.Save(engine_, sequence));
  EXPECT_LE(cache.bytes(), one * 5 / 2);
  EXPECT_EQ(cache.TokensFor(Prompt(6)), 0U);  // the first has gone
}

TEST_F(States, DamagedFilesAreSetAsideAndForeignOnesLeftAlone) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "text-0123.session") << "no session";
  std::ofstream(folder_ / "notes.txt") << "mine";
  StateCache cache(folder_, kPlenty);
  EXPECT_EQ(cache.files(), 0U);
  Sequence sequence = engine_.NewSequence();
  Continue(sequence, Prompt(5));
  std::vector<TokenId> longer(sequence.tokens().begin(), sequence.tokens().end());
  longer.push_back(1);
  ASSERT_TRUE(cache.Save(engine_, sequence));
  for (const auto& file : std::filesystem::directory_iterator(folder_)) {
    if (file.file_size() > 100) std::filesystem::resize_file(file.path(), file.file_size() - 9);
  }
  EXPECT_FALSE(cache.Load(engine_, sequence, longer));
  EXPECT_TRUE(sequence.tokens().empty());
  EXPECT_TRUE(sequence.intact());
  EXPECT_EQ(cache.TokensFor(longer), 0U);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "notes.txt"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "text-0123.session"));
}

TEST_F(States, AFolderThatCannotBeIsAnError) {
  EXPECT_THROW(StateCache("/dev/null/states", kPlenty), Error);
}

}  // namespace
}  // namespace kimi_k3

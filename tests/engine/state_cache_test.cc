// States on disk: found again, in bounds, and refused where they are damaged.
#include "engine/state_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>

#include "base/file.h"
#include "engine/golden_engine.h"
#include "kimi_k3/error.h"
#include "kimi_k3/generation.h"
#include "kimi_k3/session.h"

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

  size_t FileCount() const {
    const std::filesystem::directory_iterator files(folder_);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  // Collects what the cache tells.
  StateCache::Tell Teller() {
    return [this](const std::string& line) { told_.push_back(line); };
  }

  std::filesystem::path folder_;
  Engine engine_;
  std::vector<std::string> told_;
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

TEST_F(States, OfEnginesWithOtherApproximationsAreNotUsedButCount) {
  Sequence sequence = engine_.NewSequence();
  Continue(sequence, Prompt(10));
  EXPECT_TRUE(StateCache(folder_, kPlenty).Save(engine_, sequence));
  const std::filesystem::path first = std::filesystem::directory_iterator(folder_)->path();
  {
    StateCache other(folder_, kPlenty, "--overlay q8:12345678");
    EXPECT_EQ(other.files(), 0U);
    EXPECT_TRUE(other.Save(engine_, sequence));
  }
  EXPECT_EQ(FileCount(), 2U);
  const uint64_t both = StateCache(folder_, kPlenty).bytes();
  EXPECT_EQ(StateCache(folder_, both).bytes(), both);
  const StateCache smaller(folder_, both - 1, "--overlay q8:12345678");
  EXPECT_EQ(FileCount(), 1U);
  EXPECT_FALSE(std::filesystem::exists(first));  // the least recently used
}

TEST_F(States, ThatWereUsedStayAlsoOverARun) {
  Sequence sequence = engine_.NewSequence();
  std::vector<TokenId> first;
  {
    StateCache cache(folder_, kPlenty);
    Continue(sequence, Prompt(5));
    first.assign(sequence.tokens().begin(), sequence.tokens().end());
    first.push_back(1);
    ASSERT_TRUE(cache.Save(engine_, sequence));
    Continue(sequence, {2});
    ASSERT_TRUE(cache.Save(engine_, sequence));
    ASSERT_TRUE(cache.Load(engine_, sequence, first));
  }
  const uint64_t both = StateCache(folder_, kPlenty).bytes();
  const StateCache cache(folder_, both - 1);
  EXPECT_EQ(cache.TokensFor(first), first.size() - 1);
}

TEST_F(States, AFullDriveMakesTheOldestMakeRoom) {
  StateCache cache(folder_, kPlenty, {}, Teller());
  Sequence sequence = engine_.NewSequence();
  Continue(sequence, Prompt(5));
  ASSERT_TRUE(cache.Save(engine_, sequence));
  size_t refusals = 1;
  cache.SetWriter([&](const Engine& engine, const Sequence& from, const auto& path) {
    if (refusals > 0) {
      --refusals;
      throw NoSpaceError("the drive is full");
    }
    SaveSession(engine, from, path, "");
  });
  Continue(sequence, {2});
  EXPECT_TRUE(cache.Save(engine_, sequence));
  EXPECT_EQ(FileCount(), 1U);
  EXPECT_EQ(cache.TokensFor(Prompt(6)), 0U);  // the first has gone
  EXPECT_TRUE(told_.empty());
}

TEST_F(States, WhatStaysFullIsToldOnceUntilItWorksAgain) {
  StateCache cache(folder_, kPlenty, {}, Teller());
  Sequence sequence = engine_.NewSequence();
  Continue(sequence, Prompt(5));
  for (TokenId token = 1; token < 9; ++token) {
    ASSERT_TRUE(cache.Save(engine_, sequence));
    Continue(sequence, {token});
  }
  bool full = true;
  cache.SetWriter([&](const Engine& engine, const Sequence& from, const auto& path) {
    if (full) throw NoSpaceError("the drive is full");
    SaveSession(engine, from, path, "");
  });
  EXPECT_FALSE(cache.Save(engine_, sequence));
  const size_t left = FileCount();
  EXPECT_GE(left, 1U);  // not all are given up for nothing
  for (TokenId token = 1; token < 4; ++token) {
    Continue(sequence, {token});
    EXPECT_FALSE(cache.Save(engine_, sequence));
  }
  EXPECT_EQ(FileCount(), left);
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_THAT(told_[0], testing::HasSubstr("the drive is full"));
  full = false;
  EXPECT_TRUE(cache.Save(engine_, sequence));
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_THAT(told_[1], testing::HasSubstr("kept again"));
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

TEST_F(States, DamagedFilesAreRemovedAndForeignOnesLeftAlone) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "text-0123.session") << "no session";
  std::ofstream(folder_ / "notes.txt") << "mine";
  StateCache cache(folder_, kPlenty, {}, Teller());
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
  EXPECT_EQ(FileCount(), 2U);
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_THAT(told_[0], testing::HasSubstr(folder_.string()));
  EXPECT_THAT(told_[0], testing::HasSubstr("damaged"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "notes.txt"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "text-0123.session"));
}

TEST_F(States, WhatIsDamagedAtTheStartIsRemovedWithALine) {
  Sequence sequence = engine_.NewSequence();
  Continue(sequence, Prompt(5));
  ASSERT_TRUE(StateCache(folder_, kPlenty).Save(engine_, sequence));
  std::filesystem::path state;
  for (const auto& file : std::filesystem::directory_iterator(folder_)) state = file.path();
  std::filesystem::copy_file(state, state.string() + ".refused");
  std::filesystem::copy_file(state, state.string() + ".12.partial");
  std::filesystem::last_write_time(
      state.string() + ".12.partial",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  std::filesystem::copy_file(state, state.string() + ".13.partial");  // somebody may be writing it
  std::filesystem::resize_file(state, 100);
  const StateCache cache(folder_, kPlenty, {}, Teller());
  EXPECT_EQ(cache.files(), 0U);
  EXPECT_EQ(told_.size(), 3U);
  EXPECT_EQ(FileCount(), 1U);
  EXPECT_TRUE(std::filesystem::exists(state.string() + ".13.partial"));
}

TEST_F(States, WhatIsNoStateOfThisVersionIsLeftAsideWithALine) {
  Sequence sequence = engine_.NewSequence();
  Continue(sequence, Prompt(5));
  ASSERT_TRUE(StateCache(folder_, kPlenty).Save(engine_, sequence));
  const std::filesystem::path state = std::filesystem::directory_iterator(folder_)->path();
  std::filesystem::resize_file(state, 0);
  const StateCache cache(folder_, kPlenty, {}, Teller());
  EXPECT_EQ(cache.files(), 0U);
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_NE(told_[0].find(state.filename().string()), std::string::npos) << told_[0];
  EXPECT_TRUE(std::filesystem::exists(state));
}

TEST_F(States, AStateThatAnotherServerHasRemovedIsForgotten) {
  StateCache cache(folder_, kPlenty, {}, Teller());
  Sequence sequence = engine_.NewSequence();
  Continue(sequence, Prompt(5));
  std::vector<TokenId> longer(sequence.tokens().begin(), sequence.tokens().end());
  longer.push_back(1);
  ASSERT_TRUE(cache.Save(engine_, sequence));
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directories(folder_);
  EXPECT_TRUE(cache.Save(engine_, sequence));
  EXPECT_EQ(FileCount(), 1U);
  std::filesystem::remove_all(folder_);
  EXPECT_FALSE(cache.Load(engine_, sequence, longer));
  EXPECT_EQ(cache.files(), 0U);
  EXPECT_TRUE(told_.empty());
}

TEST_F(States, AFolderThatCannotBeIsAnError) {
  EXPECT_THROW(StateCache("/dev/null/states", kPlenty), Error);
}

}  // namespace
}  // namespace kimi_k3

// Turns on disk: found again, in bounds, and removed where they are damaged or lie.
#include "server/turn_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "base/file.h"
#include "base/fnv_hash.h"
#include "kimi_k3/chat_parser.h"
#include "server/turn_memory.h"

namespace kimi_k3::server {
namespace {

constexpr uint64_t kPlenty = uint64_t{1} << 30;
constexpr TurnKey kBefore = {1, 2};

const Tokenizer& TinyTokenizer() {
  static const Tokenizer tokenizer = Tokenizer::Load(KIMI_K3_SOURCE_DIR "/models/tiny");
  return tokenizer;
}

// As one that was generated.
GeneratedTurn Turn(const std::string& content) {
  const std::vector<TokenId> ids = TinyTokenizer().Encode(content, SpecialText::kPlain);
  GeneratedTurn turn;
  turn.start = Channel::kResponse;
  turn.ids = ChatParser::CompleteTurn(TinyTokenizer(), ids, turn.start);
  turn.content = ParseTurn(TinyTokenizer(), turn.ids, turn.start).content;
  EXPECT_EQ(turn.content, content);
  return turn;
}

bool Any(const GeneratedTurn& /*turn*/) { return true; }

class TurnStores : public testing::Test {
 protected:
  TurnStores()
      : folder_(std::filesystem::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
  }
  ~TurnStores() override { std::filesystem::remove_all(folder_); }

  TurnStore Open(uint64_t most_bytes = kPlenty) {
    return TurnStore(folder_, most_bytes, TinyTokenizer(),
                     [this](const std::string& line) { told_.push_back(line); });
  }
  size_t FileCount() const {
    const std::filesystem::directory_iterator files(folder_);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }
  std::filesystem::path TheFile() const {
    return std::filesystem::directory_iterator(folder_)->path();
  }

  std::filesystem::path folder_;
  std::vector<std::string> told_;
};

TEST_F(TurnStores, TurnsAreFoundAgainByALaterRun) {
  Open().Save(kBefore, Turn("hello"));
  {
    TurnStore store = Open();
    store.Save(kBefore, Turn("hello"));
    store.Save(kBefore, Turn("good day"));
  }
  TurnStore store = Open();
  EXPECT_EQ(store.files(), 2U);
  const auto found =
      store.Find(kBefore, [](const GeneratedTurn& turn) { return turn.content == "hello"; });
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->ids, Turn("hello").ids);
  EXPECT_EQ(found->start, Channel::kResponse);
  EXPECT_FALSE(store.Find({2, 1}, Any).has_value());
  EXPECT_TRUE(told_.empty());
}

TEST_F(TurnStores, TheLeastRecentlyUsedMakeRoom) {
  uint64_t one = 0;
  {
    TurnStore store = Open();
    store.Save({1, 0}, Turn("hello"));
    one = store.bytes();
    store.Save({2, 0}, Turn("hello"));
    EXPECT_TRUE(store.Find({1, 0}, Any).has_value());
  }
  TurnStore store = Open(one * 5 / 2);
  store.Save({3, 0}, Turn("hello"));
  EXPECT_EQ(FileCount(), 2U);
  EXPECT_LE(store.bytes(), one * 5 / 2);
  EXPECT_TRUE(store.Find({1, 0}, Any).has_value());
  EXPECT_FALSE(store.Find({2, 0}, Any).has_value());
}

TEST_F(TurnStores, WhatIsDamagedIsToldOfAndRemoved) {
  std::mt19937 random(1);
  Open().Save(kBefore, Turn("hello"));
  const std::filesystem::path file = TheFile();
  const std::string good = ReadWholeFile(file, kPlenty);
  for (int round = 0; round < 100; ++round) {
    std::string bad = good;
    if (round % 3 == 0) {
      bad.resize(random() % bad.size());
    } else {
      bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 7);
    }
    std::ofstream(file, std::ios::binary) << bad;
    EXPECT_FALSE(Open().Find(kBefore, Any).has_value()) << bad;
    ASSERT_EQ(told_.size(), static_cast<size_t>(round) + 1);
    EXPECT_THAT(told_.back(), testing::HasSubstr(file.string()));
    EXPECT_FALSE(std::filesystem::exists(file));
  }
}

// Its sums are right, but not what it says.
TEST_F(TurnStores, IdsThatAreNotTheTextAreRefused) {
  std::vector<GeneratedTurn> lies;
  lies.push_back(Turn("hello"));
  lies.back().content = "other";
  lies.push_back(Turn("hello"));
  lies.back().ids.push_back(TinyTokenizer().control_tokens().open);  // behind the turn's end
  lies.push_back(Turn("hello"));
  lies.back().ids[0] = 1 << 30;
  lies.push_back(Turn("hello"));
  lies.back().ids.clear();
  for (const GeneratedTurn& lie : lies) Open().Save(kBefore, lie);
  EXPECT_EQ(FileCount(), 0U);  // such are never written; by another hand:
  for (const char* body : {"[]", "{}", R"({"reasoning":1,"content":"","tool_calls":[]})",
                           R"({"content":"x","ids":[1],"reasoning":"","start":2,"tool_calls":[]})",
                           R"({"content":"x","ids":[],"reasoning":"","start":9,"tool_calls":{}})",
                           R"({"content":"","ids":["a"],"reasoning":"","start":2,"tool_calls":7})",
                           "[[[[[[[[[[[[[[[["}) {
    FnvHash sum;
    sum.Add(body);
    const std::string text = fmt::format("kimi_k3 turn 1 {:016x}\n{}", sum.value(), body);
    FnvHash name;
    name.Add(text);
    std::ofstream(folder_ / fmt::format("turn-{:016x}{:016x}-{:016x}.json", kBefore[0], kBefore[1],
                                        name.value()))
        << text;
  }
  TurnStore store = Open();
  EXPECT_EQ(store.files(), 7U);
  EXPECT_FALSE(store.Find(kBefore, Any).has_value());
  EXPECT_EQ(told_.size(), 7U);
  EXPECT_EQ(FileCount(), 0U);
}

TEST_F(TurnStores, FilesOfOthersAreLeftAlone) {
  std::filesystem::create_directories(folder_ / "turn-1.json");
  std::ofstream(folder_ / "notes.txt") << "mine";
  TurnStore store = Open(0);
  EXPECT_EQ(store.files(), 0U);
  EXPECT_EQ(FileCount(), 2U);
}

TEST_F(TurnStores, WhatAKilledServerHalfWroteIsRemovedOnceNobodyIsWriting) {
  Open().Save(kBefore, Turn("hello"));
  const std::string file = TheFile();
  std::filesystem::copy_file(file, file + ".12.partial");
  std::filesystem::last_write_time(
      file + ".12.partial", std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  std::filesystem::copy_file(file, file + ".13.partial");  // somebody may be writing it
  EXPECT_EQ(Open().files(), 1U);
  EXPECT_FALSE(std::filesystem::exists(file + ".12.partial"));
  EXPECT_TRUE(std::filesystem::exists(file + ".13.partial"));
}

TEST_F(TurnStores, AFailureIsToldOnceUntilItWorksAgain) {
  TurnStore store = Open();
  std::filesystem::remove_all(folder_);
  store.Save(kBefore, Turn("a"));
  store.Save(kBefore, Turn("b"));
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_THAT(told_[0], testing::HasSubstr("not kept"));
  std::filesystem::create_directories(folder_);
  store.Save(kBefore, Turn("c"));
  EXPECT_EQ(told_.size(), 2U);
}

TEST_F(TurnStores, AMemoryKnowsMoreTurnsThanItHolds) {
  ChatRequest question;
  question.messages = {ChatMessage::User("a")};
  {
    TurnMemory memory(10, std::make_unique<TurnStore>(Open()));
    memory.Remember(TurnMemory::KeyOf(question), Turn("hello"));
    memory.Store();
  }
  TurnMemory memory(1, std::make_unique<TurnStore>(Open()));
  memory.Remember({7, 7}, Turn("other"));
  ChatRequest next = question;
  next.messages.push_back(ChatMessage::Assistant("hello"));
  next.messages.push_back(ChatMessage::User("and then?"));
  for (int i = 0; i < 2; ++i) {
    ChatRequest asked = next;
    memory.Restore(asked);
    EXPECT_EQ(asked.messages[1].generated, Turn("hello").ids);
  }
}

}  // namespace
}  // namespace kimi_k3::server

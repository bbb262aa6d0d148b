// Tests of what is in a folder already.
#include "fetch/present_file.h"

#include <gtest/gtest.h>

#include "fetch/fetch_test_support.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kBlock = 4096;
const std::string kContent(2 * kBlock + 9, 'x');

class Present : public testing::Test {
 protected:
  Present() { std::filesystem::create_directory(dir_ / ".kimi_k3"); }
  static std::string Hash() {
    Digest digest(DigestKind::kSha256);
    digest.Update(kContent);
    return digest.Finish();
  }
  bool Ask(std::vector<bool> wanted = {}, std::string hash = Hash()) {
    const DownloadTask task(dir_.path(),
                            {"f", kContent.size(), ExpectedHash{DigestKind::kSha256, hash}},
                            std::move(wanted), "commit", kBlock);
    return IsPresent(dir_.path(), task, "commit", manifest_, stop_, [this] { ++read_; });
  }
  // As a pull of a part leaves it: the middle block has never come.
  void PutPart() {
    PutFile(dir_ / "f", std::string(kContent).replace(kBlock, kBlock, kBlock, '\0'));
    BlockSums sums(kContent.size(), Hash(), kBlock);
    sums.Set(0, 1);
    sums.Set(2, 1);
    sums.Save(SumsPath(dir_.path(), "f"));
  }
  ScratchDir dir_;
  Manifest manifest_;
  std::atomic<bool> stop_{false};
  int read_ = 0;
};

TEST_F(Present, AFileIsReadOnceAndThenRemembered) {
  EXPECT_FALSE(Ask());
  PutFile(dir_ / "f", kContent);
  EXPECT_TRUE(Ask());
  EXPECT_TRUE(Ask());
  EXPECT_EQ(read_, 1);
  EXPECT_EQ(Manifest::Load(dir_.path())->Find("f")->sha256, Hash());
}

TEST_F(Present, AnotherSizeOrContentIsNot) {
  PutFile(dir_ / "f", kContent + "x");
  EXPECT_FALSE(Ask());
  EXPECT_EQ(read_, 0);
  PutFile(dir_ / "f", std::string(kContent.size(), 'y'));
  EXPECT_FALSE(Ask());
  manifest_.Set({"f", kContent.size(), std::string(64, 'b')});  // of an older commit
  EXPECT_FALSE(Ask());
}

TEST_F(Present, OfAPartTheBlocksCount) {
  PutPart();
  manifest_.Set({"f", kContent.size(), ""});
  EXPECT_TRUE(Ask({true, false, true}));
  EXPECT_FALSE(Ask({true, false, true}, std::string(64, 'b')));
  EXPECT_FALSE(Ask({true, true, false}));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "f"));  // it goes on where it is
  EXPECT_TRUE(std::filesystem::exists(dir_ / ".kimi_k3/f.partial"));
}

TEST_F(Present, APartThatACrashHasLeftUnnotedIsNotFetchedAgain) {
  PutPart();
  EXPECT_TRUE(Ask({true, false, true}));
  ASSERT_NE(manifest_.Find("f"), nullptr);
  EXPECT_EQ(manifest_.Find("f")->sha256, "");
  manifest_ = {};
  EXPECT_FALSE(Ask());
  EXPECT_TRUE(std::filesystem::exists(dir_ / ".kimi_k3/f.partial"));
}

}  // namespace
}  // namespace kimi_k3

// Tests of what an interrupted verification remembers.
#include "fetch/verify_memory.h"

#include <gtest/gtest.h>

#include "fetch/fetch_test_support.h"

namespace kimi_k3 {
namespace {

class VerifyMemoryTest : public testing::Test {
 protected:
  VerifyMemoryTest() { PutFile(file_.path(), "contents"); }
  bool IsKnownLater(const KnownFile& file) const {
    return VerifyMemory(dir_.path(), true).Knows(file);
  }
  ScratchDir dir_;
  KnownFile file_ = {dir_.path(), "a b", ExpectedHash{DigestKind::kSha256, "00ff"}, {}};
};

TEST_F(VerifyMemoryTest, KnowsLaterWhatItWasToRemember) {
  EXPECT_FALSE(IsKnownLater(file_));
  VerifyMemory(dir_.path(), false).Remember(file_);
  EXPECT_TRUE(IsKnownLater(file_));
  KnownFile other = file_;
  other.name = "other";
  EXPECT_FALSE(IsKnownLater(other));
}

TEST_F(VerifyMemoryTest, AFileThatHasChangedIsNotKnown) {
  VerifyMemory(dir_.path(), false).Remember(file_);
  PutFile(file_.path(), "other contents");
  EXPECT_FALSE(IsKnownLater(file_));
}

TEST_F(VerifyMemoryTest, AFileOfAnotherHashIsNotKnown) {
  VerifyMemory(dir_.path(), false).Remember(file_);
  file_.hash->hex = "00fe";
  EXPECT_FALSE(IsKnownLater(file_));
}

TEST_F(VerifyMemoryTest, TellsWhetherThereIsAnything) {
  EXPECT_FALSE(VerifyMemory::Exists(dir_.path()));
  VerifyMemory(dir_.path(), false).Remember(file_);
  EXPECT_TRUE(VerifyMemory::Exists(dir_.path()));
}

TEST_F(VerifyMemoryTest, TouchesNothingThatItHasNotMade) {
  const std::filesystem::path own = dir_ / ".kimi_k3";
  PutFile(own, "a file of somebody else");
  VerifyMemory(dir_.path(), false).Forget();
  EXPECT_EQ(GetFile(own), "a file of somebody else");
  std::filesystem::remove(own);
  std::filesystem::create_directory(own);
  VerifyMemory(dir_.path(), false).Forget();
  EXPECT_TRUE(std::filesystem::is_directory(own));
  std::filesystem::remove(own);
  const ScratchDir elsewhere;
  std::filesystem::create_directory_symlink(elsewhere.path(), own);
  const VerifyMemory memory(dir_.path(), false);
  memory.Remember(file_);
  memory.Forget();
  EXPECT_TRUE(std::filesystem::is_symlink(own));
}

TEST_F(VerifyMemoryTest, ForgetsWhenItStartsAfreshOrIsToldTo) {
  VerifyMemory(dir_.path(), false).Remember(file_);
  const VerifyMemory afresh(dir_.path(), false);
  EXPECT_FALSE(IsKnownLater(file_));
  const VerifyMemory memory(dir_.path(), true);
  memory.Remember(file_);
  memory.Forget();
  EXPECT_FALSE(IsKnownLater(file_));
  EXPECT_FALSE(std::filesystem::exists(dir_ / ".kimi_k3"));
}

}  // namespace
}  // namespace kimi_k3

// Tests of digests, with published values.
#include "fetch/digest.h"

#include <gtest/gtest.h>

#include <array>

namespace kimi_k3 {
namespace {

TEST(Digest, GivesThePublishedValues) {
  Digest sha256(DigestKind::kSha256);
  sha256.Update("a");
  sha256.Update("bc");
  EXPECT_EQ(sha256.Finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Digest(DigestKind::kSha256).Finish(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Digest sha1(DigestKind::kSha1);
  sha1.Update("abc");
  EXPECT_EQ(sha1.Finish(), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

TEST(Digest, NamesSmallFilesAsGitDoes) {
  Digest git = BeginDigest(DigestKind::kSha1, 6);
  git.Update("hello\n");
  EXPECT_EQ(git.Finish(), "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST(Digest, KnowsHexadecimal) {
  const std::string hex(64, 'a');
  EXPECT_TRUE(IsHexDigest(hex, DigestKind::kSha256));
  EXPECT_FALSE(IsHexDigest(hex, DigestKind::kSha1));
  EXPECT_FALSE(IsHexDigest(hex.substr(1) + "G", DigestKind::kSha256));
  EXPECT_FALSE(IsHexDigest(hex.substr(1) + "A", DigestKind::kSha256));
  EXPECT_NE(DigestLibrary().find("OpenSSL"), std::string::npos);
}

TEST(Digest, SumsOfBlocksAreNeverZeroAndTellThemApart) {
  const std::array<std::byte, 4> a{};
  std::array<std::byte, 4> b{};
  b[3] = std::byte{1};
  EXPECT_NE(SumOfBlock(a), 0U);
  EXPECT_NE(SumOfBlock(a), SumOfBlock(b));
}

}  // namespace
}  // namespace kimi_k3

// Tests of what is remembered of a folder, and of the hashes that others leave.
#include "fetch/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fetch/fetch_test_support.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

const std::string kHash(64, 'a');

TEST(Manifest, SurvivesOnDisk) {
  const ScratchDir dir;
  EXPECT_FALSE(Manifest::Load(dir.path()));
  Manifest manifest;
  manifest.repository = "owner/name";
  manifest.commit = "abc";
  manifest.Set({"b", 2, kHash});
  manifest.Set({"a", 1, ""});
  manifest.Set({"b", 3, kHash});
  manifest.Save(dir.path());
  const auto loaded = Manifest::Load(dir.path());
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->repository, "owner/name");
  ASSERT_EQ(loaded->files.size(), 2U);
  EXPECT_EQ(loaded->files[0].name, "a");
  EXPECT_EQ(loaded->Find("b")->bytes, 3U);
  EXPECT_EQ(loaded->Find("c"), nullptr);
}

TEST(Manifest, RefusesWhatItCannotUnderstand) {
  const ScratchDir dir;
  for (
      const char* text :
      {"", "[]", "{}", R"({"format": "kimi_k3 manifest 1"})",
       R"({"format": "kimi_k3 manifest 1", "files": [{"name": "../x", "bytes": 1}]})",
       R"({"format": "kimi_k3 manifest 1", "files": [{"name": "x", "bytes": -1}]})",
       R"({"format": "kimi_k3 manifest 1", "files": [{"name": "x", "bytes": 1, "sha256": "z"}]})"}) {
    PutFile(dir / ".kimi_k3/manifest.json", text);
    const auto [kind, message] = ErrorOf([&] { Manifest::Load(dir.path()); });
    EXPECT_EQ(kind, ErrorKind::kCheckpoint) << text;
    EXPECT_THAT(message, HasSubstr("remove it, then kimi_k3 pull")) << text;
  }
}

TEST(HashList, IsReadAsSha256sumWritesIt) {
  const ScratchDir dir;
  PutFile(dir / "sums", "# a comment\n" + kHash + "  ./a\n" + std::string(64, 'B') + " *b c\r\n\n");
  const auto hashes = ReadHashList(dir / "sums");
  ASSERT_EQ(hashes.size(), 2U);
  EXPECT_EQ(hashes.at("a").hex, kHash);
  EXPECT_EQ(hashes.at("b c").hex, std::string(64, 'b'));
}

TEST(HashList, NamesTheLineThatIsNone) {
  const ScratchDir dir;
  for (const std::string& line : {std::string("abc  x"), kHash, kHash + "  ../x", kHash + "x  y"}) {
    PutFile(dir / "sums", kHash + "  good\n" + line + "\n");
    const auto [kind, text] = ErrorOf([&] { ReadHashList(dir / "sums"); });
    EXPECT_EQ(kind, ErrorKind::kUsage);
    EXPECT_THAT(text, HasSubstr("line 2"));
  }
}

TEST(HubMetadata, IsReadWhereItIsThere) {
  const ScratchDir dir;
  EXPECT_TRUE(ReadHubMetadata(dir.path()).empty());
  const std::string root = ".cache/huggingface/download/";
  PutFile(dir / (root + "model.safetensors.metadata"), "commit\n" + kHash + "\n1.5\n");
  PutFile(dir / (root + "sub/config.json.metadata"), "commit\n" + std::string(40, 'b') + "\n1.5\n");
  PutFile(dir / (root + "odd.metadata"), "commit\nW/\"xyz\"\n");
  const auto hashes = ReadHubMetadata(dir.path());
  ASSERT_EQ(hashes.size(), 2U);
  EXPECT_EQ(hashes.at("model.safetensors").kind, DigestKind::kSha256);
  EXPECT_EQ(hashes.at("sub/config.json").kind, DigestKind::kSha1);
}

}  // namespace
}  // namespace kimi_k3

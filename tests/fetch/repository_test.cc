// Tests of what a repository says of itself.
#include "fetch/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "fetch/fetch_test_support.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

class Repository : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HOME"}) unsetenv(name);
    setenv("HOME", dir_.path().c_str(), 1);
  }
  ScratchDir dir_;
};

TEST_F(Repository, IsReadFromItsName) {
  const RepositoryAddress address = ParseRepository("moonshotai/Kimi-K3");
  EXPECT_EQ(address.endpoint, "https://huggingface.co");
  EXPECT_EQ(address.revision, "main");
  EXPECT_EQ(address.token, "");
  EXPECT_EQ(ParseRepository("a/b@refs/pr/1").revision, "refs/pr/1");
  EXPECT_EQ(ListingUrl(ParseRepository("a/b@refs/pr/1")),
            "https://huggingface.co/api/models/a/b/revision/refs%2Fpr%2F1?blobs=true");
  EXPECT_EQ(FileUrl(address, "abc", "sub/a b"),
            "https://huggingface.co/moonshotai/Kimi-K3/resolve/abc/sub/a%20b");
  for (const char* bad : {"", "/a", "a/", "a/b/c", "a b", "../a", "a/..", "a@", "a@b c", "-o"}) {
    EXPECT_EQ(ErrorOf([&] { ParseRepository(bad); }).first, ErrorKind::kUsage) << bad;
  }
}

TEST_F(Repository, FindsTheTokenWhereTheHubsOwnToolsDo) {
  PutFile(dir_ / ".cache/huggingface/token", "from-home\n");
  EXPECT_EQ(ParseRepository("a/b").token, "from-home");
  PutFile(dir_ / "t", " from-file ");
  setenv("HF_TOKEN_PATH", (dir_ / "t").c_str(), 1);
  EXPECT_EQ(ParseRepository("a/b").token, "from-file");
  setenv("HF_TOKEN", "from-environment", 1);
  EXPECT_EQ(ParseRepository("a/b").token, "from-environment");
  setenv("HF_TOKEN", "two\nlines", 1);
  const auto [kind, text] = ErrorOf([] { ParseRepository("a/b"); });
  EXPECT_EQ(kind, ErrorKind::kUsage);
  EXPECT_THAT(text, testing::Not(HasSubstr("lines")));
}

TEST_F(Repository, EndpointsAreWebAddresses) {
  setenv("HF_ENDPOINT", "https://mirror.example//", 1);
  EXPECT_EQ(ParseRepository("a/b").endpoint, "https://mirror.example");
  setenv("HF_ENDPOINT", "file:///tmp", 1);
  EXPECT_EQ(ErrorOf([] { ParseRepository("a/b"); }).first, ErrorKind::kUsage);
}

std::string List(const std::string& siblings) {
  return R"({"sha": "abc", "siblings": [)" + siblings + "]}";
}

TEST_F(Repository, ReadsTheListOfFiles) {
  const std::string sha(64, 'a'), blob(40, 'b');
  const RemoteListing listing = ParseListing(
      List(R"({"rfilename": "z", "size": 5, "blobId": ")" + blob + R"("},
              {"rfilename": "a", "size": 9, "blobId": ")" +
           blob + R"(", "lfs": {"sha256": ")" + sha + R"(", "size": 9, "pointerSize": 134}},
              {"rfilename": "m", "size": 0})"),
      "a/b");
  EXPECT_EQ(listing.commit, "abc");
  ASSERT_EQ(listing.files.size(), 3U);
  EXPECT_EQ(listing.files[0].name, "a");
  EXPECT_EQ(listing.files[0].hash->hex, sha);
  EXPECT_EQ(listing.files[0].hash->kind, DigestKind::kSha256);
  EXPECT_FALSE(listing.files[1].hash);
  EXPECT_EQ(listing.files[2].hash->kind, DigestKind::kSha1);
}

TEST_F(Repository, RefusesListsThatCannotBeTrusted) {
  for (const std::string& text :
       {std::string(), std::string("<html>"), std::string("[]"), std::string(R"({"sha": "a"})"),
        std::string(R"({"siblings": []})"), List(""), List("3"), List(R"({"rfilename": "a"})"),
        List(R"({"rfilename": "a", "size": -1})"), List(R"({"rfilename": "a", "size": 1e30})"),
        List(R"({"rfilename": "a", "size": 18446744073709551615})"),
        List(R"({"rfilename": "../a", "size": 1})"), List(R"({"rfilename": "/a", "size": 1})"),
        List(R"({"rfilename": "a\u0000b", "size": 1})"),
        List(R"({"rfilename": ".kimi_k3/manifest.json", "size": 1})"),
        List(R"({"rfilename": "a", "size": 1}, {"rfilename": "a", "size": 1})")}) {
    EXPECT_EQ(ErrorOf([&] { ParseListing(text, "a/b"); }).first, ErrorKind::kRun) << text;
    EXPECT_NE(ErrorOf([&] { ParseListing(text, "a/b"); }).second, "") << text;
  }
}

TEST_F(Repository, RefusesListsThatNoDiskCouldHold) {
  EXPECT_THAT(ErrorOf([] {
                ParseListing(
                    List(R"({"rfilename": "a", "size": 1}, {"rfilename": "a/b", "size": 1})"),
                    "a/b");
              }).second,
              HasSubstr("both the file a and a folder"));
  std::string many;
  for (int i = 0; i < 5; ++i) {
    many += std::string(i == 0 ? "" : ", ") + R"({"rfilename": "f)" + std::to_string(i) +
            R"(", "size": 4000000000000})";
  }
  EXPECT_THAT(ErrorOf([&] { ParseListing(List(many), "a/b"); }).second, HasSubstr("20.0 TB"));
}

TEST_F(Repository, SaysWhatARefusalMeansAndNeverTheToken) {
  RepositoryAddress address = ParseRepository("a/b");
  address.token = "secret";
  for (const long status : {401L, 403L, 404L, 500L, 0L}) {
    HttpReply reply;
    reply.status = status;
    EXPECT_THAT(DescribeStatus(reply, address), testing::Not(HasSubstr("secret")));
    EXPECT_EQ(MayWorkLater(reply), status == 500 || status == 0);
  }
}

}  // namespace
}  // namespace kimi_k3

// Tests of what is noted beside a model's files, and of opening a model of which only a part is
// there.
#include "checkpoint/fetched_part.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/synth.h"
#include "checkpoint/synth_config.h"
#include "checkpoint/tensor_listing.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kBlock = 4096;

// Notes that all of a shard is there but for the blocks of [begin, end), which become zeros.
void TakeOut(const fs::path& shard, uint64_t begin, uint64_t end) {
  BlockSums sums(fs::file_size(shard), "s", kBlock);
  for (size_t block = 0; block < sums.blocks(); ++block) sums.Set(block, 1);
  for (uint64_t block = begin / kBlock; block * kBlock < end; ++block) sums.Set(block, 0);
  fs::create_directories(shard.parent_path() / kOwnFolder);
  sums.Save(SumsPath(shard.parent_path(), shard.filename().string()));
}

std::string OpenError(const fs::path& dir, std::string_view part = {}) {
  try {
    Checkpoint::Open({dir}, part);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    return error.what();
  }
}

TEST(FetchedPart, FlatNamesDoNotCollide) {
  EXPECT_EQ(FlatName("a/b"), "a%2Fb");
  EXPECT_EQ(FlatName("a%2Fb"), "a%252Fb");
  EXPECT_EQ(SumsPath("m", "a/b"), fs::path("m/.kimi_k3/a%2Fb.sums"));
}

TEST(FetchedPart, IsNoneOfAWholeOrAnotherFile) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "f";
  WriteFile(file, std::string(10000, 'x'));
  EXPECT_FALSE(FetchedPart(file, 10000));
  TakeOut(file, 0, 0);
  EXPECT_FALSE(FetchedPart(file, 10000));
  TakeOut(file, 4096, 4097);
  ASSERT_TRUE(FetchedPart(file, 10000));
  EXPECT_FALSE(FetchedPart(file, 10000)->Has(1));
  EXPECT_FALSE(FetchedPart(file, 10001));
}

TEST(FetchedPart, IsNamedAsItWasPulled) {
  const TemporaryFolder folder;
  EXPECT_EQ(FetchedPartName(folder.path()), "");
  fs::create_directory(folder.path() / kOwnFolder);
  WriteFile(folder.path() / kOwnFolder / kManifestName, R"({"part": "layers=0-1"})");
  EXPECT_EQ(FetchedPartName(folder.path()), "layers=0-1");
  WriteFile(folder.path() / kOwnFolder / kManifestName, "nonsense");
  EXPECT_EQ(FetchedPartName(folder.path()), "");
}

class OpenFetchedPart : public testing::Test {
 protected:
  OpenFetchedPart() : whole_(Checkpoint::Open(fixture_.dir())) {
    // An expert that lies outside "layers=0-2".
    const ByteRange weights = whole_.Expert(3, 5).up.weights;
    shard_ = whole_.shards()[weights.shard].path;
    TakeOut(shard_, weights.offset, weights.offset + weights.bytes);
  }
  CheckpointFixture fixture_;
  Checkpoint whole_;
  fs::path shard_;
};

TEST_F(OpenFetchedPart, WhatWasNeverFetchedIsNeverTakenForWeights) {
  fs::create_directories(fixture_.dir() / kOwnFolder);
  WriteFile(fixture_.dir() / kOwnFolder / kManifestName, R"({"part": "layers=0-2"})");
  for (const char* part : {"", "layers=2-4", "experts=3-7"}) {
    EXPECT_THAT(OpenError(fixture_.dir(), part),
                AllOf(HasSubstr("never fetched"), HasSubstr("layers.3."),
                      HasSubstr(shard_.filename().string()), HasSubstr("--shard layers=0-2"),
                      HasSubstr("kimi_k3 pull")))
        << part;
  }
}

TEST_F(OpenFetchedPart, OpensWhereTheRestIsNotNeeded) {
  EXPECT_EQ(OpenError(fixture_.dir(), "layers=0-2"), "");
  EXPECT_EQ(OpenError(fixture_.dir(), "layers=0-2,experts=0-3"), "");
}

TEST_F(OpenFetchedPart, IsListedWithWhatIsThere) {
  const TensorListing listing({fixture_.dir()});
  EXPECT_THAT(listing.checkpoint().warnings(), testing::Contains(HasSubstr("never fetched")));
  std::vector<std::string> absent;
  listing.Visit([&](const ListedTensor& tensor) {
    if (!tensor.offset) absent.emplace_back(tensor.name);
  });
  EXPECT_THAT(absent, testing::Contains(whole_.TensorName(Role::kExpertUp, 3, 5)));
  EXPECT_LT(absent.size(), 40U);
}

TEST(OpenWithHoles, TellsOfHolesWhoseOriginIsNotKnown) {
  const CheckpointFixture fixture;
  const fs::path shard = fixture.ShardPath(2);
  const UniqueFd fd(open(shard.c_str(), O_WRONLY | O_CLOEXEC));
  // Inside the data, near their end.
  const auto begin = static_cast<off_t>((fs::file_size(shard) - 2 * kBlock) / kBlock * kBlock);
  if (fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, kBlock) != 0) {
    GTEST_SKIP() << "this file system has no holes";
  }
  EXPECT_THAT(Checkpoint::Open(fixture.dir()).warnings(),
              testing::ElementsAre(AllOf(HasSubstr("1 of the 3 shards have holes"),
                                         HasSubstr("model-00002-of-000003"))));
}

TEST(OpenWithHoles, SaysNothingOfHolesThatAreMeant) {
  const TemporaryFolder folder;
  SynthOptions options;
  options.config_json = GeometryConfig("tiny", {5, 8, 64});
  options.output = folder.path();
  options.sparse = true;
  WriteSynthCheckpoint(options);
  EXPECT_THAT(Checkpoint::Open(folder.path()).warnings(), testing::IsEmpty());
}

}  // namespace
}  // namespace kimi_k3

// Tests of the plain weight stream over mapped shards.
#include "residency/mapped_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

class MappedStreamTest : public testing::TestWithParam<const char*> {};

TEST_P(MappedStreamTest, ShowsTheBytesOfTheFiles) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint(GetParam()));
  const auto stream = MakeMappedStream(checkpoint, 500);
  for (size_t pass = 0; pass < 3; ++pass) {
    const bool head = pass != 1;
    const ExpertChoice choice = SomeExperts(checkpoint, pass);
    EXPECT_EQ(Difference(RunPass(*stream, checkpoint, head, choice),
                         ExpectedPass(checkpoint, head, choice)),
              "");
  }
  std::vector<float> row(checkpoint.config().hidden);
  const size_t last = checkpoint.config().vocabulary - 1;
  stream->ReadEmbeddingRow(last, row);
  EXPECT_EQ(row, ExpectedEmbeddingRow(checkpoint, last));
}

INSTANTIATE_TEST_SUITE_P(Golden, MappedStreamTest,
                         testing::Values("k3", "kimi-linear", "unaligned", "odd-shapes", "all-mla",
                                         "many-experts"),
                         [](const auto& instance) { return TestName(instance.param); });

// The message of the Error that a pass ends with; empty where it ends well.
std::string ErrorOfPass(WeightStream& stream, const Checkpoint& checkpoint, ErrorKind kind) {
  try {
    RunPass(stream, checkpoint, true, AllExperts(checkpoint));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
}

TEST(MappedStream, RefusesAShardThatIsCutInMidRun) {
  const ScratchFolder scratch;
  const auto folder = CopyOfGolden("k3", scratch);
  const Checkpoint checkpoint = Checkpoint::Open(folder);
  const auto stream = MakeMappedStream(checkpoint);
  ASSERT_EQ(ErrorOfPass(*stream, checkpoint, ErrorKind::kIo), "");
  const Shard& shard = checkpoint.shards()[0];
  for (const uint64_t bytes : {shard.bytes - 1, shard.bytes / 2, uint64_t{0}}) {
    std::filesystem::resize_file(shard.path, bytes);
    EXPECT_THAT(ErrorOfPass(*stream, checkpoint, ErrorKind::kIo), HasSubstr(shard.path.string()));
  }
}

TEST(MappedStream, StaysReadableWhenAShardIsDeletedInMidRun) {
  const ScratchFolder scratch;
  const auto folder = CopyOfGolden("k3", scratch);
  const Checkpoint checkpoint = Checkpoint::Open(folder);
  const auto want = ExpectedPass(checkpoint, true, AllExperts(checkpoint));
  const auto stream = MakeMappedStream(checkpoint);
  std::filesystem::remove(checkpoint.shards()[0].path);
  EXPECT_EQ(Difference(RunPass(*stream, checkpoint, true, AllExperts(checkpoint)), want), "");
}

TEST(MappedStream, RefusesAScaleThatStandsForNan) {
  const ScratchFolder scratch;
  const auto folder = CopyOfGolden("k3", scratch);
  const Checkpoint checkpoint = Checkpoint::Open(folder);
  size_t layer = 0;
  while (checkpoint.config().IsDense(layer)) ++layer;
  const ByteRange scales = checkpoint.Expert(layer, 1).down.scales;
  std::fstream file(checkpoint.shards()[scales.shard].path,
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(scales.offset + scales.bytes - 1));
  file.put('\xff');
  file.close();
  const auto stream = MakeMappedStream(checkpoint);
  EXPECT_THAT(ErrorOfPass(*stream, checkpoint, ErrorKind::kCheckpoint),
              HasSubstr(checkpoint.TensorName(Role::kExpertDown, layer, 1)));
}

TEST(MappedStream, RefusesATokenOutsideTheTable) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  const auto stream = MakeMappedStream(checkpoint);
  std::vector<float> row(checkpoint.config().hidden);
  EXPECT_THROW(stream->ReadEmbeddingRow(checkpoint.config().vocabulary, row), std::logic_error);
}

TEST(MappedStream, CatchesComputeOutOfOrder) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  const auto stream = MakeMappedStream(checkpoint);
  stream->BeginPass(true);
  EXPECT_THROW(stream->ForEachTile({Role::kHead, 0}, [](const Tile&) {}), std::logic_error);
}

}  // namespace
}  // namespace kimi_k3

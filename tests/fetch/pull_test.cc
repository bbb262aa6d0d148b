// Tests of pulling a checkpoint: all of it, a part, and what was found bad.
#include "fetch/pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/fetched_part.h"
#include "fetch/faulty_server.h"
#include "fetch/fetch_test_support.h"
#include "fetch/verify.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PullTest : public testing::Test {
 protected:
  PullTest() {
    PutCheckpoint(dir_ / "original", 0);  // a shard a layer
    for (const auto& entry : fs::directory_iterator(dir_ / "original")) {
      const std::string name = entry.path().filename().string();
      server_.AddFile(name, GetFile(entry.path()), name.ends_with(".safetensors"));
    }
  }
  PullOptions Options(const std::string& part = "") {
    PullOptions options;
    options.address = {server_.Endpoint(), "owner/model", "main", ""};
    options.part = part;
    options.download.folder = dir_ / "m";
    options.download.block_bytes = 4096;
    options.download.first_pause = std::chrono::milliseconds(5);
    return options;
  }
  VerifyReport Verify() {
    VerifyOptions options;
    options.folders = {dir_ / "m"};
    return VerifyCheckpoint(options);
  }
  ScratchDir dir_;
  FaultyServer server_;
};

TEST_F(PullTest, BringsACheckpointThatOpensAndVerifies) {
  Pull(Options());
  EXPECT_EQ(Checkpoint::Open(dir_ / "m").tensor_count(),
            Checkpoint::Open(dir_ / "original").tensor_count());
  const VerifyReport report = Verify();
  EXPECT_TRUE(report.good());
  for (const FileFinding& file : report.files) EXPECT_TRUE(file.hashed) << file.name;
}

TEST_F(PullTest, OfAPartFetchesOnlyWhatThatNeeds) {
  const PullReport report = Pull(Options("layers=1-2,experts=0-3"));
  EXPECT_LT(report.bytes_fetched, server_.TotalSize() / 2);
  EXPECT_FALSE(fs::exists(dir_ / "m/model-00004-of-000008.safetensors"));
  const Checkpoint part = Checkpoint::Open({dir_ / "m"}, "layers=1-2,experts=0-3");
  const Checkpoint whole = Checkpoint::Open(dir_ / "original");
  // Every byte that the part reads is the right one.
  const auto same = [&](const ByteRange& a, const ByteRange& b) {
    const std::string mine = GetFile(part.shards()[a.shard].path).substr(a.offset, a.bytes);
    const std::string theirs = GetFile(whole.shards()[b.shard].path).substr(b.offset, b.bytes);
    EXPECT_EQ(mine, theirs);
  };
  same(part.Get(Role::kEmbedding).range, whole.Get(Role::kEmbedding).range);
  same(part.Get(Role::kHead).range, whole.Get(Role::kHead).range);
  for (size_t layer = 1; layer <= 2; ++layer) {
    same(part.Get(Role::kRouter, layer).range, whole.Get(Role::kRouter, layer).range);
    for (size_t expert = 0; expert < 4; ++expert) {
      same(part.Expert(layer, expert).down.weights, whole.Expert(layer, expert).down.weights);
      same(part.Expert(layer, expert).gate.scales, whole.Expert(layer, expert).gate.scales);
    }
  }
  EXPECT_TRUE(Verify().good());
  // Asked again it fetches nothing; asked for all it fetches the rest.
  EXPECT_EQ(Pull(Options("layers=1-2,experts=0-3")).bytes_fetched, 0U);
  const uint64_t before = server_.bytes_sent();
  Pull(Options());
  EXPECT_LT(server_.bytes_sent() - before, server_.TotalSize());
  EXPECT_TRUE(Verify().good());
  for (const auto& entry : fs::directory_iterator(dir_ / "original")) {
    EXPECT_EQ(GetFile(dir_ / "m" / entry.path().filename()), GetFile(entry.path()));
  }
}

TEST_F(PullTest, APartStaysInTheBlocksThatItCameIn) {
  Pull(Options("layers=1-2,experts=0-3"));
  PullOptions options = Options("layers=1-2,experts=0-3");
  options.download.block_bytes = 65536;
  EXPECT_EQ(Pull(options).bytes_fetched, 0U);
  const std::string name = "model-00002-of-000008.safetensors";
  const auto part = FetchedPart(dir_ / "m" / name, fs::file_size(dir_ / "m" / name));
  ASSERT_TRUE(part);
  std::string text = GetFile(dir_ / "m" / name);
  text[100] ^= 1;
  PutFile(dir_ / "m" / name, text);
  const VerifyReport report = Verify();
  EXPECT_EQ(report.bad(), 1U);
  PrepareRepair(dir_ / "m", {name});
  EXPECT_EQ(Pull(options).bytes_fetched, 4096U);
  EXPECT_TRUE(Verify().good());
}

TEST_F(PullTest, DryRunChangesNothing) {
  PullOptions options = Options();
  options.dry_run = true;
  const PullReport all = Pull(options);
  EXPECT_EQ(all.bytes, server_.TotalSize());
  EXPECT_EQ(all.bytes_missing, server_.TotalSize());
  EXPECT_FALSE(fs::exists(dir_ / "m"));
  options.part = "layers=1-2,experts=0-3";
  const PullReport part = Pull(options);
  EXPECT_LT(part.bytes, all.bytes / 2);
  EXPECT_GT(part.bytes, 0U);
  EXPECT_FALSE(fs::exists(dir_ / "m"));
  Pull(Options());
  options.part = "";
  EXPECT_EQ(Pull(options).bytes_missing, 0U);
}

TEST_F(PullTest, RepairFetchesTheBadBlocksAlone) {
  Pull(Options());
  const std::string name = "model-00003-of-000008.safetensors";
  std::string text = GetFile(dir_ / "m" / name);
  text[text.size() / 2] ^= 1;
  PutFile(dir_ / "m" / name, text);
  ASSERT_FALSE(Verify().good());
  const uint64_t before = server_.bytes_sent();
  PrepareRepair(dir_ / "m", {name});
  Pull(Options());
  EXPECT_LE(server_.bytes_sent() - before, 4096U);
  EXPECT_TRUE(Verify().good());
  fs::resize_file(dir_ / "m" / name, 100);
  PrepareRepair(dir_ / "m", {name});
  Pull(Options());
  EXPECT_TRUE(Verify().good());
}

TEST_F(PullTest, RefusesPartsThatAreNone) {
  EXPECT_EQ(ErrorOf([&] { Pull(Options("layers")); }).first, ErrorKind::kUsage);
  EXPECT_EQ(ErrorOf([&] { Pull(Options("layers=0-99")); }).first, ErrorKind::kUsage);
}

TEST_F(PullTest, NamesOfTheServerStayInTheFolder) {
  server_.SetListing(R"({"sha": "abc", "siblings": [{"rfilename": "../../evil", "size": 1}]})");
  const auto [kind, text] = ErrorOf([&] { Pull(Options()); });
  EXPECT_EQ(kind, ErrorKind::kRun);
  EXPECT_THAT(text, HasSubstr("../../evil"));
  server_.SetListing("");
  fs::create_directories(dir_ / "m");
  fs::create_symlink("/tmp/elsewhere", dir_ / "m/config.json");
  EXPECT_THAT(ErrorOf([&] { Pull(Options()); }).second, HasSubstr("symbolic link"));
  PullOptions options = Options();
  options.download.folder = dir_ / "dangling";
  fs::create_symlink("nowhere", dir_ / "dangling");
  EXPECT_THAT(ErrorOf([&] { Pull(options); }).second, HasSubstr("is no folder"));
}

}  // namespace
}  // namespace kimi_k3

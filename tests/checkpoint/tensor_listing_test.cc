// Tests of the listing of tensors, of whole checkpoints and of those whose shards are missing.
#include "checkpoint/tensor_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "checkpoint/checkpoint_fixture.h"

namespace kimi_k3 {
namespace {

struct Listed {
  std::string dtype, file;
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
  std::optional<uint64_t> offset;
};

std::map<std::string, Listed> List(const std::filesystem::path& dir) {
  std::map<std::string, Listed> all;
  TensorListing({dir}).Visit([&](const ListedTensor& tensor) {
    const bool fresh =
        all.try_emplace(std::string(tensor.name), Listed{std::string(tensor.dtype),
                                                         std::string(tensor.file),
                                                         {tensor.shape.begin(), tensor.shape.end()},
                                                         tensor.bytes,
                                                         tensor.offset})
            .second;
    EXPECT_TRUE(fresh) << tensor.name;
  });
  return all;
}

TEST(TensorListing, ListsEveryTensorWithItsPlace) {
  const CheckpointFixture fixture;
  const auto all = List(fixture.dir());
  EXPECT_EQ(all.size(), fixture.Index()["weight_map"].size());
  const Listed& norm = all.at("language_model.model.norm.weight");
  EXPECT_EQ(norm.dtype, "BF16");
  EXPECT_EQ(norm.file, fixture.ShardOf("language_model.model.norm.weight").filename());
  const Checkpoint checkpoint = Checkpoint::Open(fixture.dir());
  EXPECT_EQ(norm.offset, checkpoint.Get(Role::kFinalNorm).range.offset);
}

TEST(TensorListing, OfMissingShardsSaysWhatTheirHeadersWouldHaveSaid) {
  const CheckpointFixture fixture;
  const auto whole = List(fixture.dir());
  std::filesystem::remove(fixture.ShardPath(2));
  const TensorListing listing({fixture.dir()});
  EXPECT_THAT(listing.missing(), testing::ElementsAre("model-00002-of-000003.safetensors"));
  EXPECT_EQ(listing.files(), 3U);
  const auto part = List(fixture.dir());
  ASSERT_EQ(part.size(), whole.size());
  for (const auto& [name, tensor] : part) {
    const Listed& known = whole.at(name);
    EXPECT_EQ(tensor.dtype, known.dtype) << name;
    EXPECT_EQ(tensor.shape, known.shape) << name;
    EXPECT_EQ(tensor.bytes, known.bytes) << name;
    EXPECT_EQ(tensor.file, known.file) << name;
    EXPECT_EQ(tensor.offset.has_value(), tensor.file != "model-00002-of-000003.safetensors");
  }
  EXPECT_EQ(listing.checkpoint().tensor_count(), whole.size());
}

TEST(TensorListing, RefusesAnIndexThatLacksATensor) {
  const CheckpointFixture fixture;
  auto index = fixture.Index();
  index["weight_map"].erase("language_model.model.norm.weight");
  CheckpointFixture other;
  other.SetIndex(index);
  std::filesystem::remove(other.ShardPath(1));
  try {
    const TensorListing listing({other.dir()});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_THAT(error.what(), testing::HasSubstr("language_model.model.norm.weight is missing"));
  }
}

TEST(TensorListing, NamesAFolderThatIsNotThere) {
  try {
    const TensorListing listing({"/nonexistent/model"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("/nonexistent/model: does not exist"));
  }
}

}  // namespace
}  // namespace kimi_k3

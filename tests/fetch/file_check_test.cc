// Tests of reading a file from end to end.
#include "fetch/file_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fetch/fetch_test_support.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;
using Check = TensorSpan::Check;

class FileCheck : public testing::Test {
 protected:
  FileCheckResult Run(const std::string& text, std::vector<TensorSpan> tensors = {},
                      const BlockSums* expected = nullptr) {
    PutFile(dir_ / "f", text);
    FileCheckRequest request;
    request.path = dir_ / "f";
    request.tensors = std::move(tensors);
    request.digests = {DigestKind::kSha256, DigestKind::kSha1};
    request.sums = expected == nullptr;
    request.expected = expected;
    return CheckFile(request, read_, stop_);
  }
  ScratchDir dir_;
  std::atomic<uint64_t> read_{0};
  std::atomic<bool> stop_{false};
};

TEST_F(FileCheck, ComputesDigestsAndSums) {
  const FileCheckResult result = Run("hello\n");
  EXPECT_EQ(result.digests[1], "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_EQ(read_.load(), 6U);
  ASSERT_TRUE(result.sums);
  EXPECT_EQ(result.sums->blocks(), 1U);
  EXPECT_TRUE(result.sums->complete());
}

// At every place around the border of two chunks, whatever the alignment.
TEST_F(FileCheck, FindsANumberThatIsNoneWhereverItLies) {
  constexpr uint64_t kChunk = uint64_t{4} << 20;
  const std::string zeros(kChunk + 64, '\0');
  for (uint64_t shift = 0; shift < 4; ++shift) {
    for (uint64_t element = 0; element < 6; ++element) {
      const uint64_t begin = kChunk - 12 + shift;
      std::string text = zeros;
      text.replace(begin + element * 4, 4, std::string("\x01\x00\x80\x7f", 4));
      const auto result = Run(text, {{"t", begin, begin + 24, Check::kF32}});
      ASSERT_TRUE(result.first_bad_number) << shift << " " << element;
      EXPECT_EQ(*result.first_bad_number, "tensor t: element " + std::to_string(element) +
                                              " is NaN (offset " +
                                              std::to_string(begin + element * 4) + ")");
    }
  }
}

TEST_F(FileCheck, KnowsWhatEachDtypeMayNotHold) {
  const std::string text("\x80\x7f\xff\x00\x00\x00\x80\x7f", 8);
  EXPECT_THAT(*Run(text, {{"b", 0, 2, Check::kBf16}}).first_bad_number, HasSubstr("infinite"));
  EXPECT_THAT(*Run(text, {{"s", 1, 4, Check::kScales}}).first_bad_number,
              HasSubstr("scale 1 is NaN"));
  EXPECT_FALSE(Run(text, {{"n", 0, 8, Check::kNone}}).first_bad_number);
  EXPECT_FALSE(Run(text, {{"s", 3, 6, Check::kScales}}).first_bad_number);
  EXPECT_THAT(*Run(text, {{"a", 3, 5, Check::kBf16}, {"f", 4, 8, Check::kF32}}).first_bad_number,
              HasSubstr("tensor f"));
}

TEST_F(FileCheck, NamesTheBlocksThatDiffer) {
  std::string text(10000, 'x');
  BlockSums sums(text.size(), "", 4096);
  for (size_t b = 0; b < sums.blocks(); ++b) {
    sums.Set(b,
             SumOfBlock(std::as_bytes(std::span(text).subspan(sums.OffsetOf(b), sums.BytesOf(b)))));
  }
  EXPECT_TRUE(Run(text, {}, &sums).bad_blocks.empty());
  text[9999] = 'y';
  EXPECT_THAT(Run(text, {}, &sums).bad_blocks, testing::ElementsAre(2));
  sums.Set(2, 0);  // a block that is not there is not compared
  EXPECT_TRUE(Run(text, {}, &sums).bad_blocks.empty());
}

TEST_F(FileCheck, StopsWhenAsked) {
  stop_ = true;
  EXPECT_EQ(ErrorOf([&] { Run("x"); }).first, ErrorKind::kInterrupted);
}

TEST_F(FileCheck, TellsWhichTensorsShareABlock) {
  PutCheckpoint(dir_ / "m", 1);
  const auto spans = TensorSpans(dir_ / "m/model.safetensors");
  ASSERT_GT(spans.size(), 3U);
  EXPECT_EQ(spans[0].name, "the header");
  EXPECT_EQ(TensorsIn(spans, 0, 1), "the header");
  EXPECT_EQ(TensorsIn(spans, spans[1].begin, spans[1].end), "tensor " + spans[1].name);
  EXPECT_THAT(TensorsIn(spans, spans[1].begin, spans[2].end), HasSubstr("2 tensors"));
  EXPECT_THAT(TensorsIn(spans, 0, spans[2].end), HasSubstr("the header and tensors"));
}

}  // namespace
}  // namespace kimi_k3

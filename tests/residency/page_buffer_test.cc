// Tests of memory straight from the system.
#include "residency/page_buffer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/process_meter.h"

namespace kimi_k3 {
namespace {

size_t ResidentPages(const PageBuffer& buffer) {
  std::vector<unsigned char> pages(buffer.bytes() / 4096);
  EXPECT_EQ(mincore(buffer.data(), buffer.bytes(), pages.data()), 0);
  return static_cast<size_t>(
      std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
}

TEST(PageBuffer, IsWholeAlignedPagesThatCanBeWritten) {
  for (const auto pages : {PageBuffer::Pages::kSmall, PageBuffer::Pages::kHuge}) {
    for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{5000000}}) {
      const PageBuffer buffer(bytes, pages);
      EXPECT_GE(buffer.bytes(), bytes);
      EXPECT_LT(buffer.bytes(), bytes + 4096);
      const size_t alignment = pages == PageBuffer::Pages::kHuge ? size_t{2} << 20 : 4096;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % alignment, 0U);
      std::memset(buffer.data(), 1, buffer.bytes());
    }
  }
  EXPECT_EQ(PageBuffer(0).data(), nullptr);
}

TEST(PageBuffer, IsGivenBackWhenReleased) {
  constexpr size_t kBytes = size_t{64} << 20;
  const uint64_t before = ReadProcessMeters().resident_bytes;
  PageBuffer buffer(kBytes);
  EXPECT_LT(ReadProcessMeters().resident_bytes, before + kBytes / 2);
  std::memset(buffer.data(), 1, kBytes);
  EXPECT_GT(ReadProcessMeters().resident_bytes, before + kBytes / 2);
  buffer = PageBuffer();
  EXPECT_LT(ReadProcessMeters().resident_bytes, before + kBytes / 2);
}

TEST(PageBuffer, ClearedIsZerosAgainAndGivenBackUntilTouched) {
  for (const auto pages : {PageBuffer::Pages::kSmall, PageBuffer::Pages::kHuge}) {
    constexpr size_t kBytes = (size_t{64} << 20) + 4096;
    PageBuffer buffer(kBytes, pages);
    std::memset(buffer.data(), 1, kBytes);
    EXPECT_EQ(ResidentPages(buffer), buffer.bytes() / 4096);
    buffer.Clear();
    EXPECT_EQ(ResidentPages(buffer), 0U);
    for (size_t i = 0; i < kBytes; i += 64) ASSERT_EQ(buffer.data()[i], std::byte{0});
  }
  PageBuffer().Clear();
}

TEST(PagedArray, HoldsNumbersThatAreZeroAtFirst) {
  for (const size_t size : {size_t{0}, size_t{3}, size_t{5} << 20}) {
    PagedArray<float> array(size);
    ASSERT_EQ(array.span().size(), size);
    for (size_t i = 0; i < size; i += 4096) EXPECT_EQ(array.span()[i], 0.0F);
    if (size == 0) continue;
    array.span()[size - 1] = 2.0F;
    const PagedArray<float> moved = std::move(array);
    EXPECT_EQ(moved.data()[size - 1], 2.0F);
  }
}

TEST(PageBuffer, RefusesWhatTheSystemDoesNotHave) {
  EXPECT_THROW(PageBuffer(size_t{1} << 60), Error);
}

}  // namespace
}  // namespace kimi_k3

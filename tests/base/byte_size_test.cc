#include "base/byte_size.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace kimi_k3 {
namespace {

TEST(ByteSize, ReadsNumbersWithAndWithoutUnits) {
  EXPECT_EQ(ParseByteSize("0"), 0U);
  EXPECT_EQ(ParseByteSize("17"), 17U);
  EXPECT_EQ(ParseByteSize("8G"), 8'000'000'000U);
  EXPECT_EQ(ParseByteSize("8.24G"), 8'240'000'000U);
  EXPECT_EQ(ParseByteSize("1 GiB"), uint64_t{1} << 30);
  EXPECT_EQ(ParseByteSize("512mib"), uint64_t{512} << 20);
  EXPECT_EQ(ParseByteSize("3kB"), 3000U);
  EXPECT_EQ(ParseByteSize("1T"), 1'000'000'000'000U);
}

TEST(ByteSize, RefusesWhatIsNotASize) {
  for (const char* text : {"", "G", "-1", "-0", "1e3", "nan", "inf", "8 Gigabytes", "8GG", "8i",
                           "0x10", "8  G", "99999999T", " 8G", "8G "}) {
    EXPECT_THROW(ParseByteSize(text), Error) << text;
  }
}

TEST(ByteSize, WritesThreeDigits) {
  EXPECT_EQ(FormatByteSize(17), "17 bytes");
  EXPECT_EQ(FormatByteSize(8'240'000'000U), "8.24 GB");
  EXPECT_EQ(FormatByteSize(512'000'000U), "512 MB");
  EXPECT_EQ(FormatByteSize(999'999), "1.00 MB");
  EXPECT_EQ(FormatByteSize(1'560'860'324'864U), "1.56 TB");
}

}  // namespace
}  // namespace kimi_k3

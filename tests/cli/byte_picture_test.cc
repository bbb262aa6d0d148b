// Tests of the picture of where the bytes are.
#include "cli/byte_picture.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace kimi_k3 {
namespace {

size_t Count(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(BytePicture, HasABarForEveryLayerAndIsWellFormed) {
  const TensorListing listing({SmallModel()});
  const InspectReport report = MakeInspectReport(listing);
  const std::string svg = BytePicture(report);
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (size_t layer = 0; layer < listing.checkpoint().config().layers; ++layer) {
    EXPECT_THAT(svg, testing::HasSubstr(fmt::format("<title>{}: ", layer)));
  }
  EXPECT_EQ(Count(svg, "<title>"), Count(svg, "</title></rect>"));
  EXPECT_EQ(Count(svg, "<text "), Count(svg, "</text>"));
  EXPECT_THAT(svg, testing::HasSubstr("routed experts"));
  EXPECT_THAT(svg, testing::Not(testing::HasSubstr("nan")));
}

TEST(BytePicture, OfNothingIsStillAPicture) {
  const TensorListing listing({SmallModel()});
  InspectReport empty = MakeInspectReport(listing);
  empty.layers.clear();
  EXPECT_TRUE(BytePicture(empty).ends_with("</svg>\n"));
}

}  // namespace
}  // namespace kimi_k3

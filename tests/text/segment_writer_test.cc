// Segments of tags, attributes, bodies and images.
#include "text/segment_writer.h"

#include "text/text_test_support.h"

namespace kimi_k3::text {
namespace {

using Segments = std::vector<ChatSegment>;

ChatSegment Plain(std::string text) { return {std::move(text), SpecialText::kPlain, {}}; }
ChatSegment Marker(std::string text) { return {std::move(text), SpecialText::kRecognised, {}}; }

Segments BodyWithImages(const std::string& body, const std::vector<std::string>& prompts) {
  SegmentWriter writer(prompts);
  writer.Body(body);
  return writer.Take();
}

TEST(SegmentWriter, EveryPartOfATagIsASegment) {
  const std::vector<std::string> no_images;
  SegmentWriter writer(no_images);
  writer.OpenTag("argument", {{"key", "$schema"}, {"type", ""}});
  writer.Body("<|close|>");
  writer.Body("");
  writer.CloseTag("argument");
  writer.EndMessage();
  EXPECT_EQ(writer.Take(),
            (Segments{Marker("<|open|>"), Plain("argument"), Plain(" key"), Plain("=\""),
                      Plain("$schema"), Plain("\""), Plain(" type"), Plain("=\""), Plain("\""),
                      Marker("<|sep|>"), Plain("<|close|>"), Marker("<|close|>"), Plain("argument"),
                      Marker("<|sep|>"), Marker("<|end_of_msg|>")}));
}

TEST(SegmentWriter, AttributesEscapeAmpersandsAndQuotesOnly) {
  const std::vector<std::string> no_images;
  SegmentWriter writer(no_images);
  writer.OpenTag("call", {{"tool", "a&\"<b>&quot;"}});
  EXPECT_EQ(writer.Take().at(4), Plain("a&amp;&quot;<b>&amp;quot;"));
}

TEST(SegmentWriter, PlaceholdersAreReplacedOnlyWhereThereArePrompts) {
  const std::string needle = "<|kimi_image_placeholder|>";
  EXPECT_EQ(BodyWithImages("a" + needle + "b", {}), (Segments{Plain("a" + needle + "b")}));
  EXPECT_EQ(BodyWithImages("a" + needle + needle + "b", {"X", "Y"}),
            (Segments{Plain("a"), Marker("X"), Marker("Y"), Plain("b")}));
}

TEST(SegmentWriter, ImageCountsMustAgree) {
  const std::string needle = "<|kimi_image_placeholder|>";
  EXPECT_EQ(ErrorOf([&] { BodyWithImages(needle + needle, {"X"}); }).kind(), ErrorKind::kUsage);
  EXPECT_EQ(ErrorOf([&] { BodyWithImages("none", {"X"}); }).kind(), ErrorKind::kUsage);
  const std::vector<std::string> no_images;
  SegmentWriter writer(no_images);
  EXPECT_EQ(ErrorOf([&] { writer.Image(); }).kind(), ErrorKind::kUsage);
}

}  // namespace
}  // namespace kimi_k3::text

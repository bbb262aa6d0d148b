// Builds the segments of a prompt: tags, attributes and bodies.
#include "text/segment_writer.h"

#include <utility>

#include "base/error.h"

namespace kimi_k3::text {
namespace {

constexpr std::string_view kImagePlaceholder = "<|kimi_image_placeholder|>";

std::string EscapeAttribute(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

void SegmentWriter::OpenTag(std::string_view tag, const std::vector<Attribute>& attributes) {
  Marker("<|open|>");
  Plain(tag);
  for (const Attribute& attribute : attributes) {
    Plain(' ' + std::string(attribute.name));
    Plain("=\"");
    Plain(EscapeAttribute(attribute.value));
    Plain("\"");
  }
  Marker("<|sep|>");
}

void SegmentWriter::CloseTag(std::string_view tag) {
  Marker("<|close|>");
  Plain(tag);
  Marker("<|sep|>");
}

void SegmentWriter::EndMessage() { Marker("<|end_of_msg|>"); }

void SegmentWriter::Body(std::string_view body) {
  while (!image_prompts_.empty()) {
    const size_t place = body.find(kImagePlaceholder);
    if (place == std::string_view::npos) break;
    Plain(body.substr(0, place));
    Image();
    body.remove_prefix(place + kImagePlaceholder.size());
  }
  Plain(body);
}

void SegmentWriter::Ids(std::vector<TokenId> ids) {
  segments_.push_back({{}, SpecialText::kPlain, std::move(ids)});
}

void SegmentWriter::Image() {
  if (used_images_ == image_prompts_.size()) {
    Fail(ErrorKind::kUsage, "the messages have more images than the {} image prompts given",
         image_prompts_.size());
  }
  const std::string& prompt = image_prompts_[used_images_++];
  if (!prompt.empty()) segments_.push_back({prompt, SpecialText::kRecognised, {}});
}

std::vector<ChatSegment> SegmentWriter::Take() {
  if (used_images_ != image_prompts_.size()) {
    Fail(ErrorKind::kUsage, "{} image prompts are given, but the messages have {} images",
         image_prompts_.size(), used_images_);
  }
  return std::move(segments_);
}

void SegmentWriter::Marker(std::string_view marker) {
  segments_.push_back({std::string(marker), SpecialText::kRecognised, {}});
}

void SegmentWriter::Plain(std::string_view text) {
  if (!text.empty()) segments_.push_back({std::string(text), SpecialText::kPlain, {}});
}

}  // namespace kimi_k3::text

// Builds the segments of a prompt: tags, attributes and bodies.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "kimi_k3/chat.h"

namespace kimi_k3::text {

struct Attribute {
  std::string_view name;
  std::string_view value;  // unescaped
};

// One segment per marker, tag name, body and part of an attribute. Everything but markers and
// image prompts is plain text to the tokenizer.
class SegmentWriter {
 public:
  // image_prompts: what takes the place of each image, in order; must outlive the writer. Where
  // there are any, placeholders in bodies are replaced as well.
  explicit SegmentWriter(const std::vector<std::string>& image_prompts)
      : image_prompts_(image_prompts) {}

  // Attributes without a value are left out only by the caller.
  void OpenTag(std::string_view tag, const std::vector<Attribute>& attributes = {});
  void CloseTag(std::string_view tag);
  void EndMessage();

  // Text that is encoded by itself; nothing where empty.
  void Body(std::string_view body);

  // Ids that stand for themselves.
  void Ids(std::vector<TokenId> ids);

  // The place of an image; throws Error(kUsage) where the prompts are used up.
  void Image();

  // Throws Error(kUsage) where image prompts are left over.
  std::vector<ChatSegment> Take();

 private:
  void Marker(std::string_view marker);
  void Plain(std::string_view text);

  const std::vector<std::string>& image_prompts_;
  size_t used_images_ = 0;
  std::vector<ChatSegment> segments_;
};

}  // namespace kimi_k3::text

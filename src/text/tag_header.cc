// The inside of a generated tag: its name and attributes.
#include "text/tag_header.h"

#include "kimi_k3/utf8.h"

namespace kimi_k3::text {
namespace {

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (;;) {
    const size_t at = text.find(from);
    out += text.substr(0, at);
    if (at == std::string_view::npos) return out;
    out += to;
    text.remove_prefix(at + from.size());
  }
}

// The reverse of escaping, which writes the ampersands first.
std::string Unescape(std::string_view value) {
  return ReplaceAll(ReplaceAll(value, "&quot;", "\""), "&amp;", "&");
}

}  // namespace

std::optional<std::string> TagHeader::Attribute(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return value;
  }
  return std::nullopt;
}

TagHeader ParseTagHeader(std::string_view bytes) {
  const std::string text = ReplaceInvalidUtf8(bytes);
  std::string_view rest = text;
  TagHeader header;
  const size_t tag_end = rest.find(' ');
  header.tag = rest.substr(0, tag_end);
  rest.remove_prefix(tag_end == std::string_view::npos ? rest.size() : tag_end);
  while (rest.starts_with(' ')) {
    const size_t value_start = rest.find("=\"");
    if (value_start == std::string_view::npos) break;
    const size_t value_end = rest.find('"', value_start + 2);
    if (value_end == std::string_view::npos) break;
    header.attributes.emplace_back(
        rest.substr(1, value_start - 1),
        Unescape(rest.substr(value_start + 2, value_end - value_start - 2)));
    rest.remove_prefix(value_end + 1);
  }
  return header;
}

}  // namespace kimi_k3::text

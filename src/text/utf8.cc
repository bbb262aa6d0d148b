// UTF-8 that arrives in arbitrary parts: complete characters out, broken ones replaced.
#include "kimi_k3/utf8.h"

#include "text/code_point.h"

namespace kimi_k3 {

bool IsValidUtf8(std::string_view bytes) { return text::ValidUtf8Prefix(bytes) == bytes.size(); }

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (text::AppendReplacingInvalid(bytes, out) != 0) out += text::kReplacement;
  return out;
}

std::string Utf8Stream::Append(std::string_view bytes) {
  std::string out;
  if (held_.empty()) {
    const size_t unfinished = text::AppendReplacingInvalid(bytes, out);
    held_ = bytes.substr(bytes.size() - unfinished);
    return out;
  }
  held_ += bytes;
  const size_t unfinished = text::AppendReplacingInvalid(held_, out);
  held_.erase(0, held_.size() - unfinished);
  return out;
}

std::string Utf8Stream::Flush() {
  std::string out(held_.empty() ? std::string_view() : text::kReplacement);
  held_.clear();
  return out;
}

}  // namespace kimi_k3

// Rules for text that the vendor's Python code inherits from Python.
#include "text/python_text.h"

#include "text/code_point.h"
#include "text/unicode_class.h"

namespace kimi_k3::text {

bool IsBlank(std::string_view text) {
  while (!text.empty()) {
    const Utf8Prefix prefix = ReadUtf8Prefix(text);
    if (prefix.kind != Utf8Prefix::Kind::kCharacter) return false;
    if (!IsPythonSpace(CodePointAt(text, 0).value)) return false;
    text.remove_prefix(prefix.size_bytes);
  }
  return true;
}

}  // namespace kimi_k3::text

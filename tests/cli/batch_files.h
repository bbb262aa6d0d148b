// Files of a batch for tests.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"

namespace kimi_k3 {

inline void WriteText(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.Append(text);
  file.Commit();
}

// A request to continue a text, as a line.
inline std::string TextLine(const std::string& custom_id, const std::string& body) {
  return R"({"custom_id": ")" + custom_id +
         R"(", "method": "POST", "url": "/v1/completions", "body": )" + body + "}\n";
}

}  // namespace kimi_k3

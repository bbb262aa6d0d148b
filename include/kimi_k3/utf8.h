// UTF-8 that arrives in arbitrary parts: complete characters out, broken ones replaced.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kimi_k3 {

// Whether the bytes are well-formed UTF-8 (no surrogates, nothing overlong, nothing above
// U+10FFFF).
bool IsValidUtf8(std::string_view bytes);

// The text with each maximal ill-formed part replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view bytes);

// Turns a stream of bytes that may be cut anywhere (tokens end inside characters) into valid UTF-8.
// Appending all parts and flushing gives exactly ReplaceInvalidUtf8 of the whole. One thread at a
// time.
class Utf8Stream {
 public:
  // Returns what has become complete; at most three bytes, the start of an unfinished character,
  // are held back.
  std::string Append(std::string_view bytes);

  // Ends the stream: returns U+FFFD where an unfinished character was held back, else nothing.
  // The stream is empty afterwards and can be used again.
  std::string Flush();

  // Bytes held back at this moment.
  size_t held_bytes() const { return held_.size(); }

 private:
  std::string held_;
};

}  // namespace kimi_k3

// Cuts text into the pieces within which BPE merges (docs/text.md, "Splitting").
#pragma once

#include <string_view>

#include "base/function_ref.h"

namespace kimi_k3::text {

// Calls `take` with the parts of the text that are encoded independently of each other because the
// vendor's wrapper cuts very long texts and runs: at 400,000 code points, and after 25,000 code
// points that are all white space or all not. Nothing for an empty text. The text must be valid
// UTF-8, and the parts are consecutive views into it.
void ForEachPart(std::string_view valid_utf8, FunctionRef<void(std::string_view)> take);

// Calls `take` with the pieces of one part, consecutive views that together are the part: runs of
// Han, words with an optional leading non-letter and English contraction, up to three digits,
// punctuation with its line ends, white space. Linear in the length of the part.
void ForEachPiece(std::string_view valid_utf8, FunctionRef<void(std::string_view)> take);

}  // namespace kimi_k3::text

// Reads the rank file (tiktoken.model) of a tokenizer.
#pragma once

#include <string>
#include <string_view>

#include "text/vocabulary.h"

namespace kimi_k3::text {

// Limits of what is accepted; the longest token of Kimi K3 has 256 bytes, its file 2.8 MB.
inline constexpr size_t kLongestTokenBytes = 1024;
inline constexpr size_t kLargestRankFileBytes = size_t{64} << 20;

// Each line is a token in canonical base64, one space, its rank in decimal; ranks count up from 0
// without a gap, no token comes twice, and each of the 256 bytes is a token. Throws
// Error(kCheckpoint) naming `file_name` and the line for anything else.
Vocabulary ParseRankFile(std::string_view contents, const std::string& file_name);

}  // namespace kimi_k3::text

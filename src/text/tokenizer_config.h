// Reads the named special tokens of tokenizer_config.json.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "kimi_k3/tokenizer.h"

namespace kimi_k3::text {

inline constexpr size_t kLargestConfigBytes = size_t{4} << 20;
inline constexpr size_t kLongestSpecialNameBytes = 128;

// The ids and names of `added_tokens_decoder`. Refused with Error(kCheckpoint) naming `file_name`:
// anything malformed, ids or names that come twice, the special tokens of Kimi K2 (another chat
// format with the same ids), and a file without the control tokens of Kimi K3.
std::map<TokenId, std::string> ParseTokenizerConfig(std::string_view json,
                                                    const std::string& file_name);

}  // namespace kimi_k3::text

// A turn that the server has generated, and what stood before it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kimi_k3/chat.h"

namespace kimi_k3::server {

// A turn as it was generated and as the client got it.
struct GeneratedTurn {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> tool_calls;
  std::vector<TokenId> ids;  // ChatParser::CompleteTurn
  Channel start = Channel::kNone;
};

// Sums of what stands before a turn: messages, tools and settings that the prompt shows.
using TurnKey = std::array<uint64_t, 2>;

}  // namespace kimi_k3::server

// Which order tool results are rendered in, and the function each is the result of.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kimi_k3/chat.h"

namespace kimi_k3::text {

// A message in its place, with what its position tells.
struct PlacedMessage {
  const ChatMessage* message = nullptr;
  size_t source_index = 0;  // in the request
  std::string tool_name;    // tool results: the function
  size_t tool_index = 0;    // tool results: counted from 1 since the last assistant message
};

// Sorts each run of consecutive tool results by the calls of the last assistant message, if all of
// the run belong to calls of it by their ids; otherwise the run stays as it is. Throws
// Error(kUsage) where a result does not tell its function. The messages must outlive the result.
std::vector<PlacedMessage> ArrangeMessages(const std::vector<ChatMessage>& messages);

}  // namespace kimi_k3::text

// Which order tool results are rendered in, and the function each is the result of.
#include "text/message_order.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/error.h"

namespace kimi_k3::text {
namespace {

using Calls = std::vector<ToolCall>;

// The first call with the id; a result without an id belongs to none.
std::optional<size_t> CallOf(const ChatMessage& result, const Calls& calls) {
  if (result.tool_call_id.empty()) return std::nullopt;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].id == result.tool_call_id) return i;
  }
  return std::nullopt;
}

void SortByCall(std::span<PlacedMessage> run, const Calls& calls) {
  struct Keyed {
    size_t call;
    PlacedMessage placed;
  };
  std::vector<Keyed> keyed;
  for (PlacedMessage& placed : run) {
    const auto call = CallOf(*placed.message, calls);
    if (!call) return;
    placed.tool_name = calls[*call].name;
    keyed.push_back({*call, placed});
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const Keyed& a, const Keyed& b) { return a.call < b.call; });
  for (size_t i = 0; i < run.size(); ++i) run[i] = std::move(keyed[i].placed);
}

// A run that does not belong to the calls keeps the names that its messages give.
void NameResults(std::span<PlacedMessage> run, bool is_matched, const Calls& calls,
                 size_t& tool_index) {
  for (PlacedMessage& placed : run) {
    placed.tool_index = ++tool_index;
    if (is_matched) continue;
    const ChatMessage& message = *placed.message;
    placed.tool_name = !message.tool.empty() ? message.tool : message.name;
    if (placed.tool_name.empty() && tool_index <= calls.size()) {
      placed.tool_name = calls[tool_index - 1].name;
    }
    if (placed.tool_name.empty()) {
      Fail(ErrorKind::kUsage,
           "messages[{}]: a tool result must tell its function: by a tool_call_id of the assistant "
           "message before it, or by `name`",
           placed.source_index);
    }
  }
}

}  // namespace

std::vector<PlacedMessage> ArrangeMessages(const std::vector<ChatMessage>& messages) {
  static const Calls kNoCalls;
  std::vector<PlacedMessage> placed;
  placed.reserve(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) placed.push_back({&messages[i], i, {}, 0});
  const Calls* calls = &kNoCalls;
  size_t tool_index = 0;
  for (size_t i = 0; i < placed.size();) {
    if (messages[i].role == ChatRole::kAssistant) {
      calls = &messages[i].tool_calls;
      tool_index = 0;
    }
    if (messages[i].role != ChatRole::kTool) {
      ++i;
      continue;
    }
    size_t end = i;
    bool is_matched = true;
    for (; end < placed.size() && messages[end].role == ChatRole::kTool; ++end) {
      is_matched = is_matched && CallOf(messages[end], *calls).has_value();
    }
    const std::span run(placed.data() + i, end - i);
    if (is_matched) SortByCall(run, *calls);
    NameResults(run, is_matched, *calls, tool_index);
    i = end;
  }
  return placed;
}

}  // namespace kimi_k3::text

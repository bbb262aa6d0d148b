// The turns that the server has generated, by what came before them.
#include "server/turn_memory.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace kimi_k3::server {
namespace {

// Two FNV-1a sums, of the bytes and of the bytes turned around, over parts of known length.
class Sum {
 public:
  void Add(std::string_view text) {
    Add(text.size());
    for (const char c : text) AddByte(static_cast<unsigned char>(c));
  }
  void Add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8)
      AddByte(static_cast<unsigned char>(number >> shift));
  }
  const TurnMemory::Key& value() const { return sums_; }

 private:
  void AddByte(unsigned char byte) {
    constexpr uint64_t kPrime = 0x100000001b3U;
    sums_[0] = (sums_[0] ^ byte) * kPrime;
    sums_[1] = (sums_[1] ^ static_cast<unsigned char>(~byte)) * kPrime;
  }
  TurnMemory::Key sums_ = {0xcbf29ce484222325U, 0x84222325cbf29ce4U};
};

std::string ContentOf(const ChatMessage& message) {
  std::string text;
  for (const ContentPart& part : message.content) text += part.text;
  return text;
}

void AddSettings(const ChatRequest& request, Sum& sum) {
  sum.Add(request.tools);
  sum.Add(uint64_t{request.thinking});
  sum.Add(request.effort ? static_cast<uint64_t>(*request.effort) + 1 : 0);
}

// Reasoning is left out: a client may have dropped it. So are ids, which the prompt does not show.
void AddMessage(const ChatMessage& message, Sum& sum) {
  sum.Add(static_cast<uint64_t>(message.role));
  sum.Add(message.name);
  sum.Add(message.tool);
  sum.Add(message.tools);
  sum.Add(ContentOf(message));
  sum.Add(message.tool_calls.size());
  for (const ToolCall& call : message.tool_calls) {
    sum.Add(call.name);
    sum.Add(call.arguments);
  }
}

bool SameCalls(const std::vector<ToolCall>& a, const std::vector<ToolCall>& b) {
  return std::ranges::equal(a, b, [](const ToolCall& x, const ToolCall& y) {
    return x.name == y.name && x.arguments == y.arguments;
  });
}

bool Matches(const ChatMessage& message, const GeneratedTurn& turn) {
  return (message.reasoning.empty() || message.reasoning == turn.reasoning) &&
         ContentOf(message) == turn.content && SameCalls(message.tool_calls, turn.tool_calls);
}

}  // namespace

TurnMemory::TurnMemory(size_t most_turns) : most_turns_(most_turns) {}

TurnMemory::Key TurnMemory::KeyOf(const ChatRequest& request) {
  Sum sum;
  AddSettings(request, sum);
  for (const ChatMessage& message : request.messages) AddMessage(message, sum);
  return sum.value();
}

void TurnMemory::Restore(ChatRequest& request) const {
  const std::lock_guard lock(mutex_);
  Sum before;
  AddSettings(request, before);
  for (ChatMessage& message : request.messages) {
    if (message.role == ChatRole::kAssistant && !message.partial && message.name.empty()) {
      // The latest of those that are the same.
      const auto entry = std::find_if(entries_.rbegin(), entries_.rend(), [&](const Entry& known) {
        return known.before == before.value() && Matches(message, known.turn);
      });
      if (entry != entries_.rend()) {
        message.generated = entry->turn.ids;
        message.generated_start = entry->turn.start;
      }
    }
    AddMessage(message, before);
  }
}

void TurnMemory::Remember(const Key& before, GeneratedTurn turn) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({.before = before, .turn = std::move(turn)});
  if (entries_.size() > most_turns_) entries_.pop_front();
}

}  // namespace kimi_k3::server

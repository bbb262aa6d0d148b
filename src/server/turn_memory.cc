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
  const TurnKey& value() const { return sums_; }

 private:
  void AddByte(unsigned char byte) {
    constexpr uint64_t kPrime = 0x100000001b3U;
    sums_[0] = (sums_[0] ^ byte) * kPrime;
    sums_[1] = (sums_[1] ^ static_cast<unsigned char>(~byte)) * kPrime;
  }
  TurnKey sums_ = {0xcbf29ce484222325U, 0x84222325cbf29ce4U};
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

TurnMemory::TurnMemory(size_t most_turns, std::unique_ptr<TurnStore> store)
    : most_turns_(most_turns), store_(std::move(store)) {}

TurnKey TurnMemory::KeyOf(const ChatRequest& request) {
  Sum sum;
  AddSettings(request, sum);
  for (const ChatMessage& message : request.messages) AddMessage(message, sum);
  return sum.value();
}

void TurnMemory::Restore(ChatRequest& request) {
  Sum before;
  AddSettings(request, before);
  for (ChatMessage& message : request.messages) {
    if (message.role == ChatRole::kAssistant && !message.partial && message.name.empty()) {
      if (std::optional<GeneratedTurn> turn = Find(before.value(), message)) {
        message.generated = std::move(turn->ids);
        message.generated_start = turn->start;
      }
    }
    AddMessage(message, before);
  }
}

// The latest of those that are the same.
std::optional<GeneratedTurn> TurnMemory::Find(const TurnKey& before, const ChatMessage& message) {
  {
    const std::lock_guard lock(mutex_);
    const auto entry = std::find_if(entries_.rbegin(), entries_.rend(), [&](const Entry& known) {
      return known.before == before && Matches(message, known.turn);
    });
    if (entry != entries_.rend()) return entry->turn;
  }
  if (store_ == nullptr) return std::nullopt;
  std::optional<GeneratedTurn> turn;
  {
    const std::lock_guard lock(store_mutex_);
    turn = store_->Find(before, [&](const GeneratedTurn& kept) { return Matches(message, kept); });
  }
  if (turn) Add({.before = before, .turn = *turn});
  return turn;
}

void TurnMemory::Add(Entry entry) {
  const std::lock_guard lock(mutex_);
  entries_.push_back(std::move(entry));
  if (entries_.size() > most_turns_) entries_.pop_front();
}

void TurnMemory::Remember(const TurnKey& before, GeneratedTurn turn) {
  if (store_ != nullptr) {
    const std::lock_guard lock(mutex_);
    to_store_.push_back({.before = before, .turn = turn});
  }
  Add({.before = before, .turn = std::move(turn)});
}

void TurnMemory::Store() {
  if (store_ == nullptr) return;
  std::vector<Entry> entries;
  {
    const std::lock_guard lock(mutex_);
    entries = std::exchange(to_store_, {});
  }
  const std::lock_guard lock(store_mutex_);
  for (const Entry& entry : entries) store_->Save(entry.before, entry.turn);
}

}  // namespace kimi_k3::server

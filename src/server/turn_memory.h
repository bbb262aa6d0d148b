// The turns that the server has generated, by what came before them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
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

// Clients send a conversation back as text: without its reasoning, often, and with words that would
// be cut into tokens differently than they were generated. Where an assistant's message is one that
// was generated here after the same messages, its ids take its place: the model sees what it wrote,
// and the state that is held goes on. Called from any thread.
class TurnMemory {
 public:
  // most_turns: kept at once; the oldest make room.
  explicit TurnMemory(size_t most_turns);

  // What stands before a turn: messages, tools and settings that the prompt shows.
  using Key = std::array<uint64_t, 2>;
  static Key KeyOf(const ChatRequest& request);

  // Sets ChatMessage::generated of those messages of the request that are remembered. Reasoning
  // that a message has must be the turn's own; a message without any gets it.
  void Restore(ChatRequest& request) const;

  // `before`: the key of the request that the turn answered.
  void Remember(const Key& before, GeneratedTurn turn);

 private:
  struct Entry {
    Key before;
    GeneratedTurn turn;
  };
  const size_t most_turns_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
};

}  // namespace kimi_k3::server

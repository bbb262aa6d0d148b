// The turns that the server has generated, by what came before them.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "kimi_k3/chat.h"
#include "server/generated_turn.h"
#include "server/turn_store.h"

namespace kimi_k3::server {

// Clients send a conversation back as text: without its reasoning, often, and with words that would
// be cut into tokens differently than they were generated. Where an assistant's message is one that
// was generated here after the same messages, its ids take its place: the model sees what it wrote,
// and the state that is held goes on. Called from any thread.
class TurnMemory {
 public:
  // most_turns: in memory at once; the oldest make room. store: keeps them beside; may be null.
  explicit TurnMemory(size_t most_turns, std::unique_ptr<TurnStore> store = nullptr);

  static TurnKey KeyOf(const ChatRequest& request);

  // Sets ChatMessage::generated of those messages of the request that are remembered. Reasoning
  // that a message has must be the turn's own; a message without any gets it.
  void Restore(ChatRequest& request);

  // `before`: the key of the request that the turn answered.
  void Remember(const TurnKey& before, GeneratedTurn turn);

  // Writes what was remembered since the last time to the store, if there is one, and waits for the
  // drive.
  void Store();

 private:
  struct Entry {
    TurnKey before;
    GeneratedTurn turn;
  };
  std::optional<GeneratedTurn> Find(const TurnKey& before, const ChatMessage& message);
  void Add(Entry entry);

  const size_t most_turns_;
  std::mutex mutex_;
  std::deque<Entry> entries_;
  std::vector<Entry> to_store_;
  std::mutex store_mutex_;  // never taken within the other
  const std::unique_ptr<TurnStore> store_;
};

}  // namespace kimi_k3::server

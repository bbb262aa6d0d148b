// What the program keeps in a session beside tokens and state: the conversation, the answer on its
// way, and how it is sampled.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kimi_k3/chat.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/sampling.h"
#include "kimi_k3/session.h"

namespace kimi_k3 {

// One text: prompt, and the answer as far as it goes. In the chat format the text is the rendering
// of `messages`, the last of them the user's, and the answer belongs to none of them yet.
struct SessionNote {
  std::vector<TokenId> text;
  size_t answer_begin = 0;            // the prompt ends here
  std::string prompt;                 // the words that were last given as prompt, or its ids
  std::optional<Channel> chat_start;  // where the answer begins in the chat format; nothing: raw
  std::vector<ChatMessage> messages;
  bool thinking = true;
  std::optional<ThinkingEffort> effort = ThinkingEffort::kMax;

  size_t max_tokens = 0;  // of this answer
  SamplingOptions sampling = {};
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::string stop_reason;  // why the answer ended; empty while it goes on

  std::span<const TokenId> answer() const { return std::span(text).subspan(answer_begin); }
  // Whether the answer ended by itself or at a limit: then --resume alone has nothing to do.
  bool finished() const;
  // Whether nothing can be added to it: it ended by itself, or at limits that still hold.
  bool complete(size_t context) const;
};

// The note as JSON. Tokens that the state has seen, the first `seen` ones, are not repeated in it.
std::string WriteSessionNote(const SessionNote& note, size_t seen);

// The note of the session in `path`. Throws Error(kIo) naming the file for whatever
// WriteSessionNote would not have written.
SessionNote ReadSessionNote(const SessionInfo& info, const std::filesystem::path& path);

}  // namespace kimi_k3

// A conversation as the sessions of run and chat keep it: turns to tokens, so that each new prompt
// extends what the state has seen.
#pragma once

#include <cstddef>
#include <string>

#include "cli/session_note.h"
#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {

// Positions for an answer, in the context that is advised where a prompt has no room.
inline constexpr size_t kRoomForAnAnswer = 256;

// Makes the answer a message of the conversation: its very tokens with whatever was cut off closed,
// as the next prompt will contain it. Nothing where there is no answer yet.
void FoldAnswer(SessionNote& note, const Tokenizer& tokenizer);

// Adds a user's message to a conversation without an answer on its way, and renders the prompt.
// json_schema: what the answer shall satisfy, where not empty; the model is told.
void AskInChat(SessionNote& note, const Tokenizer& tokenizer, const std::string& text,
               const std::string& json_schema = {});

// Whether the answer could end after its last token without tearing a tag apart: what is processed
// then stays a part of the next prompt.
bool EndsBetweenTags(const SessionNote& note, const Tokenizer& tokenizer);

}  // namespace kimi_k3

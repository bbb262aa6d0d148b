// What a turn of the assistant must look like, as grammar.
#pragma once

#include <string>

#include "grammar/grammar.h"
#include "kimi_k3/chat.h"
#include "text/json_value.h"

namespace kimi_k3::grammar {

// What a text of JSON must look like: the schema's, or any object where it is null.
Grammar JsonGrammar(const text::JsonValue* schema, const std::string& name);

// Whether the request says anything about the form of the turn.
bool LimitsTurn(const ChatRequest& request);

// The turn from `start` on, to where the rest of it is known: the marker that closes its last
// channel (docs/text.md). Throws Error(kUsage) naming the field or the keyword.
Grammar TurnGrammar(const ChatRequest& request, Channel start);

}  // namespace kimi_k3::grammar

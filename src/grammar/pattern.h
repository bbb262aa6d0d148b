// Regular expressions of JSON schemas (ECMA-262, the part that finite automata can follow).
#pragma once

#include <string_view>

#include "grammar/grammar.h"
#include "grammar/json_forms.h"

namespace kimi_k3::grammar {

// Adds the characters of all strings in which the pattern is found, between two states; quotes are
// the caller's. As in JSON schemas the pattern may be found anywhere unless ^ and $ say otherwise.
// Throws GrammarError for what is no regular expression or not supported: look-around, back
// references, \b, \p, flags, ^ and $ elsewhere than at the ends.
void AddPattern(GrammarBuilder& builder, State from, std::string_view pattern, Quoting quoting,
                State to);

}  // namespace kimi_k3::grammar

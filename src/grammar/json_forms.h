// JSON texts, and the characters in them, as grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "text/json_value.h"

namespace kimi_k3::grammar {

// How a string stands in the text.
enum class Quoting {
  kJson,  // in double quotes, with escapes
  kRaw    // as it is, as the string arguments of tool calls do
};

// Code points from first to last.
struct CodeRange {
  uint32_t first = 0;
  uint32_t last = 0;
};
inline constexpr uint32_t kMostCode = 0x10ffff;

// Adds one character of the ranges (ascending, apart), in the one way in which the quoting writes
// it. Surrogates are left out.
void AddCharacter(GrammarBuilder& builder, State from, std::span<const CodeRange> ranges,
                  Quoting quoting, State to);

// The characters of a text in the same writing, without the quotes around a JSON string.
std::string WriteCharacters(std::string_view valid_utf8, Quoting quoting);

// Forms of any content, each made when it is first asked for. What a model could go on with for
// ever without saying anything, blanks and digits, is limited.
class JsonForms {
 public:
  // The builder must outlive the forms.
  explicit JsonForms(GrammarBuilder& builder) : builder_(builder) {}

  Rule Gap();      // white space between values: none, a blank, or a new line and its indentation
  Rule Value();    // any value
  Rule Object();   // any object
  Rule Array();    // any array
  Rule Number();   // any number that a double holds, of up to 40 digits before and after the point
  Rule Integer();  // up to 18 digits, as 64 bits hold
  Rule Boolean();
  Rule String(Quoting quoting);     // any string
  Rule Character(Quoting quoting);  // one character of a string, in any writing
  // A string, quotes included, that is none of these; its characters are written in one way alone,
  // so that none of them comes in disguise.
  Rule OtherString(std::span<const std::string> taken);

 private:
  Rule Once(Rule& rule, void (JsonForms::*make)(Rule));
  void MakeGap(Rule rule);
  void MakeValue(Rule rule);
  void MakeObject(Rule rule);
  void MakeArray(Rule rule);
  void MakeNumber(Rule rule);
  void MakeInteger(Rule rule);
  void MakeBoolean(Rule rule);
  void MakeJsonString(Rule rule);
  void MakeRawString(Rule rule);
  void MakeJsonCharacter(Rule rule);
  void MakeRawCharacter(Rule rule);
  void AddEscapes(State from, State to);
  State AddWholePart(State from, size_t most_digits);

  static constexpr Rule kNone = UINT32_MAX;
  GrammarBuilder& builder_;
  Rule gap_ = kNone;
  Rule value_ = kNone;
  Rule object_ = kNone;
  Rule array_ = kNone;
  Rule number_ = kNone;
  Rule integer_ = kNone;
  Rule boolean_ = kNone;
  Rule json_string_ = kNone;
  Rule raw_string_ = kNone;
  Rule json_character_ = kNone;
  Rule raw_character_ = kNone;
};

}  // namespace kimi_k3::grammar

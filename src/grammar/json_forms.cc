// JSON texts, and the characters in them, as grammar.
#include "grammar/json_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "grammar/number_range.h"
#include "text/code_point.h"

namespace kimi_k3::grammar {
namespace {

constexpr size_t kMostDigits = 40;
constexpr size_t kMostIndentation = 32;

// How a JSON string writes a character that may not stand in it by itself; empty: as it is.
std::string Escape(uint32_t code) {
  switch (code) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      return code < 0x20 ? fmt::format("\\u{:04x}", code) : std::string();
  }
}

std::string Utf8(uint32_t code) {
  std::string bytes;
  text::AppendUtf8(code, bytes);
  return bytes;
}

// Code points whose UTF-8 has one length: cut until each part is a range in every byte.
void AddUtf8(GrammarBuilder& builder, State from, CodeRange range, State to) {
  for (int bits = 6; bits < 24; bits += 6) {
    const uint32_t low = (uint32_t{1} << bits) - 1;
    if ((range.first & ~low) == (range.last & ~low)) continue;
    if ((range.first & low) != 0) {
      AddUtf8(builder, from, {range.first, range.first | low}, to);
      AddUtf8(builder, from, {(range.first | low) + 1, range.last}, to);
      return;
    }
    if ((range.last & low) != low) {
      AddUtf8(builder, from, {range.first, (range.last & ~low) - 1}, to);
      AddUtf8(builder, from, {range.last & ~low, range.last}, to);
      return;
    }
  }
  const std::string first = Utf8(range.first);
  const std::string last = Utf8(range.last);
  for (size_t i = 0; i < first.size(); ++i) {
    const State next = i + 1 == first.size() ? to : builder.NewState();
    builder.AddRange(from, static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i]), next);
    from = next;
  }
}

}  // namespace

void AddCharacter(GrammarBuilder& builder, State from, std::span<const CodeRange> ranges,
                  Quoting quoting, State to) {
  constexpr std::array kLengths = {CodeRange{0, 0x7f}, CodeRange{0x80, 0x7ff},
                                   CodeRange{0x800, 0xd7ff}, CodeRange{0xe000, 0xffff},
                                   CodeRange{0x10000, kMostCode}};
  for (const CodeRange& range : ranges) {
    for (const CodeRange& length : kLengths) {
      CodeRange part = {std::max(range.first, length.first), std::min(range.last, length.last)};
      if (quoting == Quoting::kJson && length.first == 0) {
        // What needs no escape stands in three ranges.
        for (uint32_t code = part.first; code <= part.last; ++code) {
          const std::string escape = Escape(code);
          if (!escape.empty()) {
            builder.AddText(from, escape, to);
            continue;
          }
          uint32_t end = code;
          while (end < part.last && Escape(end + 1).empty()) ++end;
          builder.AddRange(from, static_cast<Symbol>(code), static_cast<Symbol>(end), to);
          code = end;
        }
      } else if (part.first <= part.last) {
        AddUtf8(builder, from, part, to);
      }
    }
  }
}

std::string WriteCharacters(std::string_view valid_utf8, Quoting quoting) {
  if (quoting == Quoting::kRaw) return std::string(valid_utf8);
  std::string written;
  for (const char c : valid_utf8) {
    const std::string escape = Escape(static_cast<uint8_t>(c));
    if (escape.empty()) {
      written += c;
    } else {
      written += escape;
    }
  }
  return written;
}

Rule JsonForms::Once(Rule& rule, void (JsonForms::*make)(Rule)) {
  if (rule == kNone) {
    rule = builder_.NewRule();
    (this->*make)(rule);
  }
  return rule;
}

Rule JsonForms::Gap() { return Once(gap_, &JsonForms::MakeGap); }
Rule JsonForms::Value() { return Once(value_, &JsonForms::MakeValue); }
Rule JsonForms::Object() { return Once(object_, &JsonForms::MakeObject); }
Rule JsonForms::Array() { return Once(array_, &JsonForms::MakeArray); }
Rule JsonForms::Number() { return Once(number_, &JsonForms::MakeNumber); }
Rule JsonForms::Integer() { return Once(integer_, &JsonForms::MakeInteger); }
Rule JsonForms::Boolean() { return Once(boolean_, &JsonForms::MakeBoolean); }
Rule JsonForms::String(Quoting quoting) {
  return quoting == Quoting::kJson ? Once(json_string_, &JsonForms::MakeJsonString)
                                   : Once(raw_string_, &JsonForms::MakeRawString);
}
Rule JsonForms::Character(Quoting quoting) {
  return quoting == Quoting::kJson ? Once(json_character_, &JsonForms::MakeJsonCharacter)
                                   : Once(raw_character_, &JsonForms::MakeRawCharacter);
}

void JsonForms::MakeGap(Rule rule) {
  const State start = GrammarBuilder::StartOf(rule);
  const State end = GrammarBuilder::EndOf(rule);
  builder_.AddEmpty(start, end);
  builder_.AddSymbol(start, ' ', end);
  for (const char blank : {' ', '\t'}) {
    State state = builder_.AddText(start, "\n");
    for (size_t i = 0; i < kMostIndentation; ++i) {
      builder_.AddEmpty(state, end);
      state = builder_.AddText(state, std::string(1, blank));
    }
    builder_.AddEmpty(state, end);
  }
}

void JsonForms::MakeValue(Rule rule) {
  const State start = GrammarBuilder::StartOf(rule);
  const State end = GrammarBuilder::EndOf(rule);
  for (const Rule kind : {Object(), Array(), String(Quoting::kJson), Number(), Boolean()}) {
    builder_.AddCall(start, kind, end);
  }
  builder_.AddText(start, "null", end);
}

void JsonForms::MakeObject(Rule rule) {
  const State end = GrammarBuilder::EndOf(rule);
  const State opened = builder_.AddText(GrammarBuilder::StartOf(rule), "{");
  const State key = builder_.NewState();
  const State colon = builder_.NewState();
  const State value = builder_.NewState();
  const State after = builder_.NewState();
  const State closing = builder_.NewState();
  builder_.AddCall(opened, Gap(), key);
  builder_.AddCall(key, String(Quoting::kJson), colon);
  builder_.AddCall(builder_.AddText(colon, ":"), Gap(), value);
  builder_.AddCall(value, Value(), after);
  builder_.AddCall(builder_.AddText(after, ","), Gap(), key);
  builder_.AddCall(opened, Gap(), closing);
  builder_.AddCall(after, Gap(), closing);
  builder_.AddSymbol(closing, '}', end);
}

void JsonForms::MakeArray(Rule rule) {
  const State end = GrammarBuilder::EndOf(rule);
  const State opened = builder_.AddText(GrammarBuilder::StartOf(rule), "[");
  const State item = builder_.NewState();
  const State after = builder_.NewState();
  const State closing = builder_.NewState();
  builder_.AddCall(opened, Gap(), item);
  builder_.AddCall(item, Value(), after);
  builder_.AddCall(builder_.AddText(after, ","), Gap(), item);
  builder_.AddCall(opened, Gap(), closing);
  builder_.AddCall(after, Gap(), closing);
  builder_.AddSymbol(closing, ']', end);
}

// A minus sign perhaps, and the digits before the point.
State JsonForms::AddWholePart(State from, size_t most_digits) {
  const State digits = builder_.NewState();
  const State done = builder_.NewState();
  builder_.AddEmpty(from, digits);
  builder_.AddSymbol(from, '-', digits);
  builder_.AddSymbol(digits, '0', done);
  State state = builder_.NewState();
  builder_.AddRange(digits, '1', '9', state);
  for (size_t i = 1; i < most_digits; ++i) {
    builder_.AddEmpty(state, done);
    const State next = builder_.NewState();
    builder_.AddRange(state, '0', '9', next);
    state = next;
  }
  builder_.AddEmpty(state, done);
  return done;
}

void JsonForms::MakeInteger(Rule rule) {
  builder_.AddEmpty(AddWholePart(GrammarBuilder::StartOf(rule), kMostIntegerDigits),
                    GrammarBuilder::EndOf(rule));
}

void JsonForms::MakeNumber(Rule rule) {
  const State end = GrammarBuilder::EndOf(rule);
  const State whole = AddWholePart(GrammarBuilder::StartOf(rule), kMostDigits);
  const State mantissa = builder_.NewState();
  builder_.AddEmpty(whole, mantissa);
  State state = builder_.AddText(whole, ".");
  for (size_t i = 0; i < kMostDigits; ++i) {
    const State next = builder_.NewState();
    builder_.AddRange(state, '0', '9', next);
    builder_.AddEmpty(next, mantissa);
    state = next;
  }
  builder_.AddEmpty(mantissa, end);
  const State sign = builder_.NewState();
  const State exponent = builder_.NewState();
  for (const char e : {'e', 'E'}) builder_.AddSymbol(mantissa, static_cast<uint8_t>(e), sign);
  builder_.AddEmpty(sign, exponent);
  for (const char c : {'+', '-'}) builder_.AddSymbol(sign, static_cast<uint8_t>(c), exponent);
  const State second = builder_.NewState();
  builder_.AddRange(exponent, '0', '9', second);
  builder_.AddRange(second, '0', '9', end);
  builder_.AddEmpty(second, end);
}

void JsonForms::MakeBoolean(Rule rule) {
  for (const char* word : {"true", "false"}) {
    builder_.AddText(GrammarBuilder::StartOf(rule), word, GrammarBuilder::EndOf(rule));
  }
}

void JsonForms::MakeJsonString(Rule rule) {
  const State inside = builder_.AddText(GrammarBuilder::StartOf(rule), "\"");
  const CodeRange plain[] = {{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, kMostCode}};
  AddCharacter(builder_, inside, plain, Quoting::kJson, inside);
  AddEscapes(inside, inside);
  builder_.AddSymbol(inside, '"', GrammarBuilder::EndOf(rule));
}

void JsonForms::MakeRawString(Rule rule) {
  const State inside = builder_.NewState();
  const CodeRange all[] = {{0, kMostCode}};
  builder_.AddEmpty(GrammarBuilder::StartOf(rule), inside);
  AddCharacter(builder_, inside, all, Quoting::kRaw, inside);
  builder_.AddEmpty(inside, GrammarBuilder::EndOf(rule));
}

void JsonForms::MakeJsonCharacter(Rule rule) {
  const State start = GrammarBuilder::StartOf(rule);
  const CodeRange plain[] = {{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, kMostCode}};
  AddCharacter(builder_, start, plain, Quoting::kJson, GrammarBuilder::EndOf(rule));
  AddEscapes(start, GrammarBuilder::EndOf(rule));
}

void JsonForms::MakeRawCharacter(Rule rule) {
  const CodeRange all[] = {{0, kMostCode}};
  AddCharacter(builder_, GrammarBuilder::StartOf(rule), all, Quoting::kRaw,
               GrammarBuilder::EndOf(rule));
}

// Every escape of JSON; surrogates in pairs alone.
void JsonForms::AddEscapes(State from, State to) {
  const State escape = builder_.AddText(from, "\\");
  for (const char c : std::string_view("\"\\/bfnrt")) {
    builder_.AddSymbol(escape, static_cast<uint8_t>(c), to);
  }
  const auto add_digit = [&](State state, uint32_t first, uint32_t last, State next) {
    for (uint32_t digit = first; digit <= last; ++digit) {
      builder_.AddSymbol(state, static_cast<uint8_t>("0123456789abcdef"[digit]), next);
      if (digit > 9) builder_.AddSymbol(state, static_cast<uint8_t>("ABCDEF"[digit - 10]), next);
    }
  };
  const auto add_digits = [&](State state, int count, State next) {
    for (; count > 1; --count) {
      const State middle = builder_.NewState();
      add_digit(state, 0, 15, middle);
      state = middle;
    }
    add_digit(state, 0, 15, next);
  };
  const State code = builder_.AddText(escape, "u");
  const State plain = builder_.NewState();
  const State after_d = builder_.NewState();
  add_digit(code, 0, 12, plain);
  add_digit(code, 14, 15, plain);
  add_digits(plain, 3, to);
  add_digit(code, 13, 13, after_d);
  const State below_surrogates = builder_.NewState();
  add_digit(after_d, 0, 7, below_surrogates);
  add_digits(below_surrogates, 2, to);
  const State high = builder_.NewState();
  const State high_done = builder_.NewState();
  add_digit(after_d, 8, 11, high);
  add_digits(high, 2, high_done);
  const State low = builder_.AddText(high_done, "\\u");
  const State low_d = builder_.NewState();
  const State low_rest = builder_.NewState();
  add_digit(low, 13, 13, low_d);
  add_digit(low_d, 12, 15, low_rest);
  add_digits(low_rest, 2, to);
}

Rule JsonForms::OtherString(std::span<const std::string> taken) {
  const Rule rule = builder_.NewRule();
  const State end = GrammarBuilder::EndOf(rule);
  const State other = builder_.NewState();  // differs from all of them already
  const CodeRange all[] = {{0, kMostCode}};
  AddCharacter(builder_, other, all, Quoting::kJson, other);
  builder_.AddSymbol(other, '"', end);
  // Strings that begin alike share their states.
  struct Place {
    State state;
    std::map<uint32_t, size_t> next;  // by character
    bool is_taken = false;
  };
  std::vector<Place> places = {{builder_.AddText(GrammarBuilder::StartOf(rule), "\""), {}}};
  for (const std::string& text : taken) {
    size_t place = 0;
    for (size_t i = 0; i < text.size();) {
      const text::CodePoint point = text::CodePointAt(text, i);
      i += point.size_bytes;
      const auto [found, is_new] = places[place].next.try_emplace(point.value, places.size());
      const size_t next = found->second;
      if (is_new) {
        places.push_back({builder_.NewState(), {}});
        const CodeRange one[] = {{point.value, point.value}};
        AddCharacter(builder_, places[place].state, one, Quoting::kJson, places[next].state);
      }
      place = next;
    }
    places[place].is_taken = true;
  }
  for (const Place& place : places) {
    std::vector<CodeRange> ranges;
    uint32_t first = 0;
    for (const auto& [code, next] : place.next) {
      if (code > first) ranges.push_back({first, code - 1});
      first = code + 1;
    }
    if (first <= kMostCode) ranges.push_back({first, kMostCode});
    AddCharacter(builder_, place.state, ranges, Quoting::kJson, other);
    if (!place.is_taken) builder_.AddSymbol(place.state, '"', end);
  }
  return rule;
}

}  // namespace kimi_k3::grammar

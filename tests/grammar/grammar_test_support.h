// Trying texts against grammars, and making random ones.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "grammar/turn_grammar.h"
#include "text/json_value.h"

namespace kimi_k3::grammar {

// The form of a schema, which is JSON text; empty: any object.
inline std::shared_ptr<const Grammar> FormOf(std::string_view schema) {
  if (schema.empty()) return std::make_shared<const Grammar>(JsonGrammar(nullptr, "schema"));
  const text::JsonParseResult parsed = text::ParseJson(schema);
  if (!parsed.value) throw std::runtime_error(std::string(schema) + " is " + parsed.error);
  return std::make_shared<const Grammar>(JsonGrammar(&*parsed.value, "schema"));
}

// What making the form is refused with; empty where it is not.
inline std::string RefusalOf(std::string_view schema) {
  try {
    FormOf(schema);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
}

inline bool Matches(const std::shared_ptr<const Grammar>& form, std::string_view text) {
  Matcher matcher(form);
  Matcher::Point point = matcher.start();
  for (const char c : text) point = matcher.Step(point, static_cast<uint8_t>(c));
  return matcher.Complete(point);
}

// A text of the form, chosen byte by byte; ends as soon as it may once it is long. A matcher that
// led into a dead end fails the test.
inline std::string RandomText(Matcher& matcher, std::mt19937& random, size_t long_bytes = 60) {
  std::string text;
  Matcher::Point point = matcher.start();
  for (;;) {
    if (matcher.Complete(point) && (text.size() > long_bytes || random() % 8 == 0)) return text;
    std::vector<Symbol> next;
    for (Symbol symbol = 0; symbol < 256; ++symbol) {
      if (matcher.Step(point, symbol) != Matcher::kDead) next.push_back(symbol);
    }
    if (next.empty()) {
      EXPECT_TRUE(matcher.Complete(point)) << text;
      return text;
    }
    Symbol symbol = next[random() % next.size()];
    // What is long is brought to its end.
    if (text.size() > long_bytes) {
      for (const char end : std::string_view("\"}]0")) {
        if (matcher.Step(point, static_cast<uint8_t>(end)) != Matcher::kDead) {
          symbol = static_cast<uint8_t>(end);
          break;
        }
      }
    }
    text += static_cast<char>(symbol);
    point = matcher.Step(point, symbol);
    if (text.size() > 20'000) {
      ADD_FAILURE() << "no end: " << text.substr(0, 300);
      return text;
    }
  }
}

}  // namespace kimi_k3::grammar

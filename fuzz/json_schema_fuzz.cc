// Fuzzes JSON schemas: each is refused in words, or every text that follows its grammar ends as
// JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "grammar/matcher.h"
#include "grammar/turn_grammar.h"
#include "kimi_k3/error.h"
#include "kimi_k3/utf8.h"
#include "text/json_value.h"

namespace kimi_k3::grammar {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

// Follows the first symbol that may come from `wish` on, and brings long texts to an end.
void CheckText(const std::shared_ptr<const Grammar>& form, uint32_t wish) {
  constexpr size_t kLong = 100;
  constexpr size_t kTooLong = 2000;
  Matcher matcher(form);
  Matcher::Point point = matcher.start();
  std::string text;
  while (!matcher.IsLast(point)) {
    if (matcher.Complete(point) && text.size() > kLong) break;
    if (text.size() > kTooLong) return;  // long, but not stuck
    wish = wish * 1664525 + 1013904223;
    Symbol symbol = static_cast<Symbol>(wish >> 24);
    for (const char end : std::string_view("\"}]0")) {
      if (text.size() > kLong && matcher.Step(point, static_cast<uint8_t>(end)) != Matcher::kDead) {
        symbol = static_cast<uint8_t>(end);
      }
    }
    Matcher::Point next = matcher.Step(point, symbol);
    for (int tried = 0; next == Matcher::kDead; ++tried) {
      Check(tried < 256);
      symbol = static_cast<Symbol>((symbol + 1) % 256);
      next = matcher.Step(point, symbol);
    }
    point = next;
    text += static_cast<char>(symbol);
    if (matcher.size() > 2000) matcher.Forget({&point, 1});
  }
  Check(matcher.Complete(point) && IsValidUtf8(text));
  Check(text::ParseJson(text).value.has_value());
}

void FuzzOne(std::string_view input) {
  const text::JsonParseResult schema = text::ParseJson(input);
  if (!schema.value) return;
  try {
    const auto form = std::make_shared<const Grammar>(JsonGrammar(&*schema.value, "schema"));
    for (uint32_t wish = 1; wish <= 3; ++wish) CheckText(form, wish);
  } catch (const Error& error) {
    Check(error.kind() == ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace kimi_k3::grammar

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kimi_k3::grammar::FuzzOne({reinterpret_cast<const char*>(data), size});
  return 0;
}

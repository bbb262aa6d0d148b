// Numbers between bounds, as grammar.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "grammar/grammar.h"

namespace kimi_k3::grammar {

// A number as digits: no zeros that say nothing, no exponent.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction;
  bool is_zero() const { return whole == "0" && fraction.empty(); }

  // From a JSON number. Nothing where it has more than 40 digits on either side of the point.
  static std::optional<Decimal> Parse(std::string_view json_number);
};

struct Bound {
  Decimal value;
  bool exclusive = false;
};

// What numbers are allowed.
struct NumberRange {
  std::optional<Bound> least;
  std::optional<Bound> most;
  bool whole = false;  // integers alone
};

// Digits of an integer without a bound, at most.
inline constexpr size_t kMostIntegerDigits = 18;

// Adds the numbers of the range between two states, written without exponent, with at most 20
// digits more than the bounds have; integers without a bound with at most kMostIntegerDigits. Where
// none is in the range, nothing leads to `to`.
void AddNumbers(GrammarBuilder& builder, State from, const NumberRange& range, State to);

}  // namespace kimi_k3::grammar

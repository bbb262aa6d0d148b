// Numbers between bounds, as grammar.
#include "grammar/number_range.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <tuple>

namespace kimi_k3::grammar {
namespace {

constexpr size_t kMostBoundDigits = 40;
constexpr size_t kMoreDigits = 20;

// Numbers without sign from `least` to `most`, digit by digit: a number is told apart from a bound
// by its length, or by the first digit that differs.
class Magnitudes {
 public:
  Magnitudes(GrammarBuilder& builder, const Bound& least, const std::optional<Bound>& most,
             bool whole, State to)
      : builder_(builder), least_(least), most_(most), whole_(whole), to_(to) {}

  void Add(State from) {
    const size_t shortest = least_.value.whole.size();
    const size_t longest = most_    ? most_->value.whole.size()
                           : whole_ ? std::max(shortest, kMostIntegerDigits)
                                    : shortest + kMoreDigits;
    for (size_t length = shortest; length <= longest; ++length) {
      const bool at_least = length == shortest;
      const bool at_most = most_ && length == most_->value.whole.size();
      AddWhole(from, length, 0, at_least, at_most);
    }
  }

 private:
  static int Digit(const std::string& digits, size_t place) {
    return place < digits.size() ? digits[place] - '0' : 0;
  }

  // Calls `add` with each run of digits after which the same holds.
  template <typename AddDigits>
  static void ForDigits(int lowest, int least, int most, bool at_least, bool at_most,
                        const AddDigits& add) {
    const int first = std::max(lowest, at_least ? least : 0);
    const int last = at_most ? most : 9;
    for (int digit = first; digit <= last;) {
      const bool still_least = at_least && digit == least;
      const bool still_most = at_most && digit == most;
      int end = digit;
      if (!still_least && !still_most) end = at_most ? most - 1 : 9;
      add(static_cast<Symbol>('0' + digit), static_cast<Symbol>('0' + end), still_least,
          still_most);
      digit = end + 1;
    }
  }

  // at_least, at_most: all digits so far are those of the bound.
  void AddWhole(State from, size_t length, size_t place, bool at_least, bool at_most) {
    if (place == length) {
      builder_.AddEmpty(from, Fraction(0, at_least, at_most));
      return;
    }
    const int lowest = place == 0 && length > 1 ? 1 : 0;
    const int least = at_least ? Digit(least_.value.whole, place) : 0;
    const int most = at_most ? Digit(most_->value.whole, place) : 9;
    ForDigits(lowest, least, most, at_least, at_most,
              [&](Symbol first, Symbol last, bool still_least, bool still_most) {
                // Without bounds only the number of digits to come matters.
                const bool free = !still_least && !still_most;
                const auto key = free ? std::tuple(size_t{0}, length - place - 1, false, false)
                                      : std::tuple(length, place + 1, still_least, still_most);
                const auto [found, is_new] = whole_states_.try_emplace(key, 0);
                if (is_new) found->second = builder_.NewState();
                const State next = found->second;
                builder_.AddRange(from, first, last, next);
                if (is_new) AddWhole(next, length, place + 1, still_least, still_most);
              });
  }

  // The state after `digits` digits of the fraction.
  State Fraction(size_t digits, bool at_least, bool at_most) {
    const auto key = std::tuple(digits, at_least, at_most);
    const auto [found, is_new] = fractions_.try_emplace(key, 0);
    if (!is_new) return found->second;
    const State state = builder_.NewState();
    found->second = state;
    if (MayEnd(digits, at_least, at_most)) builder_.AddEmpty(state, to_);
    const size_t longest = kMoreDigits + std::max(least_.value.fraction.size(),
                                                  most_ ? most_->value.fraction.size() : 0);
    if (whole_ || digits == longest) return state;
    const State point = digits == 0 ? builder_.AddText(state, ".") : state;
    const int least = Digit(least_.value.fraction, digits);
    const int most = most_ ? Digit(most_->value.fraction, digits) : 9;
    ForDigits(0, least, most, at_least, at_most,
              [&](Symbol first, Symbol last, bool still_least, bool still_most) {
                builder_.AddRange(point, first, last,
                                  Fraction(digits + 1, still_least, still_most));
              });
    return state;
  }

  // Bounds have no zeros at their ends: digits that are left make them larger than the number.
  bool MayEnd(size_t digits, bool at_least, bool at_most) const {
    if (at_least && (digits < least_.value.fraction.size() || least_.exclusive)) return false;
    return !at_most || digits < most_->value.fraction.size() || !most_->exclusive;
  }

  GrammarBuilder& builder_;
  const Bound& least_;
  const std::optional<Bound>& most_;
  const bool whole_;
  const State to_;
  std::map<std::tuple<size_t, size_t, bool, bool>, State> whole_states_;
  std::map<std::tuple<size_t, bool, bool>, State> fractions_;
};

Bound Absolute(Bound bound) {
  bound.value.negative = false;
  return bound;
}

}  // namespace

std::optional<Decimal> Decimal::Parse(std::string_view json_number) {
  Decimal decimal;
  if (json_number.starts_with('-')) {
    decimal.negative = true;
    json_number.remove_prefix(1);
  }
  const size_t mark = json_number.find_first_of("eE");
  std::string_view mantissa = json_number.substr(0, mark);
  int exponent = 0;
  if (mark != std::string_view::npos) {
    std::string_view digits = json_number.substr(mark + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    const auto [end, status] =
        std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (status != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  }
  if (exponent > 1000 || exponent < -1000 || mantissa.size() > 1000) return std::nullopt;
  if (mantissa.find_first_not_of("0123456789.") != std::string_view::npos) return std::nullopt;
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  std::string digits(mantissa.substr(0, point));
  if (point < mantissa.size()) digits += mantissa.substr(point + 1);
  int whole_digits = static_cast<int>(point) + exponent;
  if (whole_digits < 0) {
    digits.insert(digits.begin(), static_cast<size_t>(-whole_digits), '0');
    whole_digits = 0;
  }
  if (static_cast<size_t>(whole_digits) > digits.size()) {
    digits.append(static_cast<size_t>(whole_digits) - digits.size(), '0');
  }
  decimal.whole = digits.substr(0, static_cast<size_t>(whole_digits));
  decimal.fraction = digits.substr(static_cast<size_t>(whole_digits));
  decimal.whole.erase(0, std::min(decimal.whole.find_first_not_of('0'), decimal.whole.size()));
  if (decimal.whole.empty()) decimal.whole.push_back('0');
  decimal.fraction.erase(decimal.fraction.find_last_not_of('0') + 1);
  if (decimal.whole.size() > kMostBoundDigits || decimal.fraction.size() > kMostBoundDigits) {
    return std::nullopt;
  }
  if (decimal.is_zero()) decimal.negative = false;
  return decimal;
}

void AddNumbers(GrammarBuilder& builder, State from, const NumberRange& range, State to) {
  const bool has_positive = !range.most || !range.most->value.negative;
  if (has_positive) {
    const bool from_zero = !range.least || range.least->value.negative;
    const Bound least = from_zero ? Bound{} : *range.least;
    Magnitudes(builder, least, range.most, range.whole, to).Add(from);
  }
  // -0 is left to the positive ones.
  const bool has_negative = !range.least || range.least->value.negative;
  if (has_negative) {
    const bool to_zero = !range.most || !range.most->value.negative;
    const Bound least = to_zero ? Bound{{}, true} : Absolute(*range.most);
    std::optional<Bound> most;
    if (range.least) most = Absolute(*range.least);
    Magnitudes(builder, least, most, range.whole, to).Add(builder.AddText(from, "-"));
  }
}

}  // namespace kimi_k3::grammar

#include "grammar/number_range.h"

#include "grammar/grammar_test_support.h"

namespace kimi_k3::grammar {
namespace {

std::optional<Bound> BoundOf(std::string_view number, bool exclusive) {
  if (number.empty()) return std::nullopt;
  return Bound{Decimal::Parse(number).value(), exclusive};
}

// Null where no number is in the range.
std::shared_ptr<const Grammar> FormOfRange(const NumberRange& range) {
  GrammarBuilder builder;
  const Rule rule = builder.NewRule();
  AddNumbers(builder, GrammarBuilder::StartOf(rule), range, GrammarBuilder::EndOf(rule));
  try {
    return std::make_shared<const Grammar>(builder.Finish(rule));
  } catch (const GrammarError&) {
    return nullptr;
  }
}

TEST(Decimals, AreReadExactly) {
  const auto text = [](std::string_view number) {
    const Decimal decimal = Decimal::Parse(number).value();
    return (decimal.negative ? "-" : "") + decimal.whole + "." + decimal.fraction;
  };
  EXPECT_EQ(text("0"), "0.");
  EXPECT_EQ(text("-0.0"), "0.");
  EXPECT_EQ(text("-12.50"), "-12.5");
  EXPECT_EQ(text("1.25e1"), "12.5");
  EXPECT_EQ(text("1.25E+4"), "12500.");
  EXPECT_EQ(text("125e-4"), "0.0125");
  EXPECT_FALSE(Decimal::Parse("1e41").has_value());
  EXPECT_FALSE(Decimal::Parse("1e-41").has_value());
  EXPECT_FALSE(Decimal::Parse("1e99999999999").has_value());
  EXPECT_FALSE(Decimal::Parse("Infinity").has_value());
}

TEST(NumberRanges, HoldTheNumbersBetweenTheirBounds) {
  const char* const bounds[] = {"",   "0",   "1",    "9",   "10",   "-1",    "-10",
                                "99", "123", "-123", "0.5", "-0.5", "12.25", "99.99"};
  for (const char* least : bounds) {
    for (const char* most : bounds) {
      for (int kind = 0; kind < 8; ++kind) {
        const NumberRange range = {BoundOf(least, (kind & 1) != 0), BoundOf(most, (kind & 2) != 0),
                                   (kind & 4) != 0};
        const auto form = FormOfRange(range);
        for (const char* number :
             {"0",      "1",       "2",     "9",     "10",     "11",     "98",     "99",
              "100",    "123",     "124",   "-1",    "-2",     "-10",    "-11",    "-123",
              "-124",   "0.5",     "0.49",  "0.51",  "-0.5",   "-0.49",  "-0.51",  "12.25",
              "12.250", "12.2501", "12.24", "99.99", "99.991", "-0.001", "1000000"}) {
          const double value = std::stod(number);
          const std::string_view text(number);
          bool wanted = !range.whole || text.find('.') == std::string_view::npos;
          if (*least != 0)
            wanted &= (kind & 1) != 0 ? value > std::stod(least) : value >= std::stod(least);
          if (*most != 0)
            wanted &= (kind & 2) != 0 ? value < std::stod(most) : value <= std::stod(most);
          const bool found = form != nullptr && Matches(form, text);
          EXPECT_EQ(found, wanted) << least << " to " << most << ", kind " << kind << ": " << text;
        }
      }
    }
  }
}

TEST(NumberRanges, AreWrittenAsJsonWritesNumbers) {
  const auto form = FormOfRange({BoundOf("-5", false), BoundOf("500", false), false});
  for (const char* text : {"007", "1.", ".5", "-", "1e1", "+1", "--1"}) {
    EXPECT_FALSE(Matches(form, text)) << text;
  }
}

}  // namespace
}  // namespace kimi_k3::grammar

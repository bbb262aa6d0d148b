#include "grammar/matcher.h"

#include "grammar/grammar_test_support.h"

namespace kimi_k3::grammar {
namespace {

TEST(Matcher, GivesBeginningsThatAreAlikeOneNumber) {
  Matcher matcher(FormOf(R"({"type": "string"})"));
  const Matcher::Point inside = matcher.Step(matcher.start(), '"');
  EXPECT_EQ(matcher.Step(inside, 'a'), inside);
  EXPECT_NE(matcher.Step(inside, '\\'), inside);
  EXPECT_EQ(matcher.Step(inside, '\n'), Matcher::kDead);
  EXPECT_EQ(matcher.Step(Matcher::kDead, 'a'), Matcher::kDead);
  const Matcher::Point whole = matcher.Step(inside, '"');
  EXPECT_TRUE(matcher.Complete(whole));
  EXPECT_TRUE(matcher.IsLast(whole));
  EXPECT_FALSE(matcher.Complete(Matcher::kDead));
}

TEST(Matcher, GoesOnFromWhatItKept) {
  const std::string_view text = R"({"a": [1, {"b": "x\u00e9"}, [[]]], "c": null})";
  const auto form = FormOf("");
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Matcher matcher(form);
    Matcher::Point point = matcher.start();
    for (const char c : text.substr(0, cut)) point = matcher.Step(point, static_cast<uint8_t>(c));
    const bool complete = matcher.Complete(point);
    const size_t before = matcher.size();
    matcher.Forget({&point, 1});
    EXPECT_LE(matcher.size(), std::min<size_t>(before, 3));
    EXPECT_EQ(matcher.Complete(point), complete);
    for (const char c : text.substr(cut)) point = matcher.Step(point, static_cast<uint8_t>(c));
    EXPECT_TRUE(matcher.Complete(point)) << cut;
  }
}

TEST(Matcher, NeverNestsDeeperThanItCanEnd) {
  Matcher matcher(FormOf(""));
  Matcher::Point point = matcher.Step(matcher.start(), '{');
  for (const char c : std::string_view("\"a\":"))
    point = matcher.Step(point, static_cast<uint8_t>(c));
  size_t depth = 0;
  for (Matcher::Point next = matcher.Step(point, '['); next != Matcher::kDead;
       next = matcher.Step(point, '[')) {
    point = next;
    ++depth;
  }
  EXPECT_GT(depth, 30U);
  EXPECT_LT(depth, kMostDepth);
  for (; depth > 0; --depth) point = matcher.Step(point, ']');
  EXPECT_TRUE(matcher.Complete(matcher.Step(point, '}')));
}

TEST(Matcher, FollowsManyMeaningsAtOnce) {
  // Two alternatives at every level that differ at the end of all alone.
  const auto form = FormOf(R"({"$defs": {
      "a": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}},
      "b": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}}},
      "$ref": "#/$defs/a"})");
  EXPECT_TRUE(Matches(form, std::string(30, '[') + std::string(30, ']')));
  EXPECT_FALSE(Matches(form, std::string(30, '[') + std::string(29, ']')));
}

}  // namespace
}  // namespace kimi_k3::grammar

#include "grammar/grammar.h"

#include <gmock/gmock.h>

#include "grammar/grammar_test_support.h"

namespace kimi_k3::grammar {
namespace {

using testing::HasSubstr;

std::string FinishError(GrammarBuilder& builder, Rule root) {
  try {
    builder.Finish(root);
    return {};
  } catch (const GrammarError& error) {
    return error.what();
  }
}

TEST(Grammar, TellsHowDeepRulesMustBeEnteredToEnd) {
  GrammarBuilder builder;
  const Rule inner = builder.NewRule();
  builder.AddText(GrammarBuilder::StartOf(inner), "x", GrammarBuilder::EndOf(inner));
  const Rule outer = builder.NewRule();
  const State middle = builder.NewState();
  builder.AddCall(GrammarBuilder::StartOf(outer), inner, middle);
  builder.AddText(middle, "y", GrammarBuilder::EndOf(outer));
  const Grammar grammar = builder.Finish(outer);
  EXPECT_EQ(grammar.Need(grammar.start()), 1U);
  EXPECT_EQ(grammar.Need(grammar.StartOf(inner)), 0U);
  EXPECT_TRUE(grammar.IsEnd(grammar.StartOf(outer) + 1));
}

TEST(Grammar, PutsSymbolsThatAreAlikeIntoOneClass) {
  GrammarBuilder builder;
  const Rule rule = builder.NewRule();
  builder.AddRange(GrammarBuilder::StartOf(rule), 'a', 'f', GrammarBuilder::EndOf(rule));
  const Grammar grammar = builder.Finish(rule);
  EXPECT_EQ(grammar.classes(), 3U);
  EXPECT_EQ(grammar.ClassOf('a'), grammar.ClassOf('f'));
  EXPECT_NE(grammar.ClassOf('f'), grammar.ClassOf('g'));
  EXPECT_EQ(grammar.ClassOf('g'), grammar.ClassOf(kSep));
}

TEST(Grammar, RefusesWhatHasNoEnd) {
  GrammarBuilder builder;
  const Rule rule = builder.NewRule();
  builder.AddCall(builder.AddText(GrammarBuilder::StartOf(rule), "x"), rule,
                  GrammarBuilder::EndOf(rule));
  EXPECT_THAT(FinishError(builder, rule), HasSubstr("nothing that ends"));
}

TEST(Grammar, RefusesARuleThatBeginsWithItself) {
  GrammarBuilder builder;
  const Rule rule = builder.NewRule();
  const State next = builder.NewState();
  builder.AddEmpty(GrammarBuilder::StartOf(rule), next);
  builder.AddCall(next, rule, GrammarBuilder::EndOf(rule));
  builder.AddText(next, "x", GrammarBuilder::EndOf(rule));
  EXPECT_THAT(FinishError(builder, rule), HasSubstr("back to itself"));
}

TEST(Grammar, TakesCirclesThatEnterNoRule) {
  GrammarBuilder builder;
  const Rule rule = builder.NewRule();
  const State loop = builder.NewState();
  builder.AddEmpty(GrammarBuilder::StartOf(rule), loop);
  builder.AddEmpty(loop, GrammarBuilder::StartOf(rule));
  builder.AddText(loop, "x", GrammarBuilder::EndOf(rule));
  const auto grammar = std::make_shared<const Grammar>(builder.Finish(rule));
  EXPECT_TRUE(Matches(grammar, "x"));
  EXPECT_FALSE(Matches(grammar, "xx"));
}

TEST(Grammar, RefusesMoreArcsThanItHasRoomFor) {
  GrammarBuilder builder;
  const State state = builder.NewState();
  EXPECT_THROW(
      {
        for (size_t i = 0; i <= kMostArcs; ++i) builder.AddEmpty(state, state);
      },
      GrammarError);
}

}  // namespace
}  // namespace kimi_k3::grammar

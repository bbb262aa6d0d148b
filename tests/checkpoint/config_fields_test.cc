// Fields are taken as they are written or refused by name.
#include "checkpoint/config_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kimi_k3 {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class ConfigFieldsTest : public testing::Test {
 protected:
  ConfigFields Fields(const json& object) {
    object_ = object;
    return ConfigFields(object_, "c.json", "text_config", problems_);
  }
  json object_;
  ProblemList problems_{100};
};

TEST_F(ConfigFieldsTest, TakesWholeNumbersInRange) {
  EXPECT_EQ(Fields({{"a", 64}}).Size("a", {1, 64}, Presence::kRequired), 64U);
  EXPECT_TRUE(problems_.empty());
}

TEST_F(ConfigFieldsTest, RefusesEverythingElseAsASizeNamingTheField) {
  const char* const texts[] = {"1e3",  "\"64\"", "-1", "0",  "2147483648", "true",
                               "64.0", "[]",     "{}", "-0", "1.5",        "18446744073709551616"};
  for (const char* text : texts) {
    ProblemList problems;
    const json object = {{"a", json::parse(text)}};
    ConfigFields fields(object, "c.json", "text_config", problems);
    EXPECT_FALSE(fields.Size("a", {1, 1000}, Presence::kRequired)) << text;
    EXPECT_THAT(problems.Text(), HasSubstr("c.json: text_config.a is ")) << text;
    EXPECT_THAT(problems.Text(), HasSubstr("a whole number from 1 to 1000")) << text;
  }
}

TEST_F(ConfigFieldsTest, TakesNumbersWrittenEitherWay) {
  EXPECT_EQ(Fields({{"a", 4}}).Number("a", {0, 10}, Presence::kRequired), 4.0);
  EXPECT_EQ(Fields({{"a", 0.5}}).Number("a", {0, 10}, Presence::kRequired), 0.5);
  EXPECT_TRUE(problems_.empty());
  EXPECT_FALSE(Fields({{"a", "4"}}).Number("a", {0, 10}, Presence::kRequired));
  EXPECT_FALSE(Fields({{"a", true}}).Number("a", {0, 10}, Presence::kRequired));
  EXPECT_FALSE(Fields({{"a", 11}}).Number("a", {0, 10}, Presence::kRequired));
  EXPECT_EQ(problems_.count(), 3U);
}

TEST_F(ConfigFieldsTest, TakesFlagsTextsAndLists) {
  ConfigFields fields = Fields({{"f", true}, {"t", "x"}, {"l", {1, 2}}, {"o", json::object()}});
  EXPECT_EQ(fields.Flag("f", Presence::kRequired), true);
  EXPECT_EQ(fields.Text("t", Presence::kRequired), "x");
  EXPECT_THAT(*fields.SizeList("l", {1, 2}, Presence::kRequired), ElementsAre(1, 2));
  EXPECT_NE(fields.Object("o", Presence::kRequired), nullptr);
  EXPECT_TRUE(problems_.empty());
}

TEST_F(ConfigFieldsTest, RefusesFlagsTextsAndListsOfAnotherType) {
  ConfigFields fields = Fields({{"f", 1}, {"t", 1}, {"l", "1, 2"}, {"m", {1, "2"}}, {"o", "{}"}});
  EXPECT_FALSE(fields.Flag("f", Presence::kRequired));
  EXPECT_FALSE(fields.Text("t", Presence::kRequired));
  EXPECT_FALSE(fields.SizeList("l", {1, 2}, Presence::kRequired));
  EXPECT_FALSE(fields.SizeList("m", {1, 2}, Presence::kRequired));
  EXPECT_EQ(fields.Object("o", Presence::kRequired), nullptr);
  EXPECT_EQ(problems_.count(), 5U);
}

TEST_F(ConfigFieldsTest, NullIsAbsence) {
  EXPECT_FALSE(Fields({{"a", nullptr}}).Size("a", {1, 2}, Presence::kOptional));
  EXPECT_TRUE(problems_.empty());
  EXPECT_FALSE(Fields({{"a", nullptr}}).Size("a", {1, 2}, Presence::kRequired));
  EXPECT_THAT(problems_.Text(), HasSubstr("text_config.a is null"));
}

TEST_F(ConfigFieldsTest, SuggestsTheNameThatWasMeant) {
  Fields({{"num_experts_per_tok", 4}, {"x", 1}})
      .Size("num_experts_per_token", {1, 9}, Presence::kRequired);
  EXPECT_THAT(problems_.Text(), HasSubstr("num_experts_per_token is missing"));
  EXPECT_THAT(problems_.Text(), HasSubstr("is num_experts_per_tok meant?"));
}

TEST_F(ConfigFieldsTest, KeepsLongValuesOutOfMessages) {
  Fields({{"a", std::string(100'000, 'x')}}).Size("a", {1, 9}, Presence::kRequired);
  EXPECT_LT(problems_.Text().size(), 300U);
}

}  // namespace
}  // namespace kimi_k3

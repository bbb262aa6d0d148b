// The options of the chat command.
#include "cli/chat_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

// What the options are refused with; empty where they are not.
std::string Refusal(const ChatOptions& options) {
  try {
    CheckChatOptions(options);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
}

TEST(ChatOptions, HaveTheVendorsDefaults) {
  CLI::App app;
  ChatOptions options;
  AddChatOptions(app, options);
  app.parse("-m model");
  EXPECT_EQ(options.sampling.temperature, 1.0F);
  EXPECT_EQ(options.sampling.top_p, 0.95F);
  EXPECT_FALSE(options.effort.has_value());
  EXPECT_FALSE(SeedIsGiven(app));
  EXPECT_EQ(Refusal(options), "");
}

TEST(ChatOptions, EachFlagSetsItsOwn) {
  CLI::App app;
  ChatOptions options;
  AddChatOptions(app, options);
  app.parse(
      "-m model --system Short. --effort low --hide-thinking -n 5 --seed 3 --session a.k3s "
      "--stop one --stop two "
      "--session-every 2 --history typed --stats s.json -q");
  EXPECT_EQ(options.system, "Short.");
  EXPECT_EQ(options.effort, ThinkingEffort::kLow);
  EXPECT_TRUE(options.hide_thinking);
  EXPECT_EQ(options.max_tokens, 5U);
  EXPECT_EQ(options.stop, (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(SeedIsGiven(app));
  EXPECT_EQ(options.session_file, "a.k3s");
  EXPECT_EQ(options.session_every, 2U);
  EXPECT_EQ(options.history_file, "typed");
  EXPECT_EQ(options.stats_file, "s.json");
  EXPECT_TRUE(options.quiet);
}

TEST(ChatOptions, RefuseWhatMakesNoSenseTogether) {
  ChatOptions options;
  EXPECT_THAT(Refusal(options), HasSubstr("-m DIR"));
  options.engine.model_dir = "model";
  options.no_thinking = true;
  options.effort = ThinkingEffort::kHigh;
  EXPECT_THAT(Refusal(options), HasSubstr("--effort"));
  options.effort.reset();
  options.sampling.top_p = 2;
  EXPECT_THAT(Refusal(options), HasSubstr("top-p"));
}

}  // namespace
}  // namespace kimi_k3

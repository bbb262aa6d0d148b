// Options of a run: what goes together, and what is told of beforehand.
#include "cli/run_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/thread_pool.h"

namespace kimi_k3 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RunOptions AskingSomething() {
  RunOptions options;
  options.engine.model_dir = "model";
  options.prompt_text = "hello";
  return options;
}

std::string RefusalOf(const std::function<void(RunOptions&)>& change) {
  RunOptions options = AskingSomething();
  change(options);
  try {
    CheckRunOptions(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return {};
}

TEST(CheckRunOptions, TakesAPromptAndAModel) {
  EXPECT_EQ(RefusalOf([](RunOptions&) {}), "");
}

TEST(CheckRunOptions, RefusesWhatMakesNoSense) {
  EXPECT_THAT(RefusalOf([](RunOptions& o) { o.engine.model_dir.clear(); }),
              HasSubstr("which model?"));
  EXPECT_NE(RefusalOf([](RunOptions& o) { o.prompt_text.reset(); }), "");
  EXPECT_NE(RefusalOf([](RunOptions& o) { o.prompt_ids = {1, 2}; }), "");
  EXPECT_NE(RefusalOf([](RunOptions& o) { o.resume = true; }), "");
  EXPECT_THAT(RefusalOf([](RunOptions& o) {
                o.print_ids = true;
                o.stop = {"x"};
              }),
              HasSubstr("--print-ids"));
  EXPECT_THAT(RefusalOf([](RunOptions& o) {
                o.print_ids = true;
                o.hide_thinking = true;
              }),
              HasSubstr("--hide-thinking"));
  EXPECT_THAT(RefusalOf([](RunOptions& o) {
                o.logits_file = "a/./b";
                o.stats_file = "a/b";
              }),
              HasSubstr("same file"));
}

TEST(RunOptionWarnings, TellOfFlagsThatHaveNoEffect) {
  RunOptions options = AskingSomething();
  EXPECT_THAT(RunOptionWarnings(options), IsEmpty());
  options.sampling.temperature = 0;
  options.sampling.top_k = 7;
  EXPECT_THAT(RunOptionWarnings(options), ElementsAre(HasSubstr("--top-k has no effect")));
  options.sampling.temperature = 1;
  EXPECT_THAT(RunOptionWarnings(options), IsEmpty());
}

TEST(RunOptionWarnings, TellOfMoreThreadsThanCores) {
  RunOptions options = AskingSomething();
  options.engine.threads = UsableCores() + 1;
  EXPECT_THAT(RunOptionWarnings(options), ElementsAre(HasSubstr("likely much slower")));
}

}  // namespace
}  // namespace kimi_k3

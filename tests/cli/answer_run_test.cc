// Answers on their way: what is told where they end too early.
#include "cli/answer_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;
using testing::Not;

ProgramResult Ask(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"-m", TinyModel(), "-p", "What is Genesis 1:1?"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunProgram(arguments);
}

TEST(AnswerRun, TellsThatItWasCutInsideTheReasoning) {
  EXPECT_THAT(Ask({"-n", "3"}).err, HasSubstr("cut inside the reasoning"));
  EXPECT_THAT(Ask({"-n", "3"}).err, HasSubstr("-n"));
  EXPECT_THAT(Ask({"-c", "100"}).err, HasSubstr("-c"));
  EXPECT_THAT(Ask({"-n", "300"}).err, Not(HasSubstr("cut inside")));
  EXPECT_THAT(Ask({"-n", "3", "--no-thinking"}).err, Not(HasSubstr("cut inside")));
  EXPECT_THAT(Ask({"-n", "3", "--raw"}).err, Not(HasSubstr("cut inside")));
  EXPECT_THAT(Ask({"-n", "0"}).err, Not(HasSubstr("cut inside")));
}

TEST(AnswerRun, OfASessionThatCannotBeSavedAnyMoreIsShownAndFails) {
  const TemporaryFolder folder;
  // After the first save the folder is gone, and with it every later one.
  std::filesystem::create_directory(folder / "d");
  Program program(ProgramCommand({"-m", SmallModel(), "--token-ids", "1", "-n", "1000", "-t", "1",
                                  "-c", "4000", "--ignore-eos", "--session", folder / "d/s"}));
  program.AwaitOutput(" ");
  std::filesystem::rename(folder / "d", folder / "gone");
  const ProgramResult result = program.Finish();
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the answer goes on"));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), ' '), 999);
}

}  // namespace
}  // namespace kimi_k3

// When a session is saved, and what becomes of failures.
#include "cli/session_keeper.h"

#include <gtest/gtest.h>

#include "cli/program.h"
#include "kimi_k3/error.h"
#include "kimi_k3/session.h"

namespace kimi_k3 {
namespace {

Engine OpenSmall() {
  EngineOptions options;
  options.model_dir = SmallModel();
  options.context = 16;
  options.threads = 1;
  return Engine::Open(options);
}

TEST(SessionKeeper, SavesWithTheFirstTokenAndThenEverySoMany) {
  const TemporaryFolder folder;
  SessionKeeper keeper(folder / "s", 3);
  keeper.BeginAnswer();
  std::string due;
  for (int i = 0; i < 8; ++i) due += keeper.CountToken() ? 'x' : '.';
  EXPECT_EQ(due, "x..x..x.");
  keeper.BeginAnswer();
  EXPECT_TRUE(keeper.CountToken());
}

TEST(SessionKeeper, FollowsALinkAndReplacesWhatItLeadsTo) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "far");
  std::filesystem::create_symlink(folder / "far/real", folder / "s");
  const Engine engine = OpenSmall();
  const Sequence sequence = engine.NewSequence();
  SessionKeeper keeper(folder / "s", 3);
  EXPECT_FALSE(keeper.exists());
  keeper.Save(engine, sequence, SessionNote{});
  EXPECT_TRUE(keeper.exists());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "s"));
  EXPECT_EQ(keeper.saves(), 1U);
  EXPECT_EQ(keeper.file_bytes(), std::filesystem::file_size(folder / "far/real"));
}

TEST(SessionKeeper, AFailureIsRememberedUntilASaveSucceeds) {
  const TemporaryFolder folder;
  const Engine engine = OpenSmall();
  const Sequence sequence = engine.NewSequence();
  Output output(true);
  SessionKeeper keeper(folder / "s", 3);
  std::filesystem::create_directory(folder / "s");  // in the way
  EXPECT_THROW(keeper.Save(engine, sequence, SessionNote{}), Error);
  keeper.TrySave(engine, sequence, SessionNote{}, output);
  EXPECT_NE(keeper.failure(), "");
  std::filesystem::remove(folder / "s");
  keeper.TrySave(engine, sequence, SessionNote{}, output);
  EXPECT_EQ(keeper.failure(), "");
}

}  // namespace
}  // namespace kimi_k3

// The lock of a session, and what killed programs leave.
#include "cli/session_lock.h"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "cli/program.h"
#include "kimi_k3/error.h"

namespace kimi_k3 {
namespace {

TEST(SessionLock, IsHeldByOneAtATimeAndLeavesNothing) {
  const TemporaryFolder folder;
  const std::filesystem::path session = folder / "s";
  {
    const SessionLock lock(session);
    EXPECT_THROW(SessionLock{session}, Error);
    EXPECT_NO_THROW(SessionLock{folder / "other"});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_NO_THROW(SessionLock{session});
}

TEST(SessionLock, TakesOverWhatAKilledProgramLeft) {
  const TemporaryFolder folder;
  for (const char* name : {"s", "s.lock", "s.123.partial", "s.7.partial", "s.x.partial",
                           "other.123.partial", "s.partial"}) {
    std::ofstream(folder / name) << "x";
  }
  const SessionLock lock(folder / "s");
  EXPECT_FALSE(std::filesystem::exists(folder / "s.123.partial"));
  EXPECT_FALSE(std::filesystem::exists(folder / "s.7.partial"));
  for (const char* name : {"s", "s.x.partial", "other.123.partial", "s.partial"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  }
}

TEST(SessionLock, AFolderThatIsNotThereIsAnError) {
  EXPECT_THROW(SessionLock{"/no/such/folder/s"}, Error);
}

}  // namespace
}  // namespace kimi_k3

// Tests of files that a program was killed over.
#include "base/abandoned_file.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> TargetOf(const std::string& name, std::chrono::minutes age) {
  const fs::path path = fs::path(testing::TempDir()) / name;
  std::ofstream(path) << "x";
  fs::last_write_time(path, fs::file_time_type::clock::now() - age);
  const auto target = AbandonedTarget(fs::directory_entry(path));
  fs::remove(path);
  return target;
}

TEST(AbandonedTarget, IsTheNameOfAFileThatNobodyWritesAnyMore) {
  using std::chrono::minutes;
  EXPECT_EQ(TargetOf("state.12.partial", minutes(120)), "state");
  EXPECT_EQ(TargetOf("state.12.partial", minutes(0)), std::nullopt);
  EXPECT_EQ(TargetOf("state", minutes(120)), std::nullopt);
  EXPECT_EQ(AbandonedTarget(fs::directory_entry("absent.12.partial")), std::nullopt);
}

}  // namespace
}  // namespace kimi_k3

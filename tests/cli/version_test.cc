// What --version says.
#include "cli/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/isa.h"

namespace kimi_k3 {
namespace {

TEST(VersionText, NamesVersionBuildInstructionSetsAndLibraries) {
  const std::string text = VersionText();
  EXPECT_THAT(text, testing::StartsWith("kimi_k3 "));
  for (const std::string& isa : kernels::UsableIsas()) EXPECT_THAT(text, testing::HasSubstr(isa));
  for (const char* library :
       {"Highway", "simdjson", "nlohmann-json", "CLI11", "fmt", "liburing", "zstd", "libedit"}) {
    EXPECT_THAT(text, testing::ContainsRegex(std::string(library) + " [0-9]+[.][0-9]+"));
  }
}

}  // namespace
}  // namespace kimi_k3

// Prompts from files, and what is no prompt (input and pipes: run_text_test.cc).
#include "cli/prompt_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "cli/program.h"

namespace kimi_k3 {
namespace {

TEST(ReadPromptText, GivesEveryByteOfTheFile) {
  const TemporaryFolder folder;
  const std::string text = std::string("a\0b\r\n\xff", 6) + std::string(200000, 'x');
  std::ofstream(folder / "p") << text;
  EXPECT_EQ(ReadPromptText(folder / "p"), text);
  EXPECT_EQ(ReadPromptText("/dev/null"), "");
}

TEST(ReadPromptText, NamesWhatCannotBeRead) {
  const TemporaryFolder folder;
  for (const std::string& path : {folder / "none", folder.path().string()}) {
    try {
      ReadPromptText(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_THAT(error.what(), testing::HasSubstr(path));
    }
  }
}

TEST(ReadPromptText, EndlessInputIsRefused) {
  try {
    ReadPromptText("/dev/zero");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace kimi_k3

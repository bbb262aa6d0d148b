// The commands that the documents show: each block of shell is run as it stands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "cli/program.h"

namespace kimi_k3 {
namespace {

// A fenced block of a document. Tags: "sh" is run; "sh norun" builds or tests the whole project, so
// only the presence of what it starts is checked.
struct Block {
  std::string name;
  std::string tag;
  std::string text;
};

std::vector<std::filesystem::path> Documents() {
  const std::filesystem::path source = KIMI_K3_SOURCE_DIR;
  std::vector<std::filesystem::path> documents = {source / "README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(source / "docs")) {
    if (entry.path().extension() == ".md") documents.push_back(entry.path());
  }
  std::sort(documents.begin(), documents.end());
  return documents;
}

std::vector<Block> BlocksOf(const std::filesystem::path& document) {
  std::vector<Block> blocks;
  std::ifstream file(document);
  std::string line;
  bool inside = false;
  for (int number = 1; std::getline(file, line); ++number) {
    const size_t start = std::min(line.find_first_not_of(' '), line.size());
    const std::string content = line.substr(start);
    if (content.starts_with("```")) {
      inside = !inside;
      if (!inside) continue;
      std::string name = document.stem().string() + std::to_string(number);
      std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
      blocks.push_back({.name = name, .tag = content.substr(3), .text = {}});
    } else if (inside) {
      blocks.back().text += content + "\n";
    }
  }
  EXPECT_FALSE(inside) << document << ": a block is not closed";
  std::erase_if(blocks, [](const Block& block) { return !block.tag.starts_with("sh"); });
  return blocks;
}

std::vector<Block> ShellBlocks() {
  std::vector<Block> blocks;
  for (const auto& document : Documents()) {
    for (Block& block : BlocksOf(document)) blocks.push_back(std::move(block));
  }
  return blocks;
}

class DocumentedCommand : public testing::TestWithParam<Block> {};

TEST_P(DocumentedCommand, Works) {
  const Block& block = GetParam();
  if (block.tag != "sh") {
    ASSERT_EQ(block.tag, "sh norun");
    std::istringstream words(block.text);
    for (std::string word; words >> word;) {
      if (!word.starts_with("scripts/")) continue;
      const std::string script = std::string(KIMI_K3_SOURCE_DIR "/") + word;
      EXPECT_EQ(Program({"/bin/sh", "-c", "test -x '" + script + "' && bash -n '" + script + "'"})
                    .Finish()
                    .exit_code,
                0)
          << word;
    }
    return;
  }
  // The program by its name, and the small model in the place of the large one.
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "bin");
  std::filesystem::create_symlink(KIMI_K3_PROGRAM, folder / "bin/kimi_k3");
  std::filesystem::create_directory_symlink(TinyModel(), folder / "Kimi-K3");
  ProgramOptions options;
  options.folder = folder.path();
  options.time_limit = std::chrono::seconds(120);
  const ProgramResult result = Program({"/bin/bash", "-e", "-o", "pipefail", "-c",
                                        "PATH='" + (folder / "bin") + "':$PATH\n" + block.text},
                                       options)
                                   .Finish();
  EXPECT_EQ(result.exit_code, 0) << block.text << result.err;
  EXPECT_NE(result.out + result.err, "");
}

INSTANTIATE_TEST_SUITE_P(Blocks, DocumentedCommand, testing::ValuesIn(ShellBlocks()),
                         [](const testing::TestParamInfo<Block>& block) {
                           return block.param.name;
                         });

// Every flag that the help names is in docs/cli.md, and no other.
TEST(DocumentedFlags, AreTheOnesThatTheProgramHas) {
  const auto flags_in = [](const std::string& text) {
    std::vector<std::string> flags;
    for (size_t at = text.find("--"); at != std::string::npos; at = text.find("--", at + 2)) {
      const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at);
      const std::string flag = text.substr(at, end - at);
      if (flag.size() > 3 && flag[2] != '-' && (at == 0 || text[at - 1] != '-')) {
        flags.push_back(flag);
      }
    }
    std::sort(flags.begin(), flags.end());
    flags.erase(std::unique(flags.begin(), flags.end()), flags.end());
    return flags;
  };
  std::string help = RunProgram({"--help"}).out;
  std::istringstream lines(help.substr(help.find("Subcommands:")));
  size_t commands = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  ") || line[2] == ' ') continue;
    help += RunProgram({line.substr(2, line.find(' ', 2) - 2), "--help"}).out;
    ++commands;
  }
  EXPECT_GE(commands, 4U);
  EXPECT_EQ(flags_in(ReadFile(KIMI_K3_SOURCE_DIR "/docs/cli.md")), flags_in(help));
}

// The lists of commands are one: that of the help, with its words.
TEST(DocumentedCommands, AreThoseOfTheHelpInItsOrderAndWords) {
  const std::string help = RunProgram({"--help"}).out;
  std::istringstream lines(help.substr(help.find("Subcommands:")));
  std::string rows = "| command | |\n|---|---|\n";
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && line.starts_with("  ")) {
    const size_t end = line.find(' ', 2);
    ASSERT_NE(end, std::string::npos)
        << "a name is so long that its words begin a line of their own";
    rows += "| `" + line.substr(2, end - 2) + "` | " +
            line.substr(line.find_first_not_of(' ', end)) + " |\n";
  }
  for (const char* document : {"/README.md", "/docs/cli.md"}) {
    EXPECT_NE(ReadFile(KIMI_K3_SOURCE_DIR + std::string(document)).find(rows), std::string::npos)
        << document << " should have this table:\n"
        << rows;
  }
  EXPECT_NE(rows.find("`man`"), std::string::npos);
}

}  // namespace
}  // namespace kimi_k3

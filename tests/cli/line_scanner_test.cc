// Lines of a file, whatever their length.
#include "cli/line_scanner.h"

#include <gtest/gtest.h>

#include "cli/program.h"

namespace kimi_k3 {
namespace {

// The lines of a file with this text.
std::vector<std::string> LinesOf(const std::string& text, uint64_t most = 1000000) {
  const TemporaryFolder folder;
  const std::string path = folder / "lines";
  {
    AtomicFile file(path);
    file.Append(std::string_view(text));
    file.Commit();
  }
  const UniqueFd fd = OpenForReading(path);
  LineScanner scanner(fd, path, most);
  std::vector<std::string> lines;
  while (const std::optional<ScannedLine> line = scanner.Next()) {
    EXPECT_EQ(line->number, lines.size() + 1);
    const std::string whole = text.substr(line->offset, line->bytes);
    EXPECT_EQ(line->text, line->too_long ? std::string() : whole);
    lines.push_back(line->too_long ? "TOO LONG" : std::string(line->text));
    if (!line->ended) lines.back() += " TORN";
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(LineScanner, ReadsLinesWithTheirPlaces) {
  EXPECT_EQ(LinesOf(""), Lines{});
  EXPECT_EQ(LinesOf("a\nbc\n"), (Lines{"a", "bc"}));
  EXPECT_EQ(LinesOf("\n\nx"), (Lines{"", "", "x TORN"}));
}

TEST(LineScanner, LinesMayBeLongerThanWhatIsReadAtOnce) {
  const std::string first(600000, 'a');
  const std::string second(262144, 'b');
  EXPECT_EQ(LinesOf(first + "\n" + second + "\nc\n"), (Lines{first, second, "c"}));
}

TEST(LineScanner, PassesOverALineThatIsTooLong) {
  EXPECT_EQ(LinesOf("12345\n123456\n" + std::string(700000, 'a') + "\nb\n", 5),
            (Lines{"12345", "TOO LONG", "TOO LONG", "b"}));
}

}  // namespace
}  // namespace kimi_k3

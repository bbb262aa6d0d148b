// Lines from a pipe; the terminal's are tested through the chat command.
#include "cli/line_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/file.h"

namespace kimi_k3 {
namespace {

// Standard input is a pipe while it lives, into which the text is written part by part.
class PipedInput {
 public:
  explicit PipedInput(std::vector<std::string> parts) : saved_(dup(STDIN_FILENO)) {
    int ends[2] = {};
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    writer_ = std::thread([fd = ends[1], parts = std::move(parts)] {
      for (const std::string& part : parts) {
        for (size_t done = 0; done < part.size();) {
          const ssize_t n = write(fd, part.data() + done, part.size() - done);
          if (n <= 0) break;
          done += static_cast<size_t>(n);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      close(fd);
    });
  }
  ~PipedInput() {
    writer_.join();
    dup2(saved_.get(), STDIN_FILENO);
  }
  PipedInput(const PipedInput&) = delete;
  PipedInput& operator=(const PipedInput&) = delete;

 private:
  UniqueFd saved_;
  std::thread writer_;
};

std::vector<std::string> LinesOf(std::vector<std::string> parts) {
  const PipedInput input(std::move(parts));
  const std::unique_ptr<LineReader> reader = MakePipeReader();
  std::vector<std::string> lines;
  for (Line line = reader->Read("> "); line.kind == LineKind::kLine; line = reader->Read("> ")) {
    EXPECT_FALSE(line.verbatim);
    lines.push_back(line.text);
  }
  EXPECT_EQ(reader->Read("> ").kind, LineKind::kEnd);
  return lines;
}

using Lines = std::vector<std::string>;

TEST(PipeReader, GivesLinesWithoutTheirEndsHoweverTheyArrive) {
  EXPECT_EQ(LinesOf({"one\ntwo\n"}), (Lines{"one", "two"}));
  EXPECT_EQ(LinesOf({"o", "ne", "\n", "two\nth", "ree"}), (Lines{"one", "two", "three"}));
  EXPECT_EQ(LinesOf({"one\r\n\r\n"}), (Lines{"one", ""}));
  EXPECT_EQ(LinesOf({}), Lines{});
  EXPECT_EQ(LinesOf({"\n\n"}), (Lines{"", ""}));
}

TEST(PipeReader, KeepsLongLinesAndAnyBytes) {
  const std::string zero("a\0b", 3);
  const std::string big(300'000, 'x');
  EXPECT_EQ(LinesOf({zero + "\n" + big + "\n\xc3\n"}), (Lines{zero, big, "\xc3"}));
}

}  // namespace
}  // namespace kimi_k3

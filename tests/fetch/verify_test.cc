// Tests of verification: what is damaged is named, and nothing else is.
#include "fetch/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <random>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/file_hole.h"
#include "checkpoint/problem_list.h"
#include "fetch/fetch_test_support.h"
#include "fetch/file_check.h"
#include "fetch/manifest.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Verify : public testing::Test {
 protected:
  Verify() { PutCheckpoint(dir_.path()); }

  VerifyReport Run() const {
    VerifyOptions options;
    options.folders = {dir_.path()};
    return VerifyCheckpoint(options);
  }
  void WriteHashes() const {
    VerifyOptions options;
    options.folders = {dir_.path()};
    options.write_hashes = true;
    ASSERT_TRUE(VerifyCheckpoint(options).good());
  }
  static std::vector<std::string> Bad(const VerifyReport& report) {
    std::vector<std::string> names;
    for (const FileFinding& file : report.files) {
      if (file.state != FileState::kGood) names.push_back(file.name);
    }
    return names;
  }
  static std::string TextOf(const VerifyReport& report) {
    std::string text;
    for (const FileFinding& file : report.files) {
      for (const std::string& problem : file.problems) text += problem + "\n";
    }
    for (const std::string& problem : report.problems) text += problem + "\n";
    return text;
  }
  // Flips bits of one byte.
  void Corrupt(const std::string& name, uint64_t offset, char bits) const {
    std::fstream file(dir_ / name, std::ios::binary | std::ios::in | std::ios::out);
    char byte = 0;
    file.seekg(static_cast<std::streamoff>(offset)).get(byte);
    file.seekp(static_cast<std::streamoff>(offset)).put(static_cast<char>(byte ^ bits));
  }
  std::string Shard(int number) const {
    return "model-0000" + std::to_string(number) + "-of-000003.safetensors";
  }
  ScratchDir dir_;
};

TEST_F(Verify, AWholeCheckpointIsGoodAndSaysWhetherItWasCompared) {
  VerifyReport report = Run();
  EXPECT_TRUE(report.good()) << TextOf(report);
  EXPECT_EQ(report.files.size(), 5U);  // three shards, index, config
  for (const FileFinding& file : report.files) EXPECT_FALSE(file.hashed);
  WriteHashes();
  report = Run();
  EXPECT_TRUE(report.good());
  for (const FileFinding& file : report.files) EXPECT_TRUE(file.hashed);
}

TEST_F(Verify, NamesTheRightFileForEveryByteThatIsDamaged) {
  WriteHashes();
  std::mt19937_64 random(7);
  const std::vector<std::string> files = {Shard(1), Shard(2), Shard(3), "config.json",
                                          "model.safetensors.index.json"};
  for (int round = 0; round < 100; ++round) {
    const std::string& name = files[random() % files.size()];
    const uint64_t offset = random() % fs::file_size(dir_ / name);
    const char bits = static_cast<char>(1 + random() % 255);
    Corrupt(name, offset, bits);
    const VerifyReport report = Run();
    EXPECT_THAT(Bad(report), testing::Contains(name)) << offset;
    EXPECT_FALSE(report.good());
    // Damage in config or index may make other files contradict it; damage in a shard may not.
    if (name.ends_with(".safetensors")) {
      EXPECT_THAT(Bad(report), testing::ElementsAre(name)) << offset << "\n" << TextOf(report);
      EXPECT_THAT(TextOf(report), HasSubstr("SHA-256"));
    }
    Corrupt(name, offset, bits);
  }
  EXPECT_TRUE(Run().good());
}

TEST_F(Verify, NamesTheTensorOfEveryNumberThatCannotBe) {
  std::mt19937_64 random(3);
  for (int number = 1; number <= 3; ++number) {
    const auto spans = TensorSpans(dir_ / Shard(number));
    for (int round = 0; round < 8; ++round) {
      const TensorSpan& span = spans[1 + random() % (spans.size() - 1)];
      if (span.check == TensorSpan::Check::kNone) continue;
      const uint64_t width = span.check == TensorSpan::Check::kScales ? 1
                             : span.check == TensorSpan::Check::kBf16 ? 2
                                                                      : 4;
      const uint64_t element = random() % ((span.end - span.begin) / width);
      const uint64_t offset = span.begin + element * width;
      const std::string old = GetFile(dir_ / Shard(number));
      std::string text = old;
      text.replace(offset, width, std::string(width, '\xff'));
      PutFile(dir_ / Shard(number), text);
      const VerifyReport report = Run();
      EXPECT_THAT(Bad(report), testing::ElementsAre(Shard(number)));
      EXPECT_THAT(TextOf(report), AllOf(HasSubstr("tensor " + span.name + ":"), HasSubstr("NaN")));
      PutFile(dir_ / Shard(number), old);
    }
  }
}

TEST_F(Verify, NamesTheTensorWhoseHeaderEntryIsDamaged) {
  const std::string shard = GetFile(dir_ / Shard(2));
  const size_t dtype = shard.find("BF16");
  std::string text = shard;
  text[dtype] = 'X';
  PutFile(dir_ / Shard(2), text);
  const VerifyReport report = Run();
  EXPECT_THAT(Bad(report), testing::ElementsAre(Shard(2)));
  const size_t name = shard.rfind(":{", dtype);
  const size_t begin = shard.rfind('"', name - 2) + 1;
  EXPECT_THAT(TextOf(report), HasSubstr(shard.substr(begin, name - 1 - begin)));
}

TEST_F(Verify, RememberedSumsTellWhichTensorsTheDamageIsIn) {
  WriteHashes();
  const auto spans = TensorSpans(dir_ / Shard(1));
  Corrupt(Shard(1), spans.back().end - 1, 1);
  EXPECT_THAT(TextOf(Run()), AllOf(HasSubstr("blocks differ"), HasSubstr("tensor")));
}

TEST_F(Verify, ListsAllBadFilesInOnePass) {
  WriteHashes();
  PutFile(dir_ / Shard(1), "");
  PutFile(dir_ / Shard(2), GetFile(dir_ / Shard(2)).substr(0, 50));
  fs::remove(dir_ / Shard(3));
  const VerifyReport report = Run();
  EXPECT_THAT(Bad(report), testing::ElementsAre(Shard(1), Shard(2), Shard(3)));
  EXPECT_THAT(TextOf(report), HasSubstr("is missing"));
}

TEST_F(Verify, FilesOfTheWrongSizeAreToldOfInOneLineEach) {
  for (const bool known : {false, true}) {
    for (const bool quick : {false, true}) {
      const ScratchDir copy;
      fs::copy(dir_.path(), copy.path(), fs::copy_options::recursive);
      VerifyOptions options;
      options.folders = {copy.path()};
      if (known) {
        options.write_hashes = true;
        ASSERT_TRUE(VerifyCheckpoint(options).good());
        options.write_hashes = false;
      }
      fs::resize_file(copy / Shard(1), fs::file_size(copy / Shard(1)) / 2);
      fs::resize_file(copy / Shard(2), fs::file_size(copy / Shard(2)) - 1);
      fs::resize_file(copy / Shard(3), fs::file_size(copy / Shard(3)) + 1234);
      options.quick = quick;
      const VerifyReport report = VerifyCheckpoint(options);
      const std::string text = TextOf(report);
      EXPECT_THAT(Bad(report), testing::ElementsAre(Shard(1), Shard(2), Shard(3)));
      EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
      EXPECT_THAT(text, AllOf(HasSubstr("cut short by 1;"), HasSubstr("too long by 1,234;")));
    }
  }
}

TEST_F(Verify, QuickFormNamesEveryFileWithAMessOfOffsets) {
  for (int number = 1; number <= 3; ++number) {
    std::string text = GetFile(dir_ / Shard(number));
    // Each dtype becomes one that needs other bytes.
    for (size_t at = text.find("BF16"); at != std::string::npos; at = text.find("BF16", at)) {
      text.replace(at, 5, "F64\" ");
    }
    PutFile(dir_ / Shard(number), text);
  }
  VerifyOptions options;
  options.folders = {dir_.path()};
  options.quick = true;
  const VerifyReport quick = VerifyCheckpoint(options);
  EXPECT_THAT(Bad(quick), testing::ElementsAre(Shard(1), Shard(2), Shard(3)));
  EXPECT_EQ(TextOf(quick), TextOf(Run()));  // a second look at the headers tells nothing twice
}

// Makes a hole of the end of a file and gives where it begins; 0 where there are no holes here.
uint64_t MakeHole(const fs::path& path) {
  const uint64_t bytes = fs::file_size(path);
  fs::resize_file(path, bytes / 2);
  fs::resize_file(path, bytes);
  const auto hole = FirstHole(OpenRegularFile(path));
  return hole ? hole->begin : 0;
}

TEST_F(Verify, HolesAreNamedWithTheirPlace) {
  const uint64_t begin = MakeHole(dir_ / Shard(2));
  if (begin == 0) GTEST_SKIP() << "this file system has no holes";
  VerifyOptions options;
  options.folders = {dir_.path()};
  for (const bool quick : {false, true}) {
    options.quick = quick;
    const VerifyReport report = VerifyCheckpoint(options);
    EXPECT_THAT(Bad(report), testing::ElementsAre(Shard(2)));
    EXPECT_THAT(TextOf(report),
                HasSubstr(fmt::format("{}: has holes, which read as zeros, the first from byte {} "
                                      "to {}: ",
                                      (dir_ / Shard(2)).string(), GroupedDigits(begin),
                                      GroupedDigits(fs::file_size(dir_ / Shard(2)) - 1))));
  }
  options.quick = false;
  options.write_hashes = true;
  EXPECT_THAT(Bad(VerifyCheckpoint(options)), testing::ElementsAre(Shard(2)));
  EXPECT_EQ(Manifest::Load(dir_.path())->Find(Shard(2)), nullptr);
}

TEST_F(Verify, HolesAreGoodWhereTheKnownHashHolds) {
  if (MakeHole(dir_ / Shard(2)) == 0) GTEST_SKIP() << "this file system has no holes";
  const std::string text = GetFile(dir_ / Shard(2));
  fs::remove(dir_ / Shard(2));
  PutFile(dir_ / Shard(2), text);  // the same bytes, all written
  WriteHashes();
  MakeHole(dir_ / Shard(2));
  EXPECT_TRUE(Run().good()) << TextOf(Run());
  // The quick form compares no hash and says how to.
  VerifyOptions options;
  options.folders = {dir_.path()};
  options.quick = true;
  EXPECT_THAT(TextOf(VerifyCheckpoint(options)), HasSubstr("without --quick"));
}

TEST_F(Verify, HolesThatAreMeantAreGood) {
  const ScratchDir folder;
  SynthOptions options;
  options.config_json = GeometryConfig("tiny", {5, 8, 64});
  options.output = folder.path();
  options.sparse = true;
  WriteSynthCheckpoint(options);
  for (const bool quick : {false, true}) {
    VerifyOptions verify;
    verify.folders = {folder.path()};
    verify.quick = quick;
    const VerifyReport report = VerifyCheckpoint(verify);
    EXPECT_TRUE(report.good()) << TextOf(report);
  }
}

TEST_F(Verify, TakesHashesFromAListAndFromTheHub) {
  WriteHashes();
  const std::string hash = Manifest::Load(dir_.path())->Find(Shard(1))->sha256;
  fs::remove_all(dir_ / ".kimi_k3");
  PutFile(dir_ / ".cache/huggingface/download" / (Shard(1) + ".metadata"),
          "commit\n" + hash + "\n1\n");
  EXPECT_TRUE(Run().good());
  Corrupt(Shard(1), fs::file_size(dir_ / Shard(1)) - 1, 1);
  EXPECT_THAT(Bad(Run()), testing::ElementsAre(Shard(1)));
  fs::remove_all(dir_ / ".cache");
  const ScratchDir other;
  PutFile(other / "sums", hash + "  " + Shard(1) + "\n");
  VerifyOptions options;
  options.folders = {dir_.path()};
  options.hash_list = other / "sums";
  EXPECT_THAT(Bad(VerifyCheckpoint(options)), testing::ElementsAre(Shard(1)));
  Corrupt(Shard(1), fs::file_size(dir_ / Shard(1)) - 1, 1);
  EXPECT_TRUE(VerifyCheckpoint(options).good());
}

TEST_F(Verify, WhatIsNoFileIsNeverGood) {
  PutFile(dir_ / "tiktoken.model", "text");
  WriteHashes();
  for (const bool quick : {true, false}) {
    for (const auto type : {fs::file_type::directory, fs::file_type::fifo}) {
      fs::remove(dir_ / "tiktoken.model");
      if (type == fs::file_type::fifo) {
        ASSERT_EQ(mkfifo((dir_ / "tiktoken.model").c_str(), 0600), 0);
      } else {
        fs::create_directory(dir_ / "tiktoken.model");
      }
      VerifyOptions options;
      options.folders = {dir_.path()};
      options.quick = quick;
      const VerifyReport report = VerifyCheckpoint(options);
      EXPECT_THAT(Bad(report), testing::ElementsAre("tiktoken.model"));
      EXPECT_THAT(TextOf(report), HasSubstr("tiktoken.model: is a "));
    }
  }
}

TEST_F(Verify, OnlyOfAShardItSaysThatTheTensorIsNotKnown) {
  PutFile(dir_ / "tiktoken.model", "text");
  WriteHashes();
  PutFile(dir_ / "tiktoken.model", "test");
  EXPECT_THAT(TextOf(Run()),
              AllOf(HasSubstr("fetch this file again"), testing::Not(HasSubstr("which tensor"))));
}

TEST_F(Verify, QuickFormReadsNoContents) {
  WriteHashes();
  VerifyOptions options;
  options.folders = {dir_.path()};
  options.quick = true;
  Corrupt(Shard(1), fs::file_size(dir_ / Shard(1)) - 1, 1);
  VerifyReport report = VerifyCheckpoint(options);
  EXPECT_TRUE(report.good());
  EXPECT_EQ(report.bytes_read, 0U);
  fs::resize_file(dir_ / Shard(2), fs::file_size(dir_ / Shard(2)) - 1);
  report = VerifyCheckpoint(options);
  EXPECT_THAT(Bad(report), testing::ElementsAre(Shard(2)));
}

TEST_F(Verify, WhatIsBadIsNotRemembered) {
  Corrupt("config.json", 0, 1);
  VerifyOptions options;
  options.folders = {dir_.path()};
  options.write_hashes = true;
  EXPECT_FALSE(VerifyCheckpoint(options).good());
  const auto manifest = Manifest::Load(dir_.path());
  EXPECT_TRUE(!manifest || manifest->Find("config.json") == nullptr);
}

TEST_F(Verify, GoesOnAfterAnInterruption) {
  WriteHashes();
  std::atomic<bool> stop{true};
  VerifyOptions options;
  options.folders = {dir_.path()};
  options.stop = &stop;
  options.remember_from_bytes = 0;
  EXPECT_EQ(ErrorOf([&] { VerifyCheckpoint(options); }).first, ErrorKind::kInterrupted);
  // Stopped when two files are through: those are noted, and left out the next time.
  stop = false;
  options.threads = 1;
  std::atomic<bool> over{false};
  std::thread stopper([&] {
    const fs::path notes = dir_ / ".kimi_k3/verify.progress";
    while (!over) {
      const std::string text = GetFile(notes);
      if (std::count(text.begin(), text.end(), '\n') >= 2) stop = true;
    }
  });
  const ErrorKind kind = ErrorOf([&] { VerifyCheckpoint(options); }).first;
  over = true;
  stopper.join();
  stop = false;
  options.go_on = true;
  const VerifyReport report = VerifyCheckpoint(options);
  EXPECT_TRUE(report.good());
  const auto remembered =
      std::ranges::count_if(report.files, [](const FileFinding& file) { return file.remembered; });
  // It may have come through before it saw the wish to stop.
  if (kind == ErrorKind::kInterrupted) {
    EXPECT_GE(remembered, 2);
  }
  EXPECT_FALSE(fs::exists(dir_ / ".kimi_k3/verify.progress"));
}

TEST_F(Verify, AQuickLookForgetsNothingOfALongOne) {
  const fs::path notes = dir_ / ".kimi_k3/verify.progress";
  PutFile(notes, "a file that was found good\n");
  VerifyOptions options;
  options.folders = {dir_.path()};
  options.quick = true;
  EXPECT_TRUE(VerifyCheckpoint(options).good());
  EXPECT_TRUE(fs::exists(notes));
  Run();
  EXPECT_FALSE(fs::exists(notes));
}

TEST_F(Verify, RefusesAFolderThatIsNotThere) {
  VerifyOptions options;
  options.folders = {dir_ / "none"};
  EXPECT_THAT(ErrorOf([&] { VerifyCheckpoint(options); }).second, HasSubstr("does not exist"));
}

}  // namespace
}  // namespace kimi_k3

// The file of a session: what was written is read, and no damage goes unseen.
#include "engine/session_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/file.h"
#include "engine/temporary_folder.h"
#include "kimi_k3/error.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

const SessionHeader kHeader = {.model = "k3",
                               .part = "layers 0-1 of 7",
                               .kv_cache = "bf16",
                               .state_type = "bf16",
                               .approximations = "--kv-cache-quant bf16 --state-type bf16",
                               .fingerprint = "0123456789abcdef",
                               .context = 2048,
                               .tokens = 3,
                               .note_bytes = 5};

std::vector<std::byte> Noise(size_t size) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0x3fU);
  return bytes;
}

void Write(const std::filesystem::path& path, std::span<const std::vector<std::byte>> sections) {
  SessionWriter writer(path, kHeader);
  for (const auto& section : sections) writer.Append(section);
  writer.Commit();
  EXPECT_EQ(writer.bytes(), std::filesystem::file_size(path));
}

// Reads everything; throws where it is refused.
std::vector<std::vector<std::byte>> ReadAll(const std::filesystem::path& path,
                                            std::span<const std::vector<std::byte>> like) {
  SessionReader reader(path);
  std::vector<std::vector<std::byte>> sections;
  for (const auto& section : like) {
    sections.emplace_back(section.size());
    reader.Read(sections.back());
  }
  reader.ExpectEnd();
  return sections;
}

void Overwrite(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(SessionFile, GivesBackHeaderAndSectionsOfAnySize) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "s";
  const std::vector<std::vector<std::byte>> sections = {Noise(0),
                                                        Noise(1),
                                                        Noise(3),
                                                        Noise(4),
                                                        Noise(1023),
                                                        Noise(1 << 20),
                                                        Noise((1 << 20) + 1),
                                                        Noise((3 << 20) + 2)};
  Write(path, sections);
  EXPECT_EQ(ReadAll(path, sections), sections);
  const SessionReader reader(path);
  EXPECT_EQ(reader.header().model, kHeader.model);
  EXPECT_EQ(reader.header().part, kHeader.part);
  EXPECT_EQ(reader.header().kv_cache, kHeader.kv_cache);
  EXPECT_EQ(reader.header().state_type, kHeader.state_type);
  EXPECT_EQ(reader.header().approximations, kHeader.approximations);
  EXPECT_EQ(reader.header().fingerprint, kHeader.fingerprint);
  EXPECT_EQ(reader.header().context, kHeader.context);
  EXPECT_EQ(reader.header().tokens, kHeader.tokens);
  EXPECT_EQ(reader.header().note_bytes, kHeader.note_bytes);
}

TEST(SessionFile, CompressesNumbersOfLikeSize) {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(1 << 18);
  for (float& number : numbers) number = normal(random);
  const auto bytes = std::as_bytes(std::span(numbers));
  const std::vector<std::vector<std::byte>> sections = {{bytes.begin(), bytes.end()}};
  Write(folder.path() / "s", sections);
  EXPECT_LT(std::filesystem::file_size(folder.path() / "s"), bytes.size() * 9 / 10);
}

TEST(SessionFile, AppearsOnlyWhenItIsWhole) {
  const TemporaryFolder folder;
  {
    SessionWriter writer(folder.path() / "s", kHeader);
    writer.Append(Noise(100));
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "s"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

class DamagedSession : public testing::Test {
 protected:
  DamagedSession() {
    Write(path_, sections_);
    good_ = ReadWholeFile(path_, uint64_t{1} << 20);
  }
  // Refused with one of the two kinds, or, where a bit has no meaning, read as it was.
  void ExpectSeen(const std::string& bytes, const std::string& what) {
    Overwrite(path_, bytes);
    try {
      EXPECT_EQ(ReadAll(path_, sections_), sections_) << what;
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::kIo || error.kind() == ErrorKind::kCheckpoint);
      EXPECT_THAT(error.what(), HasSubstr(path_.string()));
    }
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "s";
  std::vector<std::vector<std::byte>> sections_ = {Noise(40), Noise(130), Noise(9)};
  std::string good_;
};

TEST_F(DamagedSession, AnyByteThatIsWrongIsSeen) {
  for (size_t i = 0; i < good_.size(); ++i) {
    std::string bad = good_;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    ExpectSeen(bad, "byte " + std::to_string(i));
  }
}

TEST_F(DamagedSession, AnyPlaceWhereItEndsTooEarlyIsSeen) {
  for (size_t size = 0; size < good_.size(); size += 3) {
    Overwrite(path_, good_.substr(0, size));
    EXPECT_THROW(ReadAll(path_, sections_), Error) << size;
  }
  Overwrite(path_, good_ + "x");
  EXPECT_THROW(ReadAll(path_, sections_), Error);
}

TEST_F(DamagedSession, SwappedBlocksDoNotFit) {
  Overwrite(path_, good_);
  const std::vector<std::vector<std::byte>> other = {Noise(40), Noise(9), Noise(130)};
  EXPECT_THROW(ReadAll(path_, other), Error);
}

TEST_F(DamagedSession, SizesOfFourGigabytesAreRefusedBeforeAnythingIsAllocated) {
  for (const size_t at : {size_t{16}, size_t{20}}) {
    std::string bad = good_;
    for (size_t i = 0; i < 4; ++i) bad[at + i] = '\xff';
    Overwrite(path_, bad);
    try {
      ReadAll(path_, sections_);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("size"));
    }
  }
}

TEST_F(DamagedSession, OtherFilesAndVersionsAreToldApart) {
  const auto error_of = [&](const std::string& bytes) {
    Overwrite(path_, bytes);
    try {
      const SessionReader reader(path_);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(error_of(""), HasSubstr("no session file"));
  EXPECT_THAT(error_of("#!/bin/sh\necho hello world\n"), HasSubstr("no session file"));
  std::string next = good_;
  next[8] = 2;
  EXPECT_THAT(error_of(next), HasSubstr("format 2"));
  EXPECT_THAT(error_of(good_.substr(0, 12)), HasSubstr("damaged"));
  EXPECT_EQ(error_of(good_), "none");
}

// A file with this text for a header.
void WriteWithHeader(const std::filesystem::path& path, const std::string& header) {
  SessionWriter(path, {}).Commit();
  const std::string good = ReadWholeFile(path, uint64_t{1} << 20);
  constexpr size_t kFrontBytes = 16;
  {
    // The writer's own block of these bytes, for its sizes and checksum.
    SessionWriter writer(path, {});
    writer.Append(std::as_bytes(std::span(header)));
    writer.Commit();
  }
  const std::string both = ReadWholeFile(path, uint64_t{1} << 20);
  Overwrite(path, both.substr(0, kFrontBytes) + both.substr(good.size()));
}

TEST(SessionFile, ADamagedHeaderIsToldOfInWordsOfOurOwn) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "s";
  const std::string good =
      R"({"model":"m","part":"","kv_cache":"f32","fingerprint":"f","context":1,"tokens":1,)"
      R"("note_bytes":1})";
  WriteWithHeader(path, good);
  EXPECT_EQ(SessionReader(path).header().state_type, "f32");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = good;
    return changed.replace(changed.find(from), from.size(), to);
  };
  for (const std::string& bad :
       {std::string("{"), std::string("[]"), std::string("\xff"), with("\"m\"", "5"),
        with("\"part\"", "\"x\""), with("\"f32\"", "null"), with(":1,", ":-1,"),
        with(":1,", ":1.5,"), with("{", R"({"state_type":1,)"),
        with("{", R"({"approximations":[],)")}) {
    WriteWithHeader(path, bad);
    try {
      const SessionReader reader(path);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_THAT(error.what(), testing::StartsWith(path.string() + ": "));
      EXPECT_THAT(error.what(), HasSubstr("header"));
      EXPECT_THAT(error.what(), HasSubstr("begin another one"));
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("exception")));
    }
  }
}

TEST(SessionFile, AFolderAMissingFileAndAPipeAreRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(SessionReader(folder.path()), Error);
  EXPECT_THROW(SessionReader(folder.path() / "none"), Error);
}

}  // namespace
}  // namespace kimi_k3

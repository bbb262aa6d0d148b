// The quantize command and --overlay, run as their users run them.
#include "cli/quantize_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cli/batch_files.h"
#include "cli/program.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kBook = KIMI_K3_SOURCE_DIR "/tests/data/tiny/austen.txt";

std::map<std::string, std::string> OverlayFiles(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().filename()] = ReadFile(entry.path());
  }
  return files;
}

std::vector<std::string> Quantize(const std::string& model, const std::string& trunk,
                                  const std::string& output) {
  return {"quantize", "-m", model, "--trunk", trunk, "-o", output};
}

std::string Made(const TemporaryFolder& folder, const std::string& trunk) {
  const ProgramResult result = RunProgram(Quantize(TinyModel(), trunk, folder / trunk));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return folder / trunk;
}

std::vector<std::string> Telling(const std::string& overlay) {
  std::vector<std::string> arguments = {"-m", TinyModel(), "--raw", "-p",       "It was a", "-n",
                                        "24", "--temp",    "0",     "--memory", "60M"};
  if (!overlay.empty()) arguments.insert(arguments.end(), {"--overlay", overlay});
  return arguments;
}

TEST(QuantizeCommand, SaysWhatBecameOfTheMatrices) {
  const TemporaryFolder folder;
  const ProgramResult table = RunProgram(Quantize(TinyModel(), "q8", folder / "a"));
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("lm_head"));
  EXPECT_THAT(table.out, HasSubstr("0.531"));
  EXPECT_THAT(table.err, HasSubstr("use it with --overlay"));
  std::vector<std::string> json = Quantize(TinyModel(), "q8", folder / "a");
  json.insert(json.end(), {"--json", "-q"});
  const ProgramResult again = RunProgram(json);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.err, "");
  EXPECT_THAT(RunProgram(Quantize(TinyModel(), "q8", folder / "a")).err,
              HasSubstr("10 of 10 files were there already (sizes compared; kimi_k3 verify"));
  const nlohmann::json report = nlohmann::json::parse(again.out);
  EXPECT_EQ(report["matrices"], 110);
  EXPECT_LT(report["roles"][0]["relative_error"].get<double>(), 0.01);
}

TEST(QuantizeCommand, RefusesWhatItCannotDoInWords) {
  const TemporaryFolder folder;
  const auto refusal = [](std::vector<std::string> arguments, int code) {
    const ProgramResult result = RunProgram(std::move(arguments));
    EXPECT_EQ(result.exit_code, code) << result.err;
    return result.err;
  };
  EXPECT_THAT(refusal(Quantize(TinyModel(), "q5", folder / "x"), 2), HasSubstr("\"q5\""));
  EXPECT_THAT(refusal({"quantize", "-m", TinyModel(), "-o", folder / "x"}, 2),
              HasSubstr("--trunk"));
  EXPECT_THAT(refusal({"quantize", "-m", TinyModel(), "--trunk", "q8"}, 2), HasSubstr("--output"));
  EXPECT_THAT(refusal(Quantize(TinyModel(), "q8", TinyModel()), 2), HasSubstr("other files"));
  EXPECT_FALSE(fs::exists(folder / "x"));
  EXPECT_THAT(refusal({"-m", TinyModel(), "-p", "x", "--overlay", TinyModel()}, 3),
              HasSubstr("it is no overlay"));
  EXPECT_THAT(refusal({"-m", TinyModel(), "-p", "x", "--overlay", folder / "none"}, 3),
              HasSubstr("this overlay is not there"));
  EXPECT_THAT(refusal({"compare", "-m", TinyModel(), "-f", kBook, "--with", "--experts-per-token 2",
                       "--with", "--overlay " + (folder / "none"), "-q"},
                      3),
              HasSubstr("this overlay is not there"));
  EXPECT_THAT(refusal({"-m", SmallModel(), "--token-ids", "1", "--overlay", Made(folder, "q4")}, 3),
              HasSubstr("made from another checkpoint"));
}

TEST(QuantizeCommand, LeavesNothingOfItsOwnInAFolderThatItRefuses) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "copy");
  fs::copy(Made(folder, "q4"), folder / "copy");  // the files alone
  ASSERT_FALSE(fs::exists(folder / "copy/.kimi_k3"));
  EXPECT_EQ(RunProgram(Quantize(TinyModel(), "q8", folder / "copy")).exit_code, 2);
  EXPECT_FALSE(fs::exists(folder / "copy/.kimi_k3"));
  EXPECT_EQ(RunProgram(Quantize(TinyModel(), "q4", folder / "copy")).exit_code, 0);
  EXPECT_FALSE(fs::exists(folder / "copy/.kimi_k3")) << "there was nothing to do";
}

// A hole that lies outside what ties an overlay to its model.
TEST(QuantizeCommand, RefusesAModelOfWhichAPartWasNeverFetched) {
  const TemporaryFolder folder;
  const std::string model = folder / "model";
  fs::copy(TinyModel(), model, fs::copy_options::recursive);
  const std::string shard = model + "/model-00003-of-000003.safetensors";
  const uintmax_t bytes = fs::file_size(shard);
  fs::resize_file(shard, bytes - 600000);
  fs::resize_file(shard, bytes);
  const ProgramResult result = RunProgram(Quantize(model, "lossless", folder / "overlay"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("model-00003-of-000003.safetensors: has holes"));
  EXPECT_FALSE(fs::exists(folder / "overlay"));
}

TEST(QuantizeCommand, CompletesAnOverlayWhoseRecordLostAFile) {
  const TemporaryFolder folder;
  const std::string q4 = Made(folder, "q4");
  const std::string whole = ReadFile(q4 + "/overlay.json");
  auto record = nlohmann::ordered_json::parse(whole);
  record["files"].erase(3);
  WriteText(q4 + "/overlay.json", record.dump(1) + "\n");
  const ProgramResult refused = RunProgram(Telling(q4));
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr("lies in this overlay, but overlay.json does not have it"));
  Made(folder, "q4");
  EXPECT_EQ(ReadFile(q4 + "/overlay.json"), whole);
  EXPECT_EQ(RunProgram(Telling(q4)).exit_code, 0);
}

TEST(QuantizeCommand, EndsWithTheSameBytesHoweverOftenItIsKilled) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunProgram({"synth", "--geometry", "tiny", "--layers", "40", "--experts", "4", "-o",
                        folder / "m", "--quiet"})
                .exit_code,
            0);
  ASSERT_EQ(RunProgram(Quantize(folder / "m", "q4", folder / "whole")).exit_code, 0);
  std::mt19937 random(11);
  int kills = 0;
  for (int round = 0; round < 10; ++round) {
    Program program(ProgramCommand(Quantize(folder / "m", "q4", folder / "killed")));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    program.Signal(SIGKILL);
    if (program.Finish().exit_code != 0) ++kills;
  }
  EXPECT_GT(kills, 0);
  const ProgramResult last = RunProgram(Quantize(folder / "m", "q4", folder / "killed"));
  EXPECT_EQ(last.exit_code, 0) << last.err;
  EXPECT_EQ(OverlayFiles(folder / "killed"), OverlayFiles(folder / "whole"));
  EXPECT_EQ(RunProgram({"verify", folder / "m", "--overlay", folder / "killed"}).exit_code, 0);
}

TEST(QuantizeCommand, StopsWhereTheDiskIsFullAndGoesOnWhenThereIsRoom) {
  const TemporaryFolder folder;
  // Room for the layers' files but not for the head's.
  const std::string command = "ulimit -f 459; exec " KIMI_K3_PROGRAM " quantize -m '" +
                              TinyModel() + "' --trunk q8 -o '" + (folder / "o") + "'";
  const ProgramResult full = Program({"/bin/bash", "-c", command}).Finish();
  EXPECT_EQ(full.exit_code, 5) << full.err;
  EXPECT_THAT(full.err, HasSubstr("head.safetensors"));
  EXPECT_THAT(full.err, HasSubstr("the same command goes on from there"));
  const ProgramResult rest = RunProgram(Quantize(TinyModel(), "q8", folder / "o"));
  EXPECT_EQ(rest.exit_code, 0) << rest.err;
  EXPECT_THAT(rest.err, HasSubstr("9 of 10 files were there already"));
  EXPECT_EQ(OverlayFiles(folder / "o"), OverlayFiles(Made(folder, "q8")));
}

TEST(Overlay, LeavesTheTextAsItIsWhereItIsLossless) {
  const TemporaryFolder folder;
  const std::string overlay = Made(folder, "lossless");
  const ProgramResult exact = RunProgram(Telling(""));
  for (const char* way : {"direct", "buffered", "mmap"}) {
    std::vector<std::string> arguments = Telling(overlay);
    arguments.insert(arguments.end(), {"--io", way});
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, exact.out);
    EXPECT_THAT(result.err, HasSubstr("overlay lossless"));
    EXPECT_EQ(result.err.find("not the exact answers"), std::string::npos);
  }
}

TEST(Overlay, IsNamedWhereItChangesAnswers) {
  const TemporaryFolder folder;
  std::vector<std::string> arguments = Telling(Made(folder, "q4"));
  arguments.insert(arguments.end(), {"--stats", folder / "stats.json"});
  const ProgramResult result = RunProgram(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("not the exact answers: --overlay q4:"));
  const auto stats = nlohmann::json::parse(ReadFile(folder / "stats.json"));
  EXPECT_THAT(stats["approximations"].get<std::string>(), HasSubstr("--overlay q4:"));
  const ProgramResult plan =
      RunProgram({"plan", "-m", TinyModel(), "--overlay", folder / "q4", "--no-measure"});
  EXPECT_THAT(plan.out, HasSubstr("not the exact answers: --overlay q4:"));
  EXPECT_THAT(plan.out, HasSubstr("1.40 MB in place of 4.97 MB"));
  const ProgramResult inspect = RunProgram({"inspect", TinyModel(), "--overlay", folder / "q4"});
  EXPECT_THAT(inspect.out, HasSubstr("110 matrices take 1.40 MB in place of 4.97 MB, "));
  const auto report = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"inspect", TinyModel(), "--json"});
    return nlohmann::json::parse(RunProgram(more).out);
  };
  const auto own = report({});
  const auto with = report({"--overlay", folder / "q4"});
  EXPECT_FALSE(own.contains("overlay"));
  EXPECT_EQ(with["overlay"]["matrices"], 110);
  EXPECT_EQ(with["overlay"]["bytes_in_all"].get<uint64_t>(),
            own["bytes"].get<uint64_t>() - with["overlay"]["replaced_bytes"].get<uint64_t>() +
                with["overlay"]["bytes"].get<uint64_t>());
  EXPECT_LT(with["read_per_token"]["bytes"].get<uint64_t>() + 3'000'000,
            own["read_per_token"]["bytes"].get<uint64_t>());
}

TEST(Overlay, BelongsToASessionUnlessItIsLossless) {
  const TemporaryFolder folder;
  const std::string q8 = Made(folder, "q8");
  const std::string lossless = Made(folder, "lossless");
  const auto go_on = [&](const std::string& session, const std::string& overlay) {
    std::vector<std::string> arguments = Telling(overlay);
    arguments.insert(arguments.end(), {"--session", folder / session});
    return RunProgram(arguments);
  };
  EXPECT_EQ(go_on("exact", "").exit_code, 0);
  EXPECT_EQ(go_on("exact", lossless).exit_code, 0);
  const ProgramResult other = go_on("exact", q8);
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_THAT(other.err, HasSubstr("--overlay q8:"));
  EXPECT_EQ(go_on("coarse", q8).exit_code, 0);
  EXPECT_EQ(go_on("coarse", q8).exit_code, 0);
  EXPECT_EQ(go_on("coarse", lossless).exit_code, 3);
}

TEST(Overlay, BelongsToABatch) {
  const TemporaryFolder folder;
  const std::string q8 = Made(folder, "q8");
  WriteText(folder / "in", TextLine("a", R"({"prompt": "It was", "max_tokens": 4})"));
  const std::vector<std::string> batch = {"batch", folder / "in", "-o",        folder / "out",
                                          "-m",    TinyModel(),   "--overlay", q8};
  const ProgramResult result = RunProgram(batch);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(ReadFile(folder / "out"), HasSubstr("--overlay q8:"));
}

TEST(Overlay, OfEightBitsCostsAlmostNothing) {
  const TemporaryFolder folder;
  const ProgramResult result =
      RunProgram({"compare", "-m", TinyModel(), "-f", kBook, "--tokens", "1500", "-n", "0",
                  "--with", "--overlay " + Made(folder, "q8"), "--with",
                  "--overlay " + Made(folder, "lossless"), "--json", "-q"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto settings = nlohmann::json::parse(result.out)["settings"];
  const double exact = settings[0]["bits_per_byte"];
  EXPECT_NEAR(settings[1]["bits_per_byte"].get<double>() / exact, 1.0, 0.002);
  EXPECT_LT(settings[1]["kl_divergence"].get<double>(), 1e-3);
  EXPECT_GT(settings[1]["kl_divergence"].get<double>(), 0);
  EXPECT_EQ(settings[2]["approximations"], "--overlay lossless");
  EXPECT_EQ(settings[2]["bits_per_byte"], settings[0]["bits_per_byte"]);
  EXPECT_EQ(settings[2]["largest_kl_divergence"], 0);
}

TEST(Overlay, IsVerifiedAgainstItsOwnHashes) {
  const TemporaryFolder folder;
  const std::string q8 = Made(folder, "q8");
  const ProgramResult good = RunProgram({"verify", TinyModel(), "--overlay", q8});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("10 files good"));
  std::string text = ReadFile(q8 + "/layer-00004.safetensors");
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
  WriteText(q8 + "/layer-00004.safetensors", text);
  const ProgramResult bad = RunProgram({"verify", TinyModel(), "--overlay", q8});
  EXPECT_EQ(bad.exit_code, 3);
  EXPECT_THAT(bad.out, HasSubstr("layer-00004.safetensors"));
  EXPECT_EQ(RunProgram({"verify", TinyModel(), "--overlay", q8, "--repair"}).exit_code, 2);
}

}  // namespace
}  // namespace kimi_k3

// The run command as its users meet it: exit codes, errors in words, results written or refused.
#include "cli/run_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace kimi_k3 {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// Runs the small model (no tokenizer) on three tokens.
std::vector<std::string> Small(std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"-m", SmallModel(), "--token-ids", "1,2,3", "-n", "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> Tiny(std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"-m", TinyModel(), "-n", "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Expects this exit code, nothing on standard output, and an error with these words, the last thing
// said.
void ExpectRefused(const ProgramResult& result, int exit_code, const std::string& words) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  const size_t error = result.err.rfind("kimi_k3: ");
  ASSERT_NE(error, std::string::npos) << result.err;
  EXPECT_THAT(result.err.substr(error), HasSubstr(words));
  EXPECT_THAT(result.err, EndsWith("\n"));
}

struct Refusal {
  const char* name;
  std::vector<std::string> arguments;
  std::string words;
};

class Usage : public testing::TestWithParam<Refusal> {};

TEST_P(Usage, IsRefusedInWordsWithExitCode2) {
  const ProgramResult result = RunProgram(GetParam().arguments);
  ExpectRefused(result, 2, GetParam().words);
  EXPECT_EQ(result.err.find('\n', result.err.rfind("kimi_k3: ")), result.err.size() - 1);
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, Usage,
    testing::Values(
        Refusal{"NoModel", {}, "-m DIR"}, Refusal{"NoPrompt", {"-m", SmallModel()}, "-p TEXT"},
        Refusal{"TwoPrompts", Small({"-p", "x"}), "more than one prompt"},
        Refusal{"PromptTwice", {"-m", "x", "-p", "a", "-p", "b"}, "more than once"},
        Refusal{"EmptyPrompt", Tiny({"-p", ""}), "empty"},
        Refusal{"EmptyIds", {"-m", SmallModel(), "--token-ids", " "}, "empty"},
        Refusal{"BadId", {"-m", SmallModel(), "--token-ids", "1,x"}, "\"x\" is not a token id"},
        Refusal{"NegativeId", {"-m", SmallModel(), "--token-ids", "1,-2"}, "\"-2\""},
        Refusal{"HugeId", {"-m", SmallModel(), "--token-ids", "4294967296"}, "4294967296"},
        Refusal{"IdOutsideVocabulary", {"-m", SmallModel(), "--token-ids", "199"}, "of 199"},
        Refusal{"UnknownFlag", Small({"--tempp", "1"}), "did you mean --temp?"},
        Refusal{"UnknownFlagWithValue", Small({"--thread=2"}), "did you mean --threads?"},
        Refusal{"UnknownCommand", {"tokenise"}, "did you mean tokenize?"},
        Refusal{"StrayWord", {"-m", "x", "-p", "hello", "world"}, "needs quotes"},
        Refusal{"MissingValue", {"-m", "x", "-n"}, "needs a value"},
        Refusal{"NegativeCount", {"-m", SmallModel(), "--token-ids", "1", "-n", "-1"}, "below 0"},
        Refusal{"HugeCount",
                {"-m", SmallModel(), "--token-ids", "1", "-n", "100000000000000000000"},
                "above"},
        Refusal{"CountInWords",
                {"-m", SmallModel(), "--token-ids", "1", "-n", "many"},
                "\"many\" is not a whole number"},
        Refusal{
            "CountWithFraction", {"-m", SmallModel(), "--token-ids", "1", "-n", "1.5"}, "\"1.5\""},
        Refusal{"CountInHex", {"-m", SmallModel(), "--token-ids", "1", "-n", "0x10"}, "\"0x10\""},
        Refusal{"NoContext", Small({"-c", "0"}), "below 1"},
        Refusal{"NegativeContext", Small({"-c", "-2048"}), "below 1"},
        Refusal{"ContextBeyondTheModel", Small({"-c", "1048577"}), "1048576"},
        Refusal{"HugeContext", Small({"-c", "9223372036854775807"}), "1048576"},
        Refusal{"ContextTooShort", Small({"-c", "2"}), "(-c 7)"},
        Refusal{"NegativeThreads", Small({"-t", "-1"}), "below 0"},
        Refusal{"TooManyThreads", Small({"-t", "10000"}), "above 1024"},
        Refusal{"HugeChunk", Small({"--prompt-chunk", "99999999"}), "above"},
        Refusal{"UnknownIsa", Small({"--isa", "abacus"}), "abacus"},
        Refusal{"UnknownCache", Small({"--kv-cache-quant", "q3"}), "\"q3\" is not one of"},
        Refusal{"NegativeTemperature", Small({"--temp", "-1"}), "temperature"},
        Refusal{"TemperatureIsNoNumber", Small({"--temp", "nan"}), "--temp"},
        Refusal{"InfiniteTemperature", Small({"--temp", "1e99"}), "--temp"},
        Refusal{"TopPAboveOne", Small({"--top-p", "1.5"}), "top-p"},
        Refusal{"NegativeTopP", Small({"--top-p", "-0.1"}), "top-p"},
        Refusal{"MinPAboveOne", Small({"--min-p", "2"}), "min-p"},
        Refusal{"NoPenalty", Small({"--repeat-penalty", "0"}), "repeat-penalty"},
        Refusal{"StopWithIds", Tiny({"-p", "x", "--print-ids", "--stop", "y"}), "--stop"},
        Refusal{"StopWithoutTokenizer", Small({"--stop", "y"}), "tiktoken.model"},
        Refusal{"EmptyStop", Tiny({"-p", "x", "--stop", ""}), "--stop"},
        Refusal{"RawWithSystem", Tiny({"-p", "x", "--raw", "--system", "y"}), "--system"},
        Refusal{"RawWithEffort", Tiny({"-p", "x", "--raw", "--effort", "low"}), "--effort"},
        Refusal{"IdsWithSystem", Small({"--system", "y"}), "--token-ids"},
        Refusal{"EffortWithoutThinking", Tiny({"-p", "x", "--no-thinking", "--effort", "low"}),
                "--no-thinking"},
        Refusal{"UnknownEffort", Tiny({"-p", "x", "--effort", "some"}), "\"some\""},
        Refusal{"HiddenThinkingInIds", Tiny({"-p", "x", "--print-ids", "--hide-thinking"}),
                "--hide-thinking"},
        Refusal{"SameResultFile", Small({"--stats", "a", "--logits", "./a"}), "same file"},
        Refusal{"FlagsBeforeTheCommand", {"-m", "x", "tokenize", "-m", "x"}, "before the command"}),
    [](const testing::TestParamInfo<Refusal>& refusal) { return refusal.param.name; });

TEST(RunErrors, AFlagsValueMayLookLikeAFlag) {
  const ProgramResult result = RunProgram(Tiny({"--raw", "-p", "--help"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr("Usage")));
}

TEST(RunErrors, UnreadablePromptFilesGiveExitCode5) {
  const TemporaryFolder folder;
  ExpectRefused(RunProgram(Tiny({"-f", folder / "none"})), 5, folder / "none");
  ExpectRefused(RunProgram(Tiny({"-f", folder.path().string()})), 5, "directory");
  std::ofstream(folder / "empty");
  ExpectRefused(RunProgram(Tiny({"-f", folder / "empty"})), 2, "empty");
  ExpectRefused(RunProgram(Tiny({"-f", "-"})), 2, "empty");
}

TEST(RunErrors, ResultFilesThatCannotBeWrittenAreFoundBeforeTheModelIsOpened) {
  const TemporaryFolder folder;
  for (const char* flag : {"--stats", "--logits"}) {
    for (const std::string& path :
         {folder / "none/x", folder.path().string(), std::string("/dev/null")}) {
      ExpectRefused(RunProgram({"-m", "/no/model", "--token-ids", "1", flag, path}), 5, path);
    }
  }
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(RunErrors, RefusedCheckpointsGiveExitCode3AndNameTheFile) {
  const TemporaryFolder folder;
  const auto expect_refused = [&](const std::string& words) {
    ExpectRefused(RunProgram({"-m", folder.path().string(), "--token-ids", "1"}), 3, words);
  };
  expect_refused("config.json");
  const auto restore = [&] {
    std::filesystem::copy(SmallModel(), folder.path(),
                          std::filesystem::copy_options::overwrite_existing |
                              std::filesystem::copy_options::recursive);
  };
  restore();
  std::ofstream(folder / "config.json", std::ios::app) << "}";
  expect_refused("config.json");
  restore();
  std::ofstream(folder / "config.json") << "{}";
  expect_refused("config.json");
  restore();
  std::filesystem::path shard;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() == ".safetensors") shard = std::max(shard, entry.path());
  }
  const std::string name = shard.filename();
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
  expect_refused(name);
  std::filesystem::resize_file(shard, 5);
  expect_refused(name);
  std::ofstream(shard) << "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
  expect_refused(name);
  std::ofstream(shard) << std::string(64, '\xff');
  expect_refused(name);
  std::filesystem::remove(shard);
  expect_refused(name);
  restore();
  EXPECT_EQ(RunProgram({"-m", folder.path().string(), "--token-ids", "1", "-n", "1"}).exit_code, 0);
}

TEST(RunErrors, TextWithoutATokenizerIsRefusedAndNamesTheFile) {
  ExpectRefused(RunProgram({"-m", SmallModel(), "-p", "x"}), 3, "tiktoken.model");
  const TemporaryFolder folder;
  std::filesystem::copy(TinyModel(), folder.path());
  std::ofstream(folder / "tiktoken.model") << "what?\n";
  ExpectRefused(RunProgram({"-m", folder.path().string(), "-p", "x"}), 3, "tiktoken.model");
}

TEST(RunErrors, AFullOrClosedOutputGivesExitCode5) {
  for (const char* output : {"/dev/full", ""}) {
    ProgramOptions options;
    options.output_file = output;
    const ProgramResult result = RunProgram(Small(), options);
    EXPECT_EQ(result.exit_code, 5) << output;
    EXPECT_THAT(result.err, HasSubstr("standard output"));
    EXPECT_EQ(RunProgram({"--help"}, options).exit_code, 5) << output;
  }
}

TEST(RunErrors, AReaderThatGoesAwayEndsTheRun) {
  ProgramOptions options;
  const ProgramResult result =
      Program({"/bin/sh", "-c",
               std::string(KIMI_K3_PROGRAM) + " -m " + SmallModel() +
                   " --token-ids 1 -n 1000000 -c 1000000 --ignore-eos | head -c 10"},
              options)
          .Finish();
  EXPECT_THAT(result.out, StartsWith("193 107 "));
  EXPECT_THAT(result.err, HasSubstr("Broken pipe"));
}

TEST(RunErrors, ClosedStandardStreamsNeverReceiveAFilesNumber) {
  const TemporaryFolder folder;
  const ProgramResult result =
      Program({"/bin/sh", "-c",
               std::string(KIMI_K3_PROGRAM) + " -m " + SmallModel() +
                   " --token-ids 1 -n 3 --stats " + (folder / "s.json") + " <&- >&- 2>&-"})
          .Finish();
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(nlohmann::json::parse(ReadFile(folder / "s.json")).at("stop_reason"), "failed");
}

TEST(Run, PrintsIdsWhereThereIsNoTokenizerAndSaysSo) {
  const ProgramResult result = RunProgram(Small());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "3 18 75 179\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("printing token ids"), HasSubstr("token limit")));
}

TEST(Run, TellsOnceOfFilesThatItIgnores) {
  const TemporaryFolder folder;
  std::filesystem::copy(TinyModel(), folder / "m");
  std::ofstream(folder / "m/old.safetensors") << "x";
  for (const std::vector<std::string>& command : {std::vector<std::string>{"-p", "x", "-n", "1"},
                                                  {"chat", "-n", "1"},
                                                  {"plan", "--no-measure"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"-m", folder / "m", "-c", "128", "--memory", "60M"});
    const ProgramResult result = RunProgram(arguments, {.input = "x\n"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const size_t first = result.err.find("old.safetensors: ignored");
    EXPECT_NE(first, std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("old.safetensors: ignored", first + 1), std::string::npos);
  }
}

TEST(Run, AMemoryLimitIsNotBlamedOnTheCheckpoint) {
  // Whatever allocation fails, it is no fault of the files.
  for (const char* kilobytes : {"1000", "2000", "4000", "8000", "16000"}) {
    const ProgramResult result =
        Program({"/bin/bash", "-c", std::string("ulimit -d ") + kilobytes + "; exec \"$0\" \"$@\"",
                 KIMI_K3_PROGRAM, "-m", TinyModel(), "-p", "x", "-n", "1", "-t", "1", "-c", "64"})
            .Finish();
    EXPECT_THAT(result.err, testing::Not(HasSubstr("not valid JSON"))) << kilobytes;
    // 127: even the loader had too little.
    if (result.exit_code == 0 || result.exit_code == 127) continue;
    EXPECT_EQ(result.exit_code, 4) << kilobytes << result.err;
    EXPECT_THAT(result.err, HasSubstr("memory"));
  }
}

TEST(Run, QuietLeavesStandardErrorEmpty) {
  const ProgramResult result = RunProgram(Small({"-q"}));
  EXPECT_EQ(result.out, "3 18 75 179\n");
  EXPECT_EQ(result.err, "");
}

// A warning is not progress: the answer may be wrong.
TEST(Run, QuietSwallowsNoWarning) {
  const TemporaryFolder folder;
  std::filesystem::copy(TinyModel(), folder / "m");
  auto config = nlohmann::json::parse(ReadFile(folder / "m/config.json"));
  config["text_config"].erase("activation_situ_beta");
  std::ofstream(folder / "m/config.json") << config.dump();
  const ProgramResult result =
      RunProgram({"-q", "-m", folder / "m", "-p", "x", "-n", "1", "-c", "128", "--no-thinking"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, AllOf(StartsWith(folder / "m/config.json"),
                                HasSubstr("text_config.activation_situ_beta is missing")));
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
}

TEST(Run, NothingIsGeneratedWhereNothingIsAskedFor) {
  const ProgramResult result = RunProgram(Small({"-n", "0"}));
  EXPECT_EQ(result.exit_code, 2) << "the flag is given twice";
  const ProgramResult none = RunProgram({"-m", SmallModel(), "--token-ids", "1,2", "-n", "0"});
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_EQ(none.out, "");
}

TEST(Run, ReadsTokenIdsWithAnySeparators) {
  const ProgramResult result =
      RunProgram({"-m", SmallModel(), "--token-ids", " 1 , 2\n3,", "-n", "4"});
  EXPECT_EQ(result.out, "3 18 75 179\n") << result.err;
}

TEST(Run, EndsAtTheEndOfTheContextAndSaidSoBefore) {
  const ProgramResult result =
      RunProgram({"-m", SmallModel(), "--token-ids", "1,2,3", "-c", "4", "--ignore-eos"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "3 18\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("room for 2 of the 256"), HasSubstr("context full")));
}

TEST(Run, WarnsOfFlagsWithoutEffectAndOfTooManyThreads) {
  EXPECT_THAT(RunProgram(Small({"--seed", "5"})).err, HasSubstr("--seed has no effect"));
  EXPECT_THAT(RunProgram(Small({"--top-k", "5"})).err, HasSubstr("--top-k has no effect"));
  EXPECT_THAT(RunProgram(Small({"--repeat-last-n", "5"})).err, HasSubstr("no effect"));
  EXPECT_THAT(RunProgram(Small({"--temp", "1", "--seed", "5"})).err, Not(HasSubstr("no effect")));
  EXPECT_THAT(RunProgram(Small({"-t", "65"})).err, HasSubstr("-t 65 is more than"));
}

TEST(Run, HelpAndVersionGoToStandardOutput) {
  const ProgramResult help = RunProgram({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("--token-ids"), HasSubstr("Exit codes")));
  const ProgramResult version = RunProgram({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, AllOf(StartsWith("kimi_k3 "), HasSubstr("Highway")));
  EXPECT_THAT(help.err + version.err, IsEmpty());
}

TEST(Run, LogitsOfAnUnfinishedFileNeverAppear) {
  const TemporaryFolder folder;
  ProgramOptions options;
  options.output_file = "/dev/full";
  EXPECT_EQ(RunProgram(Small({"--logits", folder / "l.npy"}), options).exit_code, 5);
  // The prompt was through before the first token could not be printed.
  EXPECT_TRUE(std::filesystem::exists(folder / "l.npy"));
  ExpectRefused(RunProgram(Small({"--logits", folder / "m.npy", "-c", "2"})), 2, "-c");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(RunStats, FileHasBothPhasesInFull) {
  const TemporaryFolder folder;
  const ProgramResult result = RunProgram(Small({"--stats", folder / "s.json", "--ignore-eos"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto stats = nlohmann::json::parse(ReadFile(folder / "s.json"));
  EXPECT_EQ(stats.at("prompt_tokens"), 3);
  EXPECT_EQ(stats.at("generated_tokens"), 4);
  EXPECT_EQ(stats.at("stop_reason"), "token limit");
  EXPECT_EQ(stats.at("context"), 2048);
  EXPECT_GE(stats.at("threads"), 1);
  EXPECT_FALSE(stats.contains("error"));
  EXPECT_EQ(stats.at("prompt").at("tokens"), 3);
  EXPECT_EQ(stats.at("prompt").at("passes"), 1);
  EXPECT_EQ(stats.at("decode").at("tokens"), 3);
  EXPECT_EQ(stats.at("decode").at("passes"), 3);
  for (const char* phase : {"prompt", "decode"}) {
    EXPECT_GT(stats.at(phase).at("seconds"), 0.0);
    EXPECT_GT(stats.at(phase).at("tokens_per_second"), 0.0);
    EXPECT_GT(stats.at(phase).at("peak_resident_bytes"), 1000000);
    EXPECT_TRUE(stats.at(phase).at("minor_faults").is_number_unsigned());
    EXPECT_TRUE(stats.at(phase).at("major_faults").is_number_unsigned());
    EXPECT_TRUE(stats.at(phase).at("storage_read_bytes").is_number_unsigned());
  }
}

TEST(RunStats, APromptInPiecesIsCountedWhole) {
  const TemporaryFolder folder;
  const ProgramResult result =
      RunProgram(Small({"--stats", folder / "s.json", "--prompt-chunk", "2"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto stats = nlohmann::json::parse(ReadFile(folder / "s.json"));
  EXPECT_EQ(stats.at("prompt").at("tokens"), 3);
  EXPECT_EQ(stats.at("prompt").at("passes"), 2);
}

TEST(RunStats, TellTheReasonOfTheEnd) {
  const TemporaryFolder folder;
  const auto reason = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--stats", folder / "s.json"});
    RunProgram(arguments);
    return nlohmann::json::parse(ReadFile(folder / "s.json")).at("stop_reason");
  };
  EXPECT_EQ(reason(Small()), "token limit");
  EXPECT_EQ(reason({"-m", SmallModel(), "--token-ids", "1", "-c", "5", "--ignore-eos"}),
            "context full");
  EXPECT_EQ(reason({"-m", TinyModel(), "--raw", "-p", "It is", "--stop", " "}), "stopped");
  EXPECT_EQ(reason({"-m", TinyModel(), "-p", "What is Genesis 1:1?", "-n", "1500"}), "end of text");
}

}  // namespace
}  // namespace kimi_k3

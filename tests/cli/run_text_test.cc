// Text through the program: streaming, chat, stop texts, whole characters, seeds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "kimi_k3/utf8.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

constexpr const char* kQuestion = "What is Genesis 1:1?";

std::string RunTiny(std::vector<std::string> more, ProgramOptions options = {}) {
  std::vector<std::string> arguments = {"-m", TinyModel()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProgramResult result = RunProgram(arguments, std::move(options));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

// The output of the tokenize command in one of its modes.
std::string Tokenize(const std::string& input, std::vector<std::string> flags) {
  std::vector<std::string> arguments = {"tokenize", "-m", TinyModel()};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  ProgramOptions options;
  options.input = input;
  const ProgramResult result = RunProgram(arguments, options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

// Temperatures at which this model's choices are nearly random, so that tokens end inside
// characters, and control tokens come anywhere.
const std::vector<std::vector<std::string>> kWild = {{"--temp", "30", "--seed", "1"},
                                                     {"--temp", "30", "--seed", "2"},
                                                     {"--temp", "8", "--seed", "3"}};

std::vector<std::string> With(std::vector<std::string> flags,
                              const std::vector<std::string>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

TEST(RunText, IsWhatTheIdsStandForAndAlwaysValid) {
  for (const auto& wild : kWild) {
    const auto flags = With({"--raw", "-p", "It is", "-n", "400", "--ignore-eos"}, wild);
    const std::string ids = RunTiny(With(flags, {"--print-ids"}));
    const std::string text = RunTiny(flags);
    EXPECT_TRUE(IsValidUtf8(text));
    EXPECT_EQ(text, ReplaceInvalidUtf8(Tokenize(ids, {"--decode"})) + "\n");
  }
}

TEST(RunText, ChatShowsReasoningAndAnswerAsTheParserSeparatesThem) {
  auto cases = kWild;
  cases.push_back({});
  for (const auto& sampling : cases) {
    for (const bool thinking : {true, false}) {
      auto flags = With({"-p", kQuestion, "-n", "300"}, sampling);
      if (!thinking) flags.emplace_back("--no-thinking");
      const std::string ids = RunTiny(With(flags, {"--print-ids"}));
      const auto mode = thinking ? std::vector<std::string>{"--parse"}
                                 : std::vector<std::string>{"--parse", "--no-thinking"};
      const auto turn = nlohmann::json::parse(Tokenize(ids, mode));
      const std::string reasoning = turn.at("reasoning_content");
      const std::string content = turn.at("content");
      if (!turn.at("tool_calls").empty()) continue;
      const std::string shown = RunTiny(flags);
      EXPECT_TRUE(IsValidUtf8(shown));
      EXPECT_EQ(shown, (reasoning.empty() ? "" : "<think>\n" + reasoning + "\n</think>\n\n") +
                           content + "\n");
      EXPECT_EQ(RunTiny(With(flags, {"--hide-thinking"})), content + "\n");
    }
  }
}

TEST(RunText, TheTrainedModelAnswersInBothChannels) {
  const std::string answer = RunTiny({"-p", kQuestion, "-n", "300"});
  EXPECT_THAT(answer, testing::StartsWith("<think>\n"));
  const size_t end = answer.find("\n</think>\n\n");
  ASSERT_NE(end, std::string::npos) << answer;
  EXPECT_GT(answer.size(), end + 20) << answer;
}

TEST(RunText, ChatPromptsAreTheOnesThatTheChatRequestsGive) {
  struct Case {
    std::vector<std::string> flags;
    std::string request;
  };
  const std::string user = R"({"role": "user", "content": "hello"})";
  const std::string system = R"({"role": "system", "content": "be kind"})";
  const std::vector<Case> cases = {
      {{}, R"({"messages": [)" + user + "]}"},
      {{"--system", "be kind"}, R"({"messages": [)" + system + "," + user + "]}"},
      {{"--no-thinking"},
       R"({"messages": [)" + user + R"(], "chat_template_kwargs": {"thinking": false}})"},
      {{"--effort", "low"},
       R"({"messages": [)" + user + R"(], "chat_template_kwargs": {"thinking_effort": "low"}})"}};
  for (const Case& each : cases) {
    // The same prompt gives the same logits in every bit.
    const TemporaryFolder folder;
    RunTiny(With({"-p", "hello", "-n", "0", "--logits", folder / "a.npy"}, each.flags));
    RunTiny({"--token-ids", Tokenize(each.request, {"--chat"}), "-n", "0", "--logits",
             folder / "b.npy"});
    EXPECT_TRUE(ReadFile(folder / "a.npy") == ReadFile(folder / "b.npy")) << each.request;
  }
}

TEST(RunText, EndsBeforeAStopTextHoweverTokensCutIt) {
  const std::vector<std::string> flags = {"--raw", "-p",  "It is a truth",
                                          "-n",    "120", "--ignore-eos"};
  const std::string text = RunTiny(flags);
  ASSERT_GT(text.size(), 100U);
  // Every piece of eleven bytes in the middle ends the text at its first occurrence.
  for (size_t at = 40; at < 60; at += 3) {
    const std::string stop = text.substr(at, 11);
    EXPECT_EQ(RunTiny(With(flags, {"--stop", stop})), text.substr(0, text.find(stop)) + "\n");
  }
  EXPECT_EQ(RunTiny(With(flags, {"--stop", "in no text at all"})), text);
  const std::string early = text.substr(30, 8);
  EXPECT_EQ(RunTiny(With(flags, {"--stop", text.substr(70, 8), "--stop", early})),
            text.substr(0, std::min(text.find(early), text.find(text.substr(70, 8)))) + "\n");
}

TEST(RunText, TheSameSeedGivesTheSameTextHoweverItIsComputed) {
  const std::vector<std::string> flags = {"--raw", "-p",     "It is", "-n",
                                          "60",    "--temp", "1",     "--ignore-eos"};
  const std::string first = RunTiny(With(flags, {"--seed", "7"}));
  EXPECT_EQ(RunTiny(With(flags, {"--seed", "7"})), first);
  EXPECT_EQ(RunTiny(With(flags, {"--seed", "7", "-t", "1", "--prompt-chunk", "1"})), first);
  EXPECT_EQ(RunTiny(With(flags, {"--seed", "7", "--isa", "avx2"})), first);
  EXPECT_NE(RunTiny(With(flags, {"--seed", "8"})), first);
  EXPECT_EQ(RunTiny(With(flags, {"--seed", "8", "--top-k", "1"})),
            RunTiny(With(flags, {"--seed", "9", "--top-p", "0"})));
}

TEST(RunText, ThePromptIsTheSameFromFlagFileInputAndPipe) {
  const TemporaryFolder folder;
  const std::string prompt = "caf\xc3\xa9, \xe4\xb8\xad\xe6\x96\x87\nand more\n";
  const std::vector<std::string> flags = {"--raw", "-n", "20", "--ignore-eos"};
  const std::string expected = RunTiny(With(flags, {"-p", prompt}));
  std::ofstream(folder / "prompt \xc3\xa9.txt") << prompt;
  EXPECT_EQ(RunTiny(With(flags, {"-f", folder / "prompt \xc3\xa9.txt"})), expected);
  ProgramOptions options;
  options.input = prompt;
  EXPECT_EQ(RunTiny(With(flags, {"-f", "-"}), options), expected);
  EXPECT_EQ(RunTiny(With(flags, {"-f", "/dev/stdin"}), options), expected);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  Program writer({"/bin/sh", "-c",
                  "cat '" + (folder / "prompt \xc3\xa9.txt") + "' > '" + (folder / "pipe") + "'"});
  EXPECT_EQ(RunTiny(With(flags, {"-f", folder / "pipe"})), expected);
  EXPECT_EQ(writer.Finish().exit_code, 0);
}

TEST(RunText, ABrokenPromptIsReadWithReplacementCharactersAndSaidSo) {
  const std::vector<std::string> arguments = {"-m", TinyModel(), "--raw",
                                              "-n", "8",         "--ignore-eos"};
  const ProgramResult broken = RunProgram(With(arguments, {"-p", "a\xff\xe4\xb8"}));
  EXPECT_EQ(broken.exit_code, 0);
  EXPECT_THAT(broken.err, HasSubstr("not valid UTF-8"));
  EXPECT_EQ(broken.out,
            RunTiny({"--raw", "-n", "8", "--ignore-eos", "-p", "a\xef\xbf\xbd\xef\xbf\xbd"}));
}

TEST(RunText, ControlTokensInThePromptAreOrdinaryText) {
  const TemporaryFolder folder;
  const std::string spelled = "<|end_of_msg|>";
  const ProgramResult result = RunProgram(
      {"-m", TinyModel(), "--raw", "-n", "1", "-p", spelled, "--stats", folder / "s.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GT(nlohmann::json::parse(ReadFile(folder / "s.json")).at("prompt_tokens"), 1);
}

TEST(RunText, AnAnswerSatisfiesItsSchema) {
  const std::string schema =
      R"({"type": "object", "properties": {"name": {"enum": ["Kimi", "Tiny"]}}, "required": ["name"]})";
  for (const char* seed : {"1", "2", "3"}) {
    const std::vector<std::string> drawn = {"-n", "300", "--temp", "1", "--seed", seed};
    for (const std::vector<std::string>& prompt :
         {std::vector<std::string>{"-p", "Hello.", "--hide-thinking"},
          std::vector<std::string>{"-p", "Hello.", "--no-thinking"},
          std::vector<std::string>{"-p", "It is", "--raw"}}) {
      const std::string text = RunTiny(With(With(prompt, drawn), {"-j", schema}));
      const auto value = nlohmann::json::parse(text, nullptr, false);
      ASSERT_TRUE(value.is_object()) << text;
      EXPECT_TRUE(value["name"] == "Kimi" || value["name"] == "Tiny") << text;
    }
  }
  const ProgramResult refused =
      RunProgram({"-m", TinyModel(), "-p", "Hello.", "-j", R"({"items": {"not": {}}})"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--json-schema.items.not: this keyword is not supported"));
  const ProgramResult cut = RunProgram(
      {"-m", TinyModel(), "-p", "Hello.", "--no-thinking", "-n", "3", "-j", schema, "-q"});
  EXPECT_THAT(cut.err, HasSubstr("cut before the JSON was whole: 3 tokens were not enough"));
}

TEST(RunText, TheModelsFolderMayHaveAnyName) {
  const TemporaryFolder folder;
  const std::string name = folder / "a \xe4\xb8\xad model's folder";
  std::filesystem::copy(TinyModel(), name, std::filesystem::copy_options::recursive);
  const ProgramResult result =
      RunProgram({"-m", name, "--raw", "-p", "It is", "-n", "8", "--ignore-eos"});
  EXPECT_EQ(result.out, RunTiny({"--raw", "-p", "It is", "-n", "8", "--ignore-eos"}));
}

}  // namespace
}  // namespace kimi_k3

// A batch at work, against each of its texts alone.
#include "cli/batch_run.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/batch_files.h"
#include "cli/program.h"
#include "kimi_k3/generation.h"

namespace kimi_k3 {
namespace {

using Json = nlohmann::json;

class BatchRuns : public testing::Test {
 protected:
  static EngineOptions Options() {
    EngineOptions options;
    options.model_dir = TinyModel();
    options.context = 128;
    options.threads = 1;
    options.memory_bytes = uint64_t{1} << 29;
    options.sequences = 3;
    options.prompt_chunk = 8;
    options.all_prompt_logits = true;
    return options;
  }

  // Runs the requests; the results by custom_id.
  std::map<std::string, Json> Run(const std::string& requests) {
    WriteText(folder_ / "in", requests);
    const BatchInput input(folder_ / "in", "s");
    BatchOutput results(folder_ / "out", input);
    BatchJournal journal(input, results);
    BatchRunOptions options = {.sequences = 3, .defaults = {}, .seed = 7};
    options.defaults.model_name = "tiny";
    Engine engine = Engine::Open(Options());
    Output output(true);
    BatchRun(engine, input, results, journal, options, output).Execute();
    std::map<std::string, Json> by_id;
    std::istringstream lines(ReadFile(folder_ / "out"));
    for (std::string line; std::getline(lines, line);) {
      const Json result = Json::parse(line);
      const std::string name = result["custom_id"].is_null()
                                   ? result["error"]["message"].get<std::string>()
                                   : result["custom_id"].get<std::string>();
      EXPECT_TRUE(by_id.emplace(name, result).second) << line;
    }
    EXPECT_EQ(by_id.size(), input.lines().size());
    return by_id;
  }

  static std::string Alone(const std::string& prompt, size_t tokens, SamplingOptions sampling) {
    Engine engine = Engine::Open(Options());
    Sequence sequence = engine.NewSequence();
    const GenerationResult result =
        Generate(engine, sequence, engine.tokenizer().Encode(prompt, SpecialText::kPlain),
                 {.max_tokens = tokens, .sampling = sampling, .ignore_eos = true},
                 [](TokenId) { return true; });
    Utf8Stream utf8;
    std::string text = utf8.Append(engine.tokenizer().Decode(result.tokens));
    return text + utf8.Flush();
  }

  TemporaryFolder folder_;
};

TEST_F(BatchRuns, EachTextIsTheSameAsAlone) {
  std::string requests;
  std::map<std::string, std::string> expected;
  const std::string words = "And the LORD said unto Moses, It is a truth universally acknowledged";
  for (size_t i = 0; i < 8; ++i) {
    const std::string prompt = words.substr(0, 5 + 7 * i);
    const bool greedy = i % 2 == 0;
    Json body = {{"prompt", prompt}, {"temperature", greedy ? 0.0 : 0.5}, {"top_p", 0.75},
                 {"seed", i},        {"max_tokens", 4 + 3 * i},           {"ignore_eos", true}};
    const std::string name = std::string("r") + std::to_string(i);
    requests += TextLine(name, body.dump());
    expected[name] =
        Alone(prompt, 4 + 3 * i, {.temperature = greedy ? 0.0F : 0.5F, .top_p = 0.75F, .seed = i});
  }
  const auto results = Run(requests);
  for (const auto& [name, text] : expected) {
    EXPECT_EQ(results.at(name)["response"]["body"]["choices"][0]["text"], text) << name;
  }
}

TEST_F(BatchRuns, WhatIsWrongIsToldAndTheRestGoesOn) {
  const auto results =
      Run("nothing\n" + TextLine("long", "{\"prompt\": \"" + std::string(3000, 'x') + "\"}") +
          TextLine("wrong", R"({"prompt": "a", "n": 3})") +
          TextLine("model", R"({"prompt": "a", "model": "b"})") +
          TextLine("stream", R"({"prompt": "a", "stream": true})") +
          TextLine("vocabulary", R"({"prompt": [99999999]})") +
          TextLine("good", R"({"prompt": "It is", "max_tokens": 2, "model": "tiny"})"));
  EXPECT_EQ(results.at("good")["response"]["status_code"], 200);
  const auto code = [&](const char* name) {
    EXPECT_TRUE(results.at(name)["error"].is_null());
    EXPECT_EQ(results.at(name)["response"]["status_code"],
              std::string(name) == "model" ? 404 : 400);
    return results.at(name)["response"]["body"]["error"]["code"].get<std::string>();
  };
  EXPECT_EQ(code("long"), "context_length_exceeded");
  EXPECT_EQ(code("wrong"), "invalid_value");
  EXPECT_EQ(code("model"), "model_not_found");
  EXPECT_EQ(code("stream"), "invalid_value");
  EXPECT_EQ(code("vocabulary"), "invalid_value");
  bool told = false;
  for (const auto& [name, result] : results) told = told || name.starts_with("line 1: is ");
  EXPECT_TRUE(told);
}

TEST_F(BatchRuns, RequestsThatAreTheSameButForTheirNamesHaveTextsOfTheirOwn) {
  const std::string body = R"({"prompt": "And", "max_tokens": 12, "ignore_eos": true})";
  const std::string requests = TextLine("a", body) + TextLine("b", body);
  const auto results = Run(requests);
  const auto text = [](const Json& result) {
    return result["response"]["body"]["choices"][0]["text"].get<std::string>();
  };
  EXPECT_NE(text(results.at("a")), text(results.at("b")));
  std::filesystem::remove(folder_ / "out");
  EXPECT_EQ(text(Run(requests).at("a")), text(results.at("a")));
}

TEST_F(BatchRuns, AScoreHasALogarithmForEachTokenAfterThePrompt) {
  const auto results =
      Run(R"({"custom_id": "s", "method": "POST", "url": "/v1/score", )"
          R"("body": {"prompt": "It is a", "completion": " truth", "logprobs": 2}})"
          "\n");
  const Json& body = results.at("s")["response"]["body"];
  EXPECT_EQ(body["object"], "score");
  EXPECT_EQ(body["logprobs"]["token_logprobs"].size(), body["scored_tokens"].get<size_t>());
  EXPECT_EQ(body["logprobs"]["top_logprobs"][0].size(), 2U);
  EXPECT_LT(body["total_logprob"].get<double>(), 0.0);
  EXPECT_EQ(body["usage"]["completion_tokens"], 0);
}

}  // namespace
}  // namespace kimi_k3

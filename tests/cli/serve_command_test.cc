// The serve command through the built program.
#include "cli/serve_command.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/program.h"
#include "server/http_client.h"

namespace kimi_k3 {
namespace {

using Json = nlohmann::json;

// The program serving the tiny model on a free port.
class Serving {
 public:
  explicit Serving(std::vector<std::string> flags = {}, ProgramOptions options = {})
      : program_(Command(std::move(flags)), std::move(options)) {
    program_.AwaitOutput("listening on http://127.0.0.1:");
    program_.AwaitOutput("\n");
    const std::string& out = program_.output();
    port_ = static_cast<uint16_t>(std::stoul(out.substr(out.rfind(':') + 1)));
  }

  Program& program() { return program_; }
  uint16_t port() const { return port_; }

 private:
  static std::vector<std::string> Command(std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"serve", "-m", TinyModel(), "--port", "0", "-t", "1"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return ProgramCommand(std::move(arguments));
  }

  Program program_;
  uint16_t port_ = 0;
};

constexpr const char* kGenesis =
    R"({"messages": [{"role": "user", "content": "What is Genesis 1:1?"}], "temperature": 0})";

TEST(ServeCommand, AnswersAChatRequest) {
  Serving serving({"--model-name", "small"});
  const HttpResponse response = Post(serving.port(), "/v1/chat/completions", kGenesis);
  ASSERT_EQ(response.status, 200) << response.body;
  const Json answer = Json::parse(response.body);
  EXPECT_EQ(answer["model"], "small");
  EXPECT_EQ(answer["choices"][0]["message"]["content"],
            "In the beginning God created the heaven and the earth.");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  serving.program().Signal(SIGTERM);
  const ProgramResult result = serving.program().Finish();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.err.find("POST /v1/chat/completions 200"), std::string::npos) << result.err;
}

// An answer that goes on for minutes.
constexpr const char* kEndless =
    R"({"prompt": "And", "stream": true, "ignore_eos": true, "max_tokens": 90000})";

TEST(ServeCommand, LetsAnAnswerEndWhenItIsAskedToStop) {
  Serving serving({"-c", "100000"});
  HttpClient client(serving.port());
  client.Send(
      PostText("/v1/completions",
               R"({"prompt": "And", "stream": true, "ignore_eos": true, "max_tokens": 600})"));
  ASSERT_TRUE(client.Await("data: "));
  serving.program().Signal(SIGTERM);
  serving.program().AwaitError("stopping");
  // It stops listening soon after it has said so.
  bool refused = false;
  for (int i = 0; i < 1000 && !refused; ++i) {
    try {
      Get(serving.port(), "/health");
    } catch (const std::runtime_error&) {
      refused = true;
    }
  }
  EXPECT_TRUE(refused);
  const HttpResponse response = client.Read();
  EXPECT_TRUE(response.whole);
  EXPECT_EQ(EventsOf(response.body).back(), "[DONE]");
  EXPECT_EQ(serving.program().Finish().exit_code, 0);
}

TEST(ServeCommand, EndsAnswersWithAnErrorWhenItIsAskedTwice) {
  Serving serving({"--stop-timeout", "60", "-c", "100000"});
  HttpClient client(serving.port());
  client.Send(PostText("/v1/completions", kEndless));
  ASSERT_TRUE(client.Await("data: "));
  serving.program().Signal(SIGINT);
  serving.program().AwaitError("stopping");
  const auto asked = std::chrono::steady_clock::now();
  serving.program().Signal(SIGINT);
  const HttpResponse response = client.Read();
  EXPECT_NE(response.body.find("shutting down"), std::string::npos);
  EXPECT_EQ(serving.program().Finish().exit_code, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::seconds(5));
}

TEST(ServeCommand, TakesKeysFromEnvironmentAndFile) {
  const TemporaryFolder folder;
  const std::string file = folder / "keys";
  {
    AtomicFile keys(file);
    keys.Append(std::string_view("first-key\r\n\nsecond-key\n"));
    keys.Commit();
  }
  ProgramOptions options;
  options.environment = {"KIMI_K3_API_KEY=from-environment"};
  Serving serving({"--api-key-file", file, "-q"}, options);
  EXPECT_EQ(Get(serving.port(), "/v1/models").status, 401);
  for (const char* key : {"first-key", "second-key", "from-environment"}) {
    EXPECT_EQ(
        Get(serving.port(), "/v1/models", {std::string("Authorization: Bearer ") + key}).status,
        200)
        << key;
  }
  EXPECT_EQ(Get(serving.port(), "/health").status, 200);
}

TEST(ServeCommand, RefusesWhatMakesNoSense) {
  const auto refusal = [](std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"serve", "-m", TinyModel(), "--port", "0"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  };
  EXPECT_NE(refusal({"--api-key", ""}).find("--api-key"), std::string::npos);
  EXPECT_NE(refusal({"--temp", "-1"}).find("temperature"), std::string::npos);
  EXPECT_NE(refusal({"--host", "no such host"}).find("--host"), std::string::npos);
  EXPECT_NE(refusal({"--cache-size", "0"}).find("keeps nothing"), std::string::npos);
  EXPECT_NE(refusal({"--cache-size", "1G"}).find("--cache-dir"), std::string::npos);
  EXPECT_NE(refusal({"--parallel", "0"}).find("--parallel"), std::string::npos);
  EXPECT_EQ(RunProgram({"serve", "--port", "0"}).exit_code, 2);
}

TEST(ServeCommand, LimitsMayBeSmall) {
  Serving serving({"--max-body", "500", "--max-head", "1KiB"});
  EXPECT_EQ(Get(serving.port(), "/health").status, 200);
  EXPECT_EQ(Get(serving.port(), "/health", {"X-Long: " + std::string(2000, 'x')}).status, 431);
  EXPECT_EQ(Post(serving.port(), "/v1/completions", std::string(501, ' ')).status, 413);
}

TEST(ServeCommand, APortInUseIsToldInWords) {
  Serving serving;
  const ProgramResult result =
      RunProgram({"serve", "-m", TinyModel(), "--port", std::to_string(serving.port())});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_NE(result.err.find("cannot listen on 127.0.0.1 port"), std::string::npos) << result.err;
}

TEST(ServeCommand, MemoryForFewerRequestsIsUsedAndToldOf) {
  // Three more sequences of this length do not fit.
  const std::vector<std::string> flags = {"-c", "60000", "--memory", "150M"};
  Serving serving(flags);
  serving.program().AwaitError("the memory has room for");
  std::vector<std::string> arguments = {"serve", "-m",         TinyModel(), "--port",
                                        "0",     "--parallel", "4"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  EXPECT_EQ(RunProgram(arguments).exit_code, 4);
}

}  // namespace
}  // namespace kimi_k3

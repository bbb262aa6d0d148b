// The end points: which there are, and who may use them.
#include "server/api.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/http_client.h"
#include "server/running_server.h"

namespace kimi_k3 {
namespace {

using Json = nlohmann::json;

constexpr const char* kTextPath = "/v1/completions";
constexpr const char* kShort = R"({"prompt": "It is", "max_tokens": 2})";

std::string CodeOf(const HttpResponse& response) {
  return Json::parse(response.body)["error"]["code"].get<std::string>();
}

// A request that is no plain GET or POST.
HttpResponse Ask(uint16_t port, const std::string& text) {
  HttpClient client(port);
  client.Send(text);
  return client.Read();
}

TEST(Api, EveryEndPointAnswers) {
  const RunningServer server;
  EXPECT_EQ(Get(server.port(), "/health").body, R"({"status":"ok"})");
  EXPECT_EQ(Json::parse(Get(server.port(), "/v1/models").body)["data"][0]["id"], "tiny");
  EXPECT_EQ(Json::parse(Get(server.port(), "/v1/models/tiny").body)["object"], "model");
  EXPECT_EQ(CodeOf(Get(server.port(), "/v1/models/other")), "model_not_found");
  EXPECT_EQ(Json::parse(Post(server.port(), kTextPath, kShort).body)["object"], "text_completion");
  EXPECT_EQ(Json::parse(Get(server.port(), "/status?x=1").body)["generated_tokens"], 2);
  const std::string metrics = Get(server.port(), "/metrics").body;
  EXPECT_NE(metrics.find("kimi_k3_requests_total{path=\"/v1/completions\",code=\"200\"} 1"),
            std::string::npos)
      << metrics;
  const HttpResponse page = Get(server.port(), "/");
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_NE(page.headers.at("content-security-policy").find("default-src 'none'"),
            std::string::npos);
}

TEST(Api, NothingElseIsThere) {
  const RunningServer server;
  for (const char* path : {"/v1", "/v1/", "/v1/embeddings", "/../etc/passwd", "/%2e%2e/etc/passwd",
                           "//health", "/health/", "/index.html", "/models/tiny/config.json",
                           "/v1/models/../../config.json", "/v1/models/%2e%2e%2fconfig.json"}) {
    EXPECT_EQ(Get(server.port(), path).status, 404) << path;
  }
  EXPECT_EQ(Post(server.port(), "/v1/nothing", "{}").status, 404);
}

TEST(Api, OtherMethodsAreRefusedWithThoseThatThereAre) {
  const RunningServer server;
  const HttpResponse get = Get(server.port(), kTextPath);
  EXPECT_EQ(get.status, 405);
  EXPECT_EQ(get.headers.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(Post(server.port(), "/health", "{}").status, 405);
  EXPECT_EQ(Ask(server.port(), "BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 405);
  HttpClient client(server.port());
  client.Send("HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(client.Await("\r\n\r\n"));
  EXPECT_TRUE(client.received().ends_with("\r\n\r\n")) << client.received();
}

TEST(Api, BodiesMustBeJsonAndSaySo) {
  const RunningServer server;
  const auto status = [&](const std::string& type) {
    return Ask(server.port(), "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + type +
                                  "Content-Length: " + std::to_string(std::string(kShort).size()) +
                                  "\r\n\r\n" + kShort)
        .status;
  };
  EXPECT_EQ(status("Content-Type: application/json\r\n"), 200);
  EXPECT_EQ(status("Content-Type: Application/JSON; charset=utf-8\r\n"), 200);
  EXPECT_EQ(status("Content-Type: text/plain\r\n"), 415);
  EXPECT_EQ(status(""), 415);
  EXPECT_EQ(status("Content-Type: application/json\r\nContent-Encoding: gzip\r\n"), 415);
  EXPECT_EQ(status("Content-Type: application/json\r\nExpect: 100-continue\r\n"), 200);
  EXPECT_EQ(CodeOf(Post(server.port(), kTextPath, "nonsense")), "invalid_json");
}

TEST(Api, ForeignHostsAndOriginsAreRefused) {
  RunningOptions options;
  options.server.cors_origins = {"https://a.example"};
  const RunningServer server(options);
  EXPECT_EQ(Ask(server.port(), "GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 403);
  const HttpResponse foreign =
      Post(server.port(), kTextPath, kShort, {"Origin: https://evil.example"});
  EXPECT_EQ(foreign.status, 403);
  EXPECT_EQ(foreign.headers.count("access-control-allow-origin"), 0U);
  const HttpResponse known = Post(server.port(), kTextPath, kShort, {"Origin: https://a.example"});
  EXPECT_EQ(known.status, 200);
  EXPECT_EQ(known.headers.at("access-control-allow-origin"), "https://a.example");
  EXPECT_EQ(known.headers.at("vary"), "Origin");
  const auto preflight = [&](const std::string& origin) {
    return Ask(server.port(),
               "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: " + origin +
                   "\r\nAccess-Control-Request-Method: POST\r\n"
                   "Access-Control-Request-Headers: content-type\r\n\r\n");
  };
  EXPECT_EQ(preflight("https://a.example").status, 204);
  EXPECT_EQ(preflight("https://a.example").headers.at("access-control-allow-headers"),
            "content-type");
  EXPECT_EQ(preflight("https://evil.example").headers.count("access-control-allow-headers"), 0U);
}

TEST(Api, AKeyIsNeededForAllButThePageAndHealth) {
  RunningOptions options;
  options.server.api_keys = {"sk-1"};
  const RunningServer server(options);
  for (const char* path : {"/v1/models", "/metrics", "/status"}) {
    const HttpResponse refused = Get(server.port(), path);
    EXPECT_EQ(refused.status, 401) << path;
    EXPECT_EQ(refused.headers.at("www-authenticate"), "Bearer");
    EXPECT_EQ(Get(server.port(), path, {"Authorization: Bearer sk-1"}).status, 200) << path;
  }
  // Nobody's body is read before the key is known.
  HttpClient client(server.port());
  client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 1000\r\n\r\n");
  EXPECT_EQ(client.Read().status, 401);
  EXPECT_EQ(Get(server.port(), "/health").status, 200);
  EXPECT_EQ(Get(server.port(), "/").status, 200);
}

TEST(Api, LongPromptsAreRefusedWithTheCodeThatClientsKnow) {
  RunningOptions options;
  options.context = 100;
  options.server.most_prompt_tokens = 50;
  const RunningServer server(options);
  std::string words;
  for (int i = 0; i < 60; ++i) words += " the";
  const HttpResponse response = Post(server.port(), kTextPath, Json{{"prompt", words}}.dump());
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(CodeOf(response), "context_length_exceeded");
  EXPECT_EQ(Post(server.port(), kTextPath, R"({"prompt": [1, 99999999]})").status, 400);
}

TEST(Api, LargeNumbersOfTokensAreNoTrouble) {
  RunningOptions options;
  options.context = 64;
  const RunningServer server(options);
  for (const char* most : {"2147483647", "2147483648", "4294967296", "9223372036854775807"}) {
    const HttpResponse response =
        Post(server.port(), kTextPath,
             std::string(R"({"prompt": "It", "ignore_eos": true, "max_tokens": )") + most + "}");
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(Json::parse(response.body)["choices"][0]["finish_reason"], "length");
  }
}

}  // namespace
}  // namespace kimi_k3

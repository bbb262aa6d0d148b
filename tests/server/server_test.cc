// The server as its clients see it: answers, many at once, impatient, slow and vanishing clients.
#include "server/server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "base/file.h"
#include "server/http_client.h"
#include "server/running_server.h"

namespace kimi_k3 {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

constexpr const char* kChatPath = "/v1/chat/completions";
constexpr const char* kTextPath = "/v1/completions";
// Goes on for as long as the context has room.
constexpr const char* kLong = R"({"prompt": "And", "ignore_eos": true, "stream": true})";

Json ChatBody(size_t i) {
  const char* questions[] = {"What is Genesis 1:1?", "Who is Elizabeth?", "hello", "And it was so"};
  return {{"messages", {{{"role", "user"}, {"content", questions[i % 4]}}}},
          {"temperature", 0.9},
          {"top_p", 0.9},
          {"seed", i},
          {"max_tokens", 20 + i}};
}

Json Answered(const HttpResponse& response) {
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_TRUE(response.whole);
  return Json::parse(response.body, nullptr, false);
}

// The message of an answer, without the ids that are never the same.
Json MessageOf(const HttpResponse& response) { return Answered(response)["choices"][0]["message"]; }

RunningOptions WithSequences(size_t sequences, size_t context = 512) {
  RunningOptions options;
  options.sequences = sequences;
  options.context = context;
  return options;
}

TEST(Server, EightRequestsAtOnceGiveTheTextOfEachAlone) {
  RunningServer alone(WithSequences(1));
  std::vector<Json> expected;
  for (size_t i = 0; i < 8; ++i) {
    expected.push_back(MessageOf(Post(alone.port(), kChatPath, ChatBody(i).dump())));
  }
  RunningServer server(WithSequences(8));
  std::vector<Json> messages(8);
  std::vector<std::thread> clients;
  for (size_t i = 0; i < 8; ++i) {
    clients.emplace_back(
        [&, i] { messages[i] = MessageOf(Post(server.port(), kChatPath, ChatBody(i).dump())); });
  }
  for (std::thread& client : clients) client.join();
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(messages[i], expected[i]) << i;
}

TEST(Server, AStreamJoinsToTheWholeAnswer) {
  RunningOptions options;
  options.server.sign_of_life = 1ms;
  RunningServer server(options);
  for (size_t i = 0; i < 4; ++i) {
    Json body = ChatBody(i);
    const Json whole = Answered(Post(server.port(), kChatPath, body.dump()));
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    const HttpResponse streamed = Post(server.port(), kChatPath, body.dump());
    EXPECT_EQ(streamed.headers.at("content-type"), "text/event-stream");
    std::string content;
    std::string reasoning;
    Json finish_reason;
    Json usage;
    const std::vector<std::string> events = EventsOf(streamed.body);
    ASSERT_EQ(events.back(), "[DONE]");
    for (size_t at = 0; at + 1 < events.size(); ++at) {
      const Json event = Json::parse(events[at]);
      EXPECT_EQ(event["id"], Json::parse(events[0])["id"]);
      if (!event["usage"].is_null()) usage = event["usage"];
      if (event["choices"].empty()) continue;
      const Json& choice = event["choices"][0];
      content += choice["delta"].value("content", "");
      reasoning += choice["delta"].value("reasoning_content", "");
      if (!choice["finish_reason"].is_null()) finish_reason = choice["finish_reason"];
    }
    const Json& choice = whole["choices"][0];
    EXPECT_EQ(content, choice["message"]["content"].get<std::string>());
    EXPECT_EQ(reasoning, choice["message"].value("reasoning_content", ""));
    EXPECT_EQ(finish_reason, choice["finish_reason"]);
    EXPECT_EQ(usage["total_tokens"], whole["usage"]["total_tokens"]);
    // Between the events there are comments, and nothing else.
    std::istringstream lines(streamed.body);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_TRUE(line.empty() || line.starts_with("data: ") || line.starts_with(": ")) << line;
    }
  }
}

TEST(Server, TheNextTurnOfAConversationCostsOnlyWhatIsNew) {
  RunningServer server(WithSequences(2));
  Json body = {{"messages", {{{"role", "user"}, {"content", "What is Genesis 1:1?"}}}},
               {"temperature", 0}};
  const Json first = Answered(Post(server.port(), kChatPath, body.dump()));
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  body["messages"].push_back(first["choices"][0]["message"]);
  body["messages"].push_back({{"role", "user"}, {"content", "And then?"}});
  body["max_tokens"] = 5;
  const Json second = Answered(Post(server.port(), kChatPath, body.dump()));
  const auto total = first["usage"]["total_tokens"].get<int>();
  EXPECT_GE(second["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>(), total);
  RunningServer fresh(WithSequences(1));
  EXPECT_EQ(Answered(Post(fresh.port(), kChatPath, body.dump()))["choices"], second["choices"]);
  // A client that drops the reasoning gets the same.
  body["messages"][1].erase("reasoning_content");
  const Json third = Answered(Post(server.port(), kChatPath, body.dump()));
  EXPECT_EQ(third["usage"]["prompt_tokens"], second["usage"]["prompt_tokens"]);
  EXPECT_EQ(third["choices"], second["choices"]);
}

TEST(Server, AConversationGoesOnAfterANewStartAlsoWithoutItsReasoning) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "server_states";
  std::filesystem::remove_all(folder);
  RunningOptions options = WithSequences(1);
  options.server.cache_dir = folder;
  Json body = {{"messages", {{{"role", "user"}, {"content", "What is Genesis 1:1?"}}}},
               {"temperature", 0}};
  Json first;
  {
    RunningServer server(options);
    first = Answered(Post(server.port(), kChatPath, body.dump()));
  }
  Json message = first["choices"][0]["message"];
  ASSERT_FALSE(message.value("reasoning_content", "").empty());
  message.erase("reasoning_content");
  body["messages"].push_back(message);
  body["messages"].push_back({{"role", "user"}, {"content", "And then?"}});
  RunningServer server(options);
  const Json second = Answered(Post(server.port(), kChatPath, body.dump()));
  const auto total = first["usage"]["total_tokens"].get<int>();
  EXPECT_GE(second["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>(), total);
  server.Stop(2);
  std::filesystem::remove_all(folder);
}

TEST(Server, AClientThatGoesAwayFreesItsRow) {
  RunningOptions options = WithSequences(1, 100000);
  options.server.sign_of_life = 100ms;
  RunningServer server(options);
  for (const bool stream : {true, false}) {
    HttpClient gone(server.port());
    Json body = Json::parse(kLong);
    body["stream"] = stream;
    gone.Send(PostText(kTextPath, body.dump()));
    ASSERT_TRUE(gone.Await(stream ? "data: " : "HTTP/1.1 200"));
    gone.Reset();
    const auto start = std::chrono::steady_clock::now();
    Answered(Post(server.port(), kTextPath, R"({"prompt": "It", "max_tokens": 2})"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
  }
}

TEST(Server, AClientThatOnlyStopsSendingGetsItsAnswer) {
  RunningServer server;
  for (const bool stream : {true, false}) {
    HttpClient client(server.port());
    const Json body = {
        {"prompt", "And"}, {"ignore_eos", true}, {"max_tokens", 150}, {"stream", stream}};
    client.Send(PostText(kTextPath, body.dump()));
    client.ShutDownSending();
    const HttpResponse response = client.Read();
    EXPECT_EQ(response.status, 200);
    EXPECT_TRUE(response.whole);
    if (stream) continue;
    EXPECT_EQ(Answered(response)["usage"]["completion_tokens"], 150);
  }
}

TEST(Server, ThoseWhoWaitAreToldTheirPlaceAndAreAnsweredInTheirTurn) {
  RunningOptions options = WithSequences(1, 100000);
  options.server.sign_of_life = 50ms;
  options.server.most_waiting = 2;
  RunningServer server(options);
  HttpClient first(server.port());
  first.Send(PostText(kTextPath, kLong));
  ASSERT_TRUE(first.Await("data: "));
  const std::string short_one = R"({"prompt": "It", "max_tokens": 3, "stream": true})";
  HttpClient second(server.port());
  second.Send(PostText(kTextPath, short_one));
  ASSERT_TRUE(second.Await(": waiting, next in line\n\n"));
  HttpClient third(server.port());
  third.Send(PostText(kTextPath, short_one));
  ASSERT_TRUE(third.Await(": waiting, 1 request before this one\n\n"));
  const HttpResponse refused = Post(server.port(), kTextPath, short_one);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.count("retry-after"), 1U);
  EXPECT_EQ(Json::parse(refused.body)["error"]["code"], "queue_full");
  first.Reset();
  for (HttpClient* client : {&second, &third}) {
    const HttpResponse response = client->Read();
    EXPECT_TRUE(response.whole);
    EXPECT_EQ(EventsOf(response.body).back(), "[DONE]");
  }
}

TEST(Server, WhiteSpaceKeepsTheClientOfAWholeAnswer) {
  RunningOptions options;
  options.server.sign_of_life = 1ms;
  RunningServer server(options);
  const HttpResponse response =
      Post(server.port(), kTextPath, R"({"prompt": "And", "ignore_eos": true, "max_tokens": 100})");
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
  EXPECT_TRUE(response.body.starts_with(" {") || response.body.starts_with("  "));
  EXPECT_EQ(Answered(response)["usage"]["completion_tokens"], 100);
}

TEST(Server, SlowAndSilentClientsAreSentAway) {
  RunningOptions options;
  options.server.head_time = 1s;
  options.server.body_time = 1s;
  options.server.idle_time = 1s;
  RunningServer server(options);
  HttpClient head(server.port());
  head.Send("GET /health HTTP/1.1\r\nHo");
  HttpClient body(server.port());
  body.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 100\r\n\r\n{");
  HttpClient idle(server.port());
  EXPECT_EQ(head.Read(20s).status, 408);
  EXPECT_EQ(body.Read(20s).status, 408);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(idle.Read(20s).status, 0);  // closed without a word
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  EXPECT_EQ(Get(server.port(), "/health").status, 200);
}

TEST(Server, TooManyConnectionsAreRefusedInWords) {
  RunningOptions options;
  options.server.most_connections = 2;
  RunningServer server(options);
  HttpClient first(server.port());
  HttpClient second(server.port());
  first.Send(GetText("/health"));
  second.Send(GetText("/health"));
  EXPECT_EQ(first.Read().status, 200);
  EXPECT_EQ(second.Read().status, 200);
  const HttpResponse third = Get(server.port(), "/health");
  EXPECT_EQ(third.status, 503);
  EXPECT_EQ(third.headers.count("retry-after"), 1U);
  first.Send(GetText("/health"));
  EXPECT_EQ(first.Read().status, 200);  // those that are there stay
}

TEST(Server, OneConnectionServesManyRequestsAlsoUnasked) {
  RunningServer server;
  HttpClient client(server.port());
  client.Send(GetText("/health") + GetText("/v1/models") + GetText("/nothing") +
              PostText(kTextPath, R"({"prompt": "a", "max_tokens": 1})") + GetText("/health"));
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(Json::parse(client.Read().body)["data"][0]["id"], "tiny");
  EXPECT_EQ(client.Read().status, 404);
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(client.Read().status, 200);
}

TEST(Server, WhatIsRefusedUnreadEndsTheConnection) {
  RunningOptions options;
  options.server.most_body_bytes = 1000;
  std::mutex mutex;
  std::string log;
  options.log.note = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    log += line + "\n";
  };
  RunningServer server(options);
  HttpClient client(server.port());
  // All of it is taken: a client may send its whole body before it reads a word.
  EXPECT_TRUE(client.Send(PostText(kTextPath, std::string(30'000'000, ' '))));
  const HttpResponse response = client.Read();
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_EQ(Json::parse(response.body)["error"]["code"], "request_too_large");
  HttpClient other(server.port());
  other.Send("GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n");
  EXPECT_EQ(other.Read().status, 431);
  server.Stop(2);
  EXPECT_THAT(log, testing::HasSubstr("refused unread: 413 "));
  EXPECT_THAT(log, testing::HasSubstr("refused unread: 431 "));
}

TEST(Server, ClientsOfTheOldVersionAreAnsweredUntilTheConnectionEnds) {
  RunningOptions options;
  options.server.sign_of_life = 1ms;
  RunningServer server(options);
  const auto ask = [&](Json body) {
    const std::string text = body.dump();
    HttpClient client(server.port());
    client.Send(
        "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\n"
        "Content-Length: " +
        std::to_string(text.size()) + "\r\n\r\n" + text);
    return client.Read();
  };
  const Json body = {{"prompt", "And"}, {"ignore_eos", true}, {"max_tokens", 50}};
  const HttpResponse whole = ask(body);
  EXPECT_EQ(Answered(whole)["usage"]["completion_tokens"], 50);
  EXPECT_EQ(whole.headers.at("connection"), "close");
  EXPECT_EQ(whole.headers.count("transfer-encoding"), 0U);
  Json streamed_body = body;
  streamed_body["stream"] = true;
  const HttpResponse streamed = ask(streamed_body);
  EXPECT_TRUE(streamed.whole);
  EXPECT_EQ(streamed.headers.count("transfer-encoding"), 0U);
  EXPECT_EQ(EventsOf(streamed.body).back(), "[DONE]");
  HttpClient refused(server.port());
  refused.Send("GET /health HTTP/1.0\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(refused.Read().status, 403);
}

TEST(Server, TheLogTellsOfATextWhenItBeginsWhileItTakesLongAndWhenItEnds) {
  std::mutex mutex;
  std::vector<std::string> lines;
  RunningOptions options;
  options.server.progress_time = 1ms;
  options.server.sign_of_life = 1ms;
  options.log.note = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(line);
  };
  RunningServer server(options);
  Answered(Post(server.port(), kTextPath,
                R"({"prompt": "And", "ignore_eos": true, "max_tokens": 100})"));
  Answered(Post(server.port(), kChatPath, ChatBody(0).dump()));
  server.Stop(2);
  ASSERT_GE(lines.size(), 4U);
  EXPECT_EQ(lines[0], "request 1: text, 1 prompt token, 0 of them cached");
  EXPECT_TRUE(lines[1].starts_with("request 1: ")) << lines[1];
  const auto ended = std::ranges::find_if(lines, [](const std::string& line) {
    return line.starts_with("request 1: POST /v1/completions 200 ");
  });
  ASSERT_NE(ended, lines.end());
  EXPECT_TRUE((ended + 1)->starts_with("request 2: chat, ")) << *(ended + 1);
  EXPECT_TRUE(lines.back().starts_with("request 2: POST /v1/chat/completions 200 "));
}

TEST(Server, AModelWithoutATokenizerIsRefusedWithAdvice) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "server_mute";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(KIMI_K3_SOURCE_DIR "/models/tiny", folder);
  std::filesystem::remove(folder / "tiktoken.model");
  RunningOptions options;
  options.model_dir = folder;
  try {
    const RunningServer server(options);
    ADD_FAILURE() << "served";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("kimi_k3 pull"), std::string::npos) << message;
    EXPECT_EQ(message.find("--"), std::string::npos) << message;  // no flag that serve has not
  }
  std::filesystem::remove_all(folder);
}

TEST(Server, BodiesUpToWhatTheContextNeedsAreTaken) {
  RunningServer server;
  for (const size_t size : {8191, 8193, 65537, 1 << 20}) {
    std::string body = R"({"prompt": "a", "max_tokens": 1, "unknown": ")";
    body += std::string(size - body.size() - 2, 'x') + "\"}";
    EXPECT_EQ(Post(server.port(), kTextPath, body).status, 200) << size;
  }
  EXPECT_EQ(Post(server.port(), kTextPath, std::string(size_t{2} << 20, ' ')).status, 413);
}

// A folder with a copy of the model, of which a drive failure can be played.
TEST(Server, GoesOnWhenTheDriveComesBack) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "server_drive";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(KIMI_K3_SOURCE_DIR "/models/tiny", folder);
  RunningOptions options;
  options.model_dir = folder;
  options.io = "buffered";
  RunningServer server(options);
  const std::filesystem::path shard = folder / "model-00001-of-000003.safetensors";
  const std::string bytes = ReadWholeFile(shard, uint64_t{1} << 30);
  const auto time = std::filesystem::last_write_time(shard);
  std::filesystem::resize_file(shard, 100);
  const std::string request = R"({"prompt": "It is", "max_tokens": 2})";
  const HttpResponse failed = Post(server.port(), kTextPath, request);
  EXPECT_EQ(failed.status, 500);
  EXPECT_EQ(Json::parse(failed.body)["error"]["type"], "server_error");
  const HttpResponse stream =
      Post(server.port(), kTextPath, R"({"prompt": "It is", "max_tokens": 2, "stream": true})");
  ASSERT_EQ(EventsOf(stream.body).size(), 1U);
  EXPECT_TRUE(Json::parse(EventsOf(stream.body)[0]).contains("error"));
  EXPECT_EQ(Get(server.port(), "/health").status, 200);
  std::fstream(shard, std::ios::in | std::ios::out | std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  std::filesystem::last_write_time(shard, time);
  Answered(Post(server.port(), kTextPath, request));
  std::filesystem::remove_all(folder);
}

TEST(Server, StoppingLetsAnswersEndAndRefusesNewOnes) {
  RunningOptions options = WithSequences(1, 100000);
  options.server.stop_time = 60s;
  RunningServer server(options);
  HttpClient kept(server.port());
  kept.Send(GetText("/health"));
  EXPECT_EQ(kept.Read().status, 200);
  HttpClient client(server.port());
  client.Send(PostText(
      kTextPath, R"({"prompt": "And", "ignore_eos": true, "stream": true, "max_tokens": 300})"));
  ASSERT_TRUE(client.Await("data: "));
  server.AskToStop();
  EXPECT_EQ(kept.Read(20s).status, 0);  // idle connections end
  EXPECT_THROW(HttpClient{server.port()}, std::runtime_error);
  const HttpResponse response = client.Read();
  EXPECT_EQ(EventsOf(response.body).back(), "[DONE]");
  server.Stop(1);
}

TEST(Server, StoppingAtOnceEndsAnswersWithAnError) {
  RunningServer server(WithSequences(1, 100000));
  HttpClient stream(server.port());
  stream.Send(PostText(kTextPath, kLong));
  ASSERT_TRUE(stream.Await("data: "));
  HttpClient whole(server.port());
  whole.Send(PostText(kTextPath, R"({"prompt": "And", "ignore_eos": true})"));
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(100ms);
  server.Stop(2);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  const HttpResponse response = stream.Read();
  ASSERT_FALSE(EventsOf(response.body).empty());
  EXPECT_EQ(Json::parse(EventsOf(response.body).back())["error"]["code"], "shutting_down");
  EXPECT_EQ(whole.Read().status, 503);
}

}  // namespace
}  // namespace kimi_k3

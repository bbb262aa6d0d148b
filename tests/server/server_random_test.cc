// Random requests, well-formed and not: the server answers them all and nothing leaks.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "base/process_meter.h"
#include "server/http_client.h"
#include "server/running_server.h"

namespace kimi_k3 {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

constexpr const char* kSecondsVariable = "KIMI_K3_RANDOM_REQUEST_SECONDS";
constexpr int kDefaultSeconds = 15;
constexpr size_t kClients = 4;

// One client that does what comes to its mind. Every random choice is the seed's.
class RandomClient {
 public:
  RandomClient(uint16_t port, unsigned seed) : port_(port), random_(seed) {}

  void Run(std::chrono::steady_clock::time_point end) {
    while (std::chrono::steady_clock::now() < end) {
      ++requests_;
      try {
        One();
      } catch (const std::runtime_error&) {
        ++unreached_;
      }
    }
  }
  size_t requests() const { return requests_; }
  size_t answered() const { return answered_; }
  size_t unreached() const { return unreached_; }

 private:
  size_t Below(size_t n) { return random_() % n; }
  bool Maybe(size_t one_in) { return Below(one_in) == 0; }

  Json RandomValue(int depth = 0) {
    switch (Below(depth > 3 ? 6 : 8)) {
      case 0:
        return nullptr;
      case 1:
        return Maybe(2);
      case 2:
        return static_cast<int64_t>(random_()) - 2'000'000'000;
      case 3:
        return std::ldexp(static_cast<double>(random_()), static_cast<int>(Below(600)) - 300);
      case 4:
        return std::string(Below(30), static_cast<char>(Below(128)));
      case 5:
        return "\xf0\x9f\x98\x80 <|open|>";
      case 6:
        return Json::array({RandomValue(depth + 1), RandomValue(depth + 1)});
      default:
        return {{"a", RandomValue(depth + 1)}};
    }
  }

  Json Body(bool chat) {
    Json body;
    if (chat) {
      body["messages"] = {{{"role", "user"}, {"content", Maybe(3) ? "hello" : "What is it?"}}};
    } else {
      body["prompt"] = Maybe(2) ? "And it" : "The";
      body["ignore_eos"] = Maybe(2);
    }
    body["max_tokens"] = Below(12) + 1;
    body["stream"] = Maybe(2);
    if (Maybe(3)) body["logprobs"] = chat ? Json(true) : Json(2);
    if (Maybe(3)) body["seed"] = random_();
    if (Maybe(3)) body["stop"] = {"the", "a"};
    if (chat && Maybe(3)) {
      body["tools"] = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
    }
    const char* names[] = {"messages", "prompt",     "temperature", "top_p", "stop",  "max_tokens",
                           "tools",    "logit_bias", "stream",      "n",     "seed",  "model",
                           "logprobs", "thinking",   "tool_choice", "user",  "top_k", "unknown"};
    if (Maybe(2)) body[names[Below(std::size(names))]] = RandomValue();
    return body;
  }

  std::string Text() {
    const bool chat = Maybe(2);
    std::string body = Body(chat).dump(-1, ' ', false, Json::error_handler_t::replace);
    if (Maybe(5)) {
      for (size_t i = Below(5) + 1; i > 0; --i)
        body[Below(body.size())] = static_cast<char>(random_());
    }
    if (Maybe(20)) body = std::string(Below(3000), '[');
    std::string text = Maybe(8) ? GetText(Maybe(2) ? "/metrics" : "/v1/models")
                                : PostText(chat ? "/v1/chat/completions" : "/v1/completions", body);
    if (Maybe(6)) {
      for (size_t i = Below(4) + 1; i > 0; --i)
        text[Below(text.size())] = static_cast<char>(random_());
    }
    return text;
  }

  void One() {
    HttpClient client(port_);
    const std::string text = Text();
    if (Maybe(8)) {  // a part, and gone
      client.Send(std::string_view(text).substr(0, Below(text.size())));
      if (Maybe(2)) client.Reset();
      return;
    }
    client.Send(text);
    if (Maybe(6)) {
      if (Maybe(2)) client.Await("data: ", 50ms);
      if (Maybe(2)) client.Reset();
      return;
    }
    // What was changed may say that more is to come.
    const HttpResponse response = client.Read(3s);
    if (response.status == 0) return;
    ++answered_;
    EXPECT_TRUE(response.status == 200 || (response.status >= 400 && response.status < 506))
        << response.status;
    EXPECT_NE(response.status, 500) << text << response.body;
  }

  uint16_t port_;
  std::mt19937 random_;
  size_t requests_ = 0;
  size_t answered_ = 0;
  size_t unreached_ = 0;
};

size_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST(Server, RandomRequestsAreAnsweredAndNothingLeaks) {
  const char* asked = std::getenv(kSecondsVariable);
  const std::chrono::seconds time(asked == nullptr ? kDefaultSeconds : std::atoi(asked));
  RunningOptions options;
  options.sequences = 3;
  options.context = 200;
  options.server.most_waiting = 8;
  options.server.head_time = 1s;
  options.server.body_time = 1s;
  RunningServer server(options);
  const auto run = [&](std::chrono::milliseconds part, unsigned seed) {
    std::vector<RandomClient> clients;
    for (size_t i = 0; i < kClients; ++i) {
      clients.emplace_back(server.port(), seed + static_cast<unsigned>(i));
    }
    std::vector<std::thread> threads;
    const auto end = std::chrono::steady_clock::now() + part;
    for (RandomClient& client : clients) threads.emplace_back([&, end] { client.Run(end); });
    for (std::thread& thread : threads) thread.join();
    size_t answered = 0;
    for (const RandomClient& client : clients) {
      answered += client.answered();
      EXPECT_EQ(client.unreached(), 0U);
    }
    return answered;
  };
  // The connections that a round has left end soon after it.
  const auto settled_files = [&](size_t most) {
    for (int tries = 0; tries < 100 && OpenFiles() > most; ++tries)
      std::this_thread::sleep_for(100ms);
    return OpenFiles();
  };
  const size_t files_at_start = OpenFiles();
  EXPECT_GT(run(time / 3, 100), 0U);  // memory is what it needs after this
  EXPECT_LE(settled_files(files_at_start), files_at_start);
  const uint64_t resident = ReadProcessMeters().resident_bytes;
  EXPECT_GT(run(time * 2 / 3, 200), 0U);
  EXPECT_LE(settled_files(files_at_start), files_at_start);
  // Sanitizers keep what is freed for a while, to find its use; what leaks they find themselves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(ReadProcessMeters().resident_bytes, resident + (uint64_t{24} << 20));
#else
  static_cast<void>(resident);
#endif
  // And it works as before.
  EXPECT_EQ(Post(server.port(), "/v1/completions", R"({"prompt": "It", "max_tokens": 2})").status,
            200);
}

}  // namespace
}  // namespace kimi_k3

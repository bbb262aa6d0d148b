// What a server is told at its start: where it listens, whom it answers, and its limits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kimi_k3 {

// Where the server's lines go, from any thread; what is null is told nothing.
struct ServerLog {
  std::function<void(const std::string&)> note = {};     // about requests
  std::function<void(const std::string&)> problem = {};  // what the operator should know of
};

struct ServerOptions {
  std::string host = "127.0.0.1";   // address or name to listen on
  uint16_t port = 8080;             // 0: any that is free
  std::string model_name;           // as clients call the model
  std::string approximations = {};  // Engine::approximations, which every answer names

  std::vector<std::string> api_keys;       // any of them is asked for; none: everybody is answered
  std::vector<std::string> allowed_hosts;  // names in Host besides loopback and `host`; "*": any
  std::vector<std::string> cors_origins;   // web pages of other origins; "*": of any

  // States of conversations that must leave memory, and turns; empty: they are forgotten.
  std::filesystem::path cache_dir;
  uint64_t most_cache_bytes = uint64_t{16} << 30;

  size_t most_connections = 128;
  size_t most_waiting = 64;       // requests beside those that run
  size_t most_prompt_tokens = 0;  // 0: as many as the context has positions
  size_t most_answer_tokens = 0;  // of a request that asks for none or more; 0: the context's rest
  uint64_t most_head_bytes = 32768;
  uint64_t most_body_bytes = 0;         // 0: what a prompt of the context's length can need
  std::chrono::seconds head_time{10};   // in which the head of a request must have come
  std::chrono::seconds body_time{60};   // and its body
  std::chrono::seconds idle_time{60};   // in which a kept connection must be used again
  std::chrono::seconds write_time{30};  // in which a client must take something of its answer
  std::chrono::seconds stop_time{10};   // that running answers get when the server is told to stop
  std::chrono::milliseconds sign_of_life{5000};     // between signs of life on a silent answer
  std::chrono::milliseconds progress_time{120000};  // between lines of progress in the log

  float temperature = 1.0F;  // where a request has none
  float top_p = 0.95F;
  std::optional<uint64_t> seed = {};  // unset: another one each time
};

}  // namespace kimi_k3

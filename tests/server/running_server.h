// A server of the tiny model on a free port, in a thread of the test.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "kimi_k3/engine.h"
#include "server/server.h"

namespace kimi_k3 {

struct RunningOptions {
  size_t sequences = 4;
  size_t context = 512;
  std::filesystem::path model_dir = KIMI_K3_SOURCE_DIR "/models/tiny";
  std::string io = "auto";
  ServerOptions server = {};
  ServerLog log = {};
};

class RunningServer {
 public:
  explicit RunningServer(RunningOptions options = {})
      : engine_(Engine::Open(EngineOptionsOf(options))),
        server_(engine_, options.sequences, ServerOptionsOf(options), options.log),
        thread_([this] { server_.Run([this] { return wishes_.load(); }); }) {}
  ~RunningServer() { Stop(2); }

  uint16_t port() const { return server_.port(); }
  // Asks it `wishes` times to stop, and waits until it has.
  void Stop(int wishes) {
    wishes_ = wishes;
    if (thread_.joinable()) thread_.join();
  }
  void AskToStop() { wishes_ = 1; }

 private:
  static EngineOptions EngineOptionsOf(const RunningOptions& options) {
    EngineOptions engine;
    engine.model_dir = options.model_dir;
    engine.context = options.context;
    engine.sequences = options.sequences;
    engine.threads = 1;
    engine.memory_bytes = uint64_t{1} << 29;
    engine.io = options.io;
    engine.sessions = !options.server.cache_dir.empty();
    return engine;
  }
  static ServerOptions ServerOptionsOf(const RunningOptions& options) {
    ServerOptions server = options.server;
    server.port = 0;
    if (server.model_name.empty()) server.model_name = "tiny";
    return server;
  }

  Engine engine_;
  Server server_;
  std::atomic<int> wishes_{0};
  std::thread thread_;
};

}  // namespace kimi_k3

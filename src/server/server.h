// The HTTP server: listens, reads requests, and answers each connection on a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kimi_k3/engine.h"
#include "server/server_options.h"

namespace kimi_k3 {

// What a server of these options takes besides its engine: EngineOptions::reserved_bytes.
uint64_t ServerMemoryBytes(const ServerOptions& options, size_t context);

// Serves one engine over HTTP with the OpenAI API (docs/server.md).
class Server {
 public:
  // Listens at once; requests are answered while Run runs. The engine, which must have a tokenizer
  // and room for `sequences` texts, must outlive the server, and nothing else may call it. Throws
  // Error: kIo where the address cannot be listened on, kUsage where the host is unknown,
  // kCheckpoint where the model has no tokenizer.
  Server(Engine& engine, size_t sequences, ServerOptions options, ServerLog log);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // "http://127.0.0.1:8080"
  std::string url() const;
  uint16_t port() const;

  // Answers requests until wishes() is above 0. Then new ones are refused, and those that are being
  // answered get ServerOptions::stop_time, or until wishes() is above 1; what is left ends with an
  // error. wishes() is called several times a second.
  void Run(const std::function<int()>& wishes);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kimi_k3

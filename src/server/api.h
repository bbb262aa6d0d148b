// The server's end points: from a request that has been read to its response.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "kimi_k3/constraint.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/scheduler.h"
#include "server/api_json.h"
#include "server/byte_budget.h"
#include "server/completion_request.h"
#include "server/metrics.h"
#include "server/prepared_answer.h"
#include "server/request_log.h"
#include "server/request_reader.h"
#include "server/response_writer.h"
#include "server/server_options.h"
#include "server/turn_memory.h"

namespace kimi_k3::server {

// The text of a request, and the memory that it may take.
struct RequestBody {
  std::string text;
  ByteBudget::Share share;
};

// Answers requests; called from the thread of each connection. What it is made of must outlive it.
class Api {
 public:
  Api(const Tokenizer& tokenizer, size_t context, Scheduler& scheduler, Metrics& metrics,
      const ServerOptions& options, const ServerLog& log);

  // Whether the request may be answered at all, before its body is read: path, method, host,
  // origin, key, type of the body. Throws ApiError.
  void CheckHead(const RequestHead& head) const;

  // Headers that each response of this server carries, also errors.
  void AddCommonHeaders(const RequestHead& head, ResponseWriter& response) const;

  // Writes the response. Throws ApiError where nothing has been written yet.
  // The body's memory is given back before the answer is generated.
  void Respond(const RequestHead& head, RequestBody body, ResponseWriter& response);

  // The methods of a path, for the header Allow; empty where there is nothing at the path.
  static std::string MethodsOf(const std::string& path);

  // New texts are refused from now on.
  void StopTaking() { stopping_ = true; }
  // Texts that are being answered.
  size_t answering() const { return answering_; }

  // The path as metrics name it: one of the few that are known, or "other".
  static std::string MetricPath(const std::string& path);

 private:
  PreparedAnswer PrepareChat(const std::string& body);
  PreparedAnswer PrepareText(const std::string& body);
  // Of an answer that begins now.
  AnswerOrigin OriginOf(const char* id_prefix) const;
  void Generate(PreparedAnswer prepared, const char* kind, ResponseWriter& response);
  void Preflight(const RequestHead& head, ResponseWriter& response) const;
  void Page(ResponseWriter& response) const;

  const Tokenizer& tokenizer_;
  const size_t context_;
  Scheduler& scheduler_;
  Metrics& metrics_;
  const ServerOptions& options_;
  const int64_t created_;
  RequestLog log_;
  TurnMemory turns_;
  const ConstraintMaker constraints_;
  std::mutex parsing_;  // one body at a time becomes objects, which are many times its size
  std::atomic<bool> stopping_{false};
  std::atomic<size_t> answering_{0};
};

}  // namespace kimi_k3::server

// The HTTP server: listens, reads requests, and answers each connection on a thread of its own.
#include "server/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "kimi_k3/drafter.h"
#include "kimi_k3/scheduler.h"
#include "server/api.h"
#include "server/connection.h"
#include "server/listener.h"
#include "server/metrics.h"
#include "server/turn_store.h"

namespace kimi_k3 {
namespace {

using namespace std::chrono_literals;
using server::Api;
using server::ApiError;
using server::Clock;
using server::Connection;
using server::RequestHead;
using server::RequestLimits;
using server::RequestReader;
using server::ResponseWriter;

constexpr std::chrono::milliseconds kTick{50};
// After which connections that have had their last word are cut off.
constexpr std::chrono::milliseconds kLastWords{700};
// A token in JSON: its text, escapes, and what is around it.
constexpr uint64_t kBodyBytesPerToken = 64;
// Of the largest size, in memory.
constexpr uint64_t kBodiesAtOnce = 2;
// Threads, buffers, and one body as objects.
constexpr uint64_t kOtherBytes = uint64_t{16} << 20;

uint64_t BodyLimit(const ServerOptions& options, size_t context) {
  constexpr uint64_t kMost = uint64_t{1} << 40;  // beyond which sums might not fit
  if (options.most_body_bytes != 0) return std::min(options.most_body_bytes, kMost);
  return (uint64_t{1} << 20) +
         std::min<uint64_t>(context, kMost / kBodyBytesPerToken) * kBodyBytesPerToken;
}

void SendError(const ApiError& error, const std::string& path, ResponseWriter& response) {
  if (error.status() == 401) response.AddHeader("WWW-Authenticate", "Bearer");
  if (error.status() == 405) response.AddHeader("Allow", Api::MethodsOf(path));
  if (error.status() == 429) response.AddHeader("Retry-After", "5");
  if (error.status() == 503) response.AddHeader("Retry-After", "10");
  response.Send(error.status(), "application/json", server::ErrorJson(error));
}

// What guesses at the texts of an engine that has room for guesses.
std::function<std::unique_ptr<Drafter>()> DrafterMaker(const Engine& engine) {
  if (engine.tentative_rows() == 0) return {};
  return MakeNgramDrafter;
}

}  // namespace

class Server::Impl {
 public:
  Impl(Engine& engine, size_t sequences, ServerOptions options, ServerLog log)
      : options_(std::move(options)),
        limits_{.head_bytes = options_.most_head_bytes,
                .body_bytes = BodyLimit(options_, engine.context()),
                .idle_time = options_.idle_time,
                .head_time = options_.head_time,
                .body_time = options_.body_time},
        log_(std::move(log)),
        listener_(std::in_place, options_.host, options_.port),
        port_(listener_->port()),
        bodies_(limits_.body_bytes * kBodiesAtOnce),
        scheduler_(engine, {.sequences = sequences,
                            .most_waiting = options_.most_waiting,
                            .make_drafter = DrafterMaker(engine),
                            .cache_dir = options_.cache_dir,
                            .most_cache_bytes = options_.most_cache_bytes -
                                                server::TurnBytesOf(options_.most_cache_bytes),
                            .tell = log_.problem}),
        api_(engine.tokenizer(), engine.context(), scheduler_, metrics_, options_, log_) {}

  ~Impl() { CloseAll(); }

  std::string url() const {
    const bool bare = options_.host.find(':') != std::string::npos;
    return fmt::format("http://{}{}{}:{}", bare ? "[" : "", options_.host, bare ? "]" : "", port_);
  }
  uint16_t port() const { return port_; }

  void Run(const std::function<int()>& wishes) {
    while (wishes() == 0) {
      if (std::optional<UniqueFd> socket = listener_->Accept(kTick)) Welcome(std::move(*socket));
      Reap();
    }
    listener_.reset();
    api_.StopTaking();
    stopping_ = true;
    CloseIdle();
    const Clock::time_point deadline = Clock::now() + options_.stop_time;
    while (api_.answering() > 0 && wishes() < 2 && Clock::now() < deadline) {
      std::this_thread::sleep_for(kTick);
    }
    CloseAll();
  }

 private:
  struct Client {
    Client(UniqueFd socket, std::chrono::milliseconds write_time)
        : connection(std::move(socket), write_time) {}
    Connection connection;
    std::atomic<bool> done{false};
    std::thread thread;
  };

  void Welcome(UniqueFd socket) {
    if (clients_.size() >= options_.most_connections) {
      Connection connection(std::move(socket), 0ms);
      ResponseWriter response(connection, false, true);
      SendError(ApiError(503, "too_many_connections", "", "too many connections are open"), "",
                response);
      metrics_.CountRequest("other", 503);
      return;
    }
    Client& client = clients_.emplace_back(std::move(socket), options_.write_time);
    metrics_.ConnectionOpened();
    try {
      client.thread = std::thread([this, &client] {
        try {
          Serve(client.connection);
        } catch (const std::exception&) {  // no memory even for an error: the connection ends
        }
        client.connection.Close();
        client.done = true;
      });
    } catch (const std::system_error&) {  // no thread: the connection is closed
      metrics_.ConnectionClosed();
      clients_.pop_back();
    }
  }

  void Reap() {
    std::erase_if(clients_, [this](Client& client) {
      if (!client.done) return false;
      client.thread.join();
      metrics_.ConnectionClosed();
      return true;
    });
  }

  void CloseIdle() {
    for (Client& client : clients_) {
      if (client.connection.idle) client.connection.Close();
    }
  }

  // Ends every answer, lets the errors reach their clients, and ends the threads.
  void CloseAll() {
    stopping_ = true;
    scheduler_.Stop();
    const Clock::time_point deadline = Clock::now() + kLastWords;
    while (Clock::now() < deadline && !clients_.empty()) {
      CloseIdle();
      Reap();
      if (!clients_.empty()) std::this_thread::sleep_for(10ms);
    }
    for (Client& client : clients_) client.connection.Close();
    for (Client& client : clients_) client.thread.join();
    clients_.clear();
  }

  // The requests of one connection, one after another.
  void Serve(Connection& connection) {
    RequestReader reader(connection, limits_);
    while (!stopping_) {
      connection.idle = true;
      std::optional<RequestHead> head;
      try {
        head = reader.ReadHead();
      } catch (const ApiError& error) {
        ResponseWriter response(connection, false, true);
        SendError(error, "", response);
        metrics_.CountRequest("other", error.status());
        if (log_.note)
          log_.note(fmt::format("refused unread: {} {}", error.status(), error.what()));
        connection.Finish();
        return;
      }
      if (!head) return;
      connection.idle = false;
      if (!ServeRequest(*head, reader, connection)) {
        connection.Finish();
        return;
      }
    }
  }

  // Bodies wait for each other where together they would take too much memory.
  server::RequestBody MakeRoomForBody(const RequestHead& head) {
    const uint64_t bytes = head.chunked ? limits_.body_bytes : head.body_bytes;
    server::RequestBody body;
    body.share = bodies_.Take(bytes, Clock::now() + limits_.body_time);
    if (body.share) return body;
    throw ApiError(503, "busy", "", "too many large requests are being read; try again later");
  }

  // Whether another request may follow.
  bool ServeRequest(const RequestHead& head, RequestReader& reader, Connection& connection) {
    const Clock::time_point start = Clock::now();
    ResponseWriter response(connection, head.keep_alive, head.method != "HEAD");
    if (head.old_version) response.set_plain_stream();
    // What is refused unread cannot be followed by anything.
    const bool has_body = head.chunked || head.body_bytes > 0;
    bool body_read = !has_body;
    try {
      api_.AddCommonHeaders(head, response);
      api_.CheckHead(head);
      server::RequestBody body = MakeRoomForBody(head);
      if (head.expects_continue && has_body) connection.Write("HTTP/1.1 100 Continue\r\n\r\n");
      body.text = reader.ReadBody(head);
      body_read = true;
      api_.Respond(head, std::move(body), response);
    } catch (const ApiError& error) {
      if (!body_read) response.set_keep_alive(false);
      if (!response.begun()) SendError(error, head.path, response);
    } catch (const std::exception& error) {
      response.set_keep_alive(false);
      if (!response.begun()) {
        SendError(ApiError(500, "internal_error", "", error.what()), head.path, response);
      }
    }
    metrics_.CountRequest(Api::MetricPath(head.path), response.status());
    LogAnswered(head, response, start);
    return response.reusable() && body_read;
  }

  void LogAnswered(const RequestHead& head, const ResponseWriter& response,
                   Clock::time_point start) const {
    if (!log_.note) return;
    const std::string& name = response.log_name();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    log_.note(fmt::format("{}{}{} {} {} {:.3f} s", name, name.empty() ? "" : ": ",
                          head.method.substr(0, 20), head.path.substr(0, 100), response.status(),
                          seconds));
  }

  const ServerOptions options_;
  const RequestLimits limits_;
  const ServerLog log_;
  std::optional<server::Listener> listener_;
  const uint16_t port_;
  server::ByteBudget bodies_;
  server::Metrics metrics_;
  Scheduler scheduler_;
  Api api_;
  std::atomic<bool> stopping_{false};
  std::list<Client> clients_;
};

Server::Server(Engine& engine, size_t sequences, ServerOptions options, ServerLog log)
    : impl_(std::make_unique<Impl>(engine, sequences, std::move(options), std::move(log))) {}

Server::~Server() = default;

std::string Server::url() const { return impl_->url(); }

uint64_t ServerMemoryBytes(const ServerOptions& options, size_t context) {
  return BodyLimit(options, context) * (kBodiesAtOnce + 1) + kOtherBytes;
}

uint16_t Server::port() const { return impl_->port(); }

void Server::Run(const std::function<int()>& wishes) { impl_->Run(wishes); }

}  // namespace kimi_k3

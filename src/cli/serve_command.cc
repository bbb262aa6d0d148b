// The serve command: the model behind the OpenAI API, over HTTP.
#include "cli/serve_command.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/engine_flags.h"
#include "cli/flag_group.h"
#include "cli/interrupt.h"
#include "cli/model_name.h"
#include "cli/output.h"
#include "cli/shared_flags.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/sampling.h"
#include "server/server.h"
#include "server/server_options.h"

namespace kimi_k3 {
namespace {

constexpr const char* kKeyVariable = "KIMI_K3_API_KEY";
constexpr uint64_t kMostKeyFileBytes = 1 << 20;
constexpr size_t kDefaultSequences = 4;
constexpr uint64_t kMostConcurrent = 1024;
constexpr uint64_t kMostSeconds = 1'000'000;

struct ServeOptions {
  EngineOptions engine;
  ServerOptions server;
  std::optional<std::string> host, model_name, key, key_file, cache_dir;
  bool has_cache_size = false;
  size_t port = 8080;
  size_t sequences = 0;  // 0: kDefaultSequences, or fewer where the memory has no room for them
  bool quiet = false;
};

// Sizes of a few thousand bytes make sense here.
uint64_t ReadBytes(const std::string& flag, const std::string& text) {
  try {
    return ParseByteSize(text);
  } catch (const Error& error) {
    Fail(error.kind(), "{}: {}", flag, error.what());
  }
}

void AddSeconds(FlagGroup& group, const std::string& name, std::chrono::seconds& target,
                const std::string& help) {
  group
      .Value(name, "SECONDS", help,
             [name, &target](const std::string& text) {
               target = std::chrono::seconds(ParseCount(name, text, 1, kMostSeconds));
             })
      .Default(std::to_string(target.count()));
}

void AddAccessFlags(CLI::App& command, ServeOptions& options) {
  FlagGroup group(command, "Server");
  group.Text("--host", "ADDRESS", options.host, "Address to listen on; *: all of this machine");
  group.Count("--port", "N", options.port, "Port to listen on; 0: any that is free", 0, 65535);
  group.Text("--model-name", "NAME", options.model_name,
             "What clients call the model; without it the folder's name");
  group.Text("--api-key", "KEY", options.key,
             "Answer only requests with this key; better in a file or KIMI_K3_API_KEY");
  group.Text("--api-key-file", "FILE", options.key_file, "Keys to accept, one a line");
  group.Texts("--allow-host", "NAME", options.server.allowed_hosts,
              "A further name of this server (repeated); *: any name");
  group.Texts("--cors", "ORIGIN", options.server.cors_origins,
              "Let web pages of this origin use the server (repeated); *: of any");
  group.Switch("-q,--quiet", options.quiet, "No lines about requests");
}

void AddGenerationFlags(CLI::App& command, ServeOptions& options) {
  FlagGroup group(command, "Generation");
  ServerOptions& server = options.server;
  group.Count("--parallel", "N", options.sequences,
              "Requests computed together; without it 4, or as many as the memory has room for", 1,
              kMostConcurrent);
  group.Text("--cache-dir", "DIR", options.cache_dir,
             "Keep the states of conversations that must leave memory in this folder");
  group.Value("--cache-size", "SIZE", "Most bytes in that folder; without it 16GiB",
              [&server, &options](const std::string& text) {
                options.has_cache_size = true;
                server.most_cache_bytes = ReadSizeFlag("--cache-size", text);
                if (server.most_cache_bytes == 0) {
                  Fail(ErrorKind::kUsage, "--cache-size: a folder of 0 bytes keeps nothing");
                }
              });
  group.Number("--temp", "T", server.temperature, "Temperature of requests that name none");
  group.Number("--top-p", "P", server.top_p, "Top-p of requests that name none");
  AddDraftFlag(group, options.engine.tentative_rows);
  group.Count("--max-tokens", "N", server.most_answer_tokens,
              "Tokens of an answer at the most; 0: as many as the context has room for");
}

void AddLimitFlags(CLI::App& command, ServeOptions& options) {
  FlagGroup group(command, "Limits");
  ServerOptions& server = options.server;
  group.Count("--queue", "N", server.most_waiting, "Requests that may wait; others are refused");
  group.Count("--max-connections", "N", server.most_connections, "Connections open at once", 1,
              100000);
  group.Count("--max-prompt", "N", server.most_prompt_tokens,
              "Tokens of a prompt at the most; 0: as many as the context has positions");
  group.Value("--max-body", "SIZE",
              "Largest body of a request; without it what the context can need",
              [&server](const std::string& text) {
                server.most_body_bytes = ReadBytes("--max-body", text);
              });
  group.Value("--max-head", "SIZE", "Largest head of a request; without it 32KiB",
              [&server](const std::string& text) {
                server.most_head_bytes = ReadBytes("--max-head", text);
              });
  AddSeconds(group, "--head-timeout", server.head_time, "In which a request's head must come");
  AddSeconds(group, "--body-timeout", server.body_time, "In which its body must come");
  AddSeconds(group, "--idle-timeout", server.idle_time, "After which an unused connection ends");
  AddSeconds(group, "--write-timeout", server.write_time,
             "In which a client must take something of its answer");
  AddSeconds(group, "--stop-timeout", server.stop_time,
             "That running answers get when the server is told to stop");
}

// From the flag, the file and the environment.
std::vector<std::string> ReadKeys(const ServeOptions& options) {
  std::vector<std::string> keys;
  if (options.key) keys.push_back(*options.key);
  if (const char* variable = std::getenv(kKeyVariable)) keys.emplace_back(variable);
  for (const std::string& key : keys) {
    if (key.empty()) Fail(ErrorKind::kUsage, "--api-key ({}): the key is empty", kKeyVariable);
  }
  if (!options.key_file) return keys;
  std::string text = ReadWholeFile(*options.key_file, kMostKeyFileBytes) + "\n";
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    std::string key = text.substr(at, end - at);
    while (!key.empty() && (key.back() == '\r' || key.back() == ' ')) key.pop_back();
    if (!key.empty()) keys.push_back(std::move(key));
    at = end + 1;
  }
  if (keys.empty()) Fail(ErrorKind::kUsage, "--api-key-file: {} has no key", *options.key_file);
  return keys;
}

void CheckOptions(const ServeOptions& options) {
  if (options.engine.model_dir.empty()) {
    Fail(ErrorKind::kUsage, "which model? Give the checkpoint's folder with -m DIR");
  }
  if (options.has_cache_size && !options.cache_dir) {
    Fail(ErrorKind::kUsage, "--cache-size needs --cache-dir, the folder whose size it bounds");
  }
  SamplingOptions sampling;
  sampling.temperature = options.server.temperature;
  sampling.top_p = options.server.top_p;
  CheckSamplingOptions(sampling);
}

// With as many sequences as are asked for; else as many of the default as there is room for.
Engine OpenEngine(ServeOptions& options, Output& output) {
  const bool asked = options.sequences != 0;
  size_t sequences = asked ? options.sequences : kDefaultSequences;
  while (true) {
    options.engine.sequences = sequences;
    try {
      Engine engine = Engine::Open(options.engine);
      if (!asked && sequences < kDefaultSequences) {
        output.Note(fmt::format("the memory has room for {} request{} at once (--parallel)",
                                sequences, sequences == 1 ? "" : "s"));
      }
      options.sequences = sequences;
      return engine;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kBudget || asked || sequences == 1) throw;
    }
    sequences /= 2;
  }
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// How often the user has asked to stop.
class StopWishes {
 public:
  int Count() {
    if (InterruptGuard::Requested()) {
      ++count_;
      if (count_ == 1) guard_.Forget();  // the next one is a wish of its own
    }
    return count_;
  }

 private:
  InterruptGuard guard_{2};
  int count_ = 0;
};

void RunServe(ServeOptions& options) {
  CheckOptions(options);
  StopWishes wishes;
  Output output(options.quiet);
  options.server.api_keys = ReadKeys(options);
  options.server.host = options.host.value_or(options.server.host);
  options.server.port = static_cast<uint16_t>(options.port);
  if (options.cache_dir) {
    if (options.cache_dir->empty()) Fail(ErrorKind::kUsage, "--cache-dir: the name is empty");
    options.server.cache_dir = *options.cache_dir;
    options.engine.sessions = true;
  }
  options.server.model_name = options.model_name.value_or(ModelNameOf(options.engine.model_dir));
  constexpr size_t kDefaultContext = 2048;  // as EngineOptions has it
  options.engine.reserved_bytes = ServerMemoryBytes(
      options.server, options.engine.context == 0 ? kDefaultContext : options.engine.context);
  Engine engine = OpenEngine(options, output);
  output.Note(engine.Description());
  options.server.approximations = engine.approximations();
  for (const std::string& warning : engine.warnings()) output.Warning(warning);
  std::mutex writing;
  const auto log = [&](const std::string& line) {
    const std::lock_guard lock(writing);
    output.Note(line);
  };
  const auto problem = [&](const std::string& line) {
    const std::lock_guard lock(writing);
    output.Problem(line);
  };
  Server server(engine, options.sequences, options.server, {.note = log, .problem = problem});
  if (options.server.api_keys.empty() && !IsLoopback(options.server.host)) {
    log("anybody who reaches this address may use the server: give it an --api-key-file");
  }
  log(fmt::format("model \"{}\", {} request{} at once", options.server.model_name,
                  options.sequences, options.sequences == 1 ? "" : "s"));
  output.Text(fmt::format("listening on {}\n", server.url()));
  int told = 0;
  server.Run([&] {
    const int count = wishes.Count();
    if (count > 0 && std::exchange(told, 1) == 0) {
      log(fmt::format("stopping: running answers have {} s; ask again to end them now",
                      options.server.stop_time.count()));
    }
    return count;
  });
  log("stopped");
}

}  // namespace

void AddServeCommand(CLI::App& app, ExitCode& code) {
  CLI::App& command =
      AddCommand(app, "serve", "Answer requests over HTTP, as OpenAI's API has them");
  const auto options = std::make_shared<ServeOptions>();
  AddAccessFlags(command, *options);
  AddGenerationFlags(command, *options);
  AddLimitFlags(command, *options);
  AddEngineFlags(command, options->engine);
  OnCommand(command, [options, &code] {
    RunServe(*options);
    code = kExitDone;
  });
}

}  // namespace kimi_k3

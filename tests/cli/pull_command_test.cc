// The pull command, run as its users run it: killed at random, against a server that misbehaves.
#include "cli/pull_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "base/byte_size.h"
#include "cli/program.h"
#include "fetch/digest.h"
#include "fetch/faulty_server.h"
#include "fetch/tls_front.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

ProgramOptions With(const FaultyServer& server, std::vector<std::string> more = {}) {
  ProgramOptions options;
  options.environment = std::move(more);
  options.environment.push_back("HF_ENDPOINT=" + server.Endpoint());
  options.environment.emplace_back("HOME=/nonexistent");
  options.time_limit = std::chrono::seconds(600);
  return options;
}

bool SameContent(const FaultyServer& server, const std::string& name, const std::string& path) {
  constexpr uint64_t kStep = uint64_t{1} << 20;
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error || size != server.Size(name)) return false;
  const UniqueFd fd = OpenForReading(path);
  std::string piece;
  for (uint64_t at = 0; at < size; at += kStep) {
    piece.resize(std::min(kStep, size - at));
    ReadExactly(fd, path, at, std::as_writable_bytes(std::span(piece)));
    if (piece != server.Content(name, at, at + piece.size())) return false;
  }
  return true;
}

TEST(PullCommand, FetchesShowsAndRefuses) {
  const TemporaryFolder folder;
  FaultyServer server;
  server.AddFile("config.json", "{}", false);
  server.AddLargeFile("model.safetensors", 3000000, 5);
  const ProgramResult dry =
      RunProgram({"pull", "owner/model", "-o", folder / "m", "--dry-run"}, With(server));
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("3.00 MB  model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder / "m"));
  const ProgramResult done =
      RunProgram({"pull", "owner/model@main", "-o", folder / "m"}, With(server, {"HF_TOKEN=hush"}));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.out, "");
  EXPECT_THAT(done.err, HasSubstr("every file compared with its hash"));
  EXPECT_THAT(done.err, testing::Not(HasSubstr("hush")));
  EXPECT_TRUE(SameContent(server, "model.safetensors", folder / "m/model.safetensors"));
  EXPECT_EQ(RunProgram({"pull"}, With(server)).exit_code, 2);
  EXPECT_EQ(RunProgram({"pull", "a/b/c"}, With(server)).exit_code, 2);
  EXPECT_EQ(RunProgram({"pull", "owner/other", "-o", folder / "n"}, With(server)).exit_code, 1);
  EXPECT_EQ(RunProgram({"pull", "owner/model", "-o", folder / "n", "--retries", "0"},
                       With(server, {"HF_ENDPOINT=http://127.0.0.1:1"}))
                .exit_code,
            5);
}

// The trained model as a repository.
void ServeTinyModel(FaultyServer& server) {
  for (const auto& entry : std::filesystem::directory_iterator(TinyModel())) {
    const std::string name = entry.path().filename().string();
    server.AddFile(name, ReadFile(entry.path().string()), name.ends_with(".safetensors"));
  }
}

TEST(PullCommand, APartRunsAsItWouldFromTheWholeModelAndNothingElseRuns) {
  const TemporaryFolder folder;
  FaultyServer server;
  ServeTinyModel(server);
  const std::vector<std::string> pull = {"pull",       "owner/model", "-o",
                                         folder / "m", "--block",     "4KiB"};
  const auto with = [&](std::vector<std::string> command, const std::string& part) {
    if (!part.empty()) command.insert(command.end(), {"--shard", part});
    return command;
  };
  const auto run = [&](const std::string& model, const std::string& part) {
    return RunProgram(with({"-m", model, "--token-ids", "5,6,7", "--print-ids", "-n", "6",
                            "--ignore-eos", "-c", "64", "--memory", "60M"},
                           part));
  };
  const std::string part = "layers=2-5,experts=8-23";
  ASSERT_EQ(RunProgram(with(pull, part), With(server)).exit_code, 0);
  EXPECT_LT(server.bytes_sent(), server.TotalSize() * 2 / 3);
  const ProgramResult mine = run(folder / "m", part);
  EXPECT_EQ(mine.exit_code, 0) << mine.err;
  EXPECT_EQ(mine.out, run(TinyModel(), part).out);
  EXPECT_EQ(RunProgram({"verify", folder / "m"}).exit_code, 0);
  // Everything else needs what was never fetched, which would read as zeros.
  for (const char* more : {"", "layers=1-5,experts=8-23", "layers=2-6,experts=8-23",
                           "layers=2-5,experts=7-23", "layers=2-5", "experts=8-23"}) {
    const ProgramResult refused = run(folder / "m", more);
    EXPECT_EQ(refused.exit_code, 3) << more;
    EXPECT_EQ(refused.out, "") << more;
    EXPECT_THAT(refused.err, testing::AllOf(HasSubstr("never fetched"),
                                            HasSubstr("--shard layers=2-5,experts=8-23"),
                                            HasSubstr("kimi_k3 pull")));
  }
  for (const char* command : {"plan", "doctor", "bench"}) {
    EXPECT_EQ(RunProgram({command, "-m", folder / "m"}).exit_code, 3) << command;
  }
  const ProgramResult inspected = RunProgram({"inspect", folder / "m"});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_THAT(inspected.err, HasSubstr("never fetched"));
  // Another part beside it, then the rest.
  ASSERT_EQ(RunProgram(with(pull, "layers=6-8,experts=0-7"), With(server)).exit_code, 0);
  EXPECT_EQ(run(folder / "m", part).out, mine.out);
  EXPECT_EQ(run(folder / "m", "layers=6-8,experts=0-7").exit_code, 0);
  ASSERT_EQ(RunProgram(pull, With(server)).exit_code, 0);
  const ProgramResult whole = run(folder / "m", "");
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(whole.out, run(TinyModel(), "").out);
  EXPECT_LE(server.bytes_sent(), server.TotalSize());  // nothing came twice
}

TEST(PullCommand, SaysWhatOfAPartIsChecked) {
  const TemporaryFolder folder;
  FaultyServer server;
  ServeTinyModel(server);
  const ProgramResult pulled = RunProgram(
      {"pull", "owner/model", "-o", folder / "m", "--shard", "layers=0-1"}, With(server));
  EXPECT_EQ(pulled.exit_code, 0);
  EXPECT_THAT(pulled.err, testing::Not(HasSubstr("every file compared")));
  EXPECT_THAT(pulled.err, HasSubstr("cannot be compared with"));
}

TEST(PullCommand, OverHttpsTrustsWhomTheUserTrusts) {
  const TemporaryFolder folder;
  FaultyServer server;
  server.AddFile("config.json", "{}", false);
  server.AddLargeFile("model.safetensors", 3000000, 5);
  const TlsFront front(server.Endpoint());
  std::ofstream(folder / "ca.pem") << front.Pem();
  const std::vector<std::string> pull = {"pull", "owner/model", "-o", folder / "m"};
  const std::string endpoint = "HF_ENDPOINT=" + front.Endpoint();
  const ProgramResult refused = RunProgram(pull, With(server, {endpoint, "HF_TOKEN=hush"}));
  EXPECT_EQ(refused.exit_code, 1);  // and not tried again for minutes
  EXPECT_THAT(refused.err, HasSubstr("cannot prove who it is"));
  EXPECT_TRUE(server.requests().empty());
  const ProgramResult done = RunProgram(
      pull, With(server, {endpoint, "HF_TOKEN=hush", "SSL_CERT_FILE=" + (folder / "ca.pem")}));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_TRUE(SameContent(server, "model.safetensors", folder / "m/model.safetensors"));
}

TEST(PullCommand, WhereTheDiskTakesNoMoreItSaysSoAndGoesOnLater) {
  const TemporaryFolder folder;
  FaultyServer server;
  server.AddLargeFile("a.safetensors", 200000, 5);
  server.AddLargeFile("b.safetensors", 3000000, 6);
  const std::string pull = " pull owner/model --connections 1 -o " + (folder / "m");
  // No file may grow beyond a megabyte.
  const ProgramResult full =
      Program({"/bin/bash", "-c", "ulimit -f 1000; exec " KIMI_K3_PROGRAM + pull}, With(server))
          .Finish();
  EXPECT_EQ(full.exit_code, 5) << full.err;
  EXPECT_THAT(full.err, testing::AllOf(HasSubstr("b.safetensors"), HasSubstr("File too large")));
  const ProgramResult later =
      Program({"/bin/bash", "-c", "exec " KIMI_K3_PROGRAM + pull}, With(server)).Finish();
  EXPECT_EQ(later.exit_code, 0) << later.err;
  EXPECT_TRUE(SameContent(server, "a.safetensors", folder / "m/a.safetensors"));
  EXPECT_TRUE(SameContent(server, "b.safetensors", folder / "m/b.safetensors"));
}

TEST(PullCommand, CtrlCEndsItWhileTheServerDoesNotAnswer) {
  const TemporaryFolder folder;
  FaultyServer server;
  server.AddFile("config.json", "{}", false);
  server.Misbehave([](const ServedRequest&) {
    return Fault{.kind = Fault::Kind::kStatus, .status = 503, .retry_after = "300"};
  });
  Program program(ProgramCommand({"pull", "owner/model", "-o", folder / "m"}), With(server));
  program.AwaitError("trying again");
  program.Signal(SIGINT);
  EXPECT_EQ(program.Finish().exit_code, 130);
}

// Killed or interrupted thirty times at random places. KIMI_K3_PULL_BYTES makes it as large as one
// likes.
TEST(PullCommand, SurvivesThirtyInterruptions) {
  const char* asked = std::getenv("KIMI_K3_PULL_BYTES");
  const uint64_t bytes = asked != nullptr ? ParseByteSize(asked) : 60000000;
  const uint64_t pace = asked != nullptr ? 0 : 4000000;
  const TemporaryFolder folder;
  FaultyServer server;
  server.AddFile("config.json", "{}", false);
  server.AddLargeFile("model-00001-of-000002.safetensors", bytes * 2 / 3, 5);
  server.AddLargeFile("model-00002-of-000002.safetensors", bytes / 3, 6);
  std::mt19937_64 random(5);
  std::mutex mutex;
  size_t faults = 0;
  server.Misbehave([&](const ServedRequest& request) {
    const std::lock_guard lock(mutex);
    Fault fault;
    if (request.file.empty() || random() % 20 != 0) return fault;
    using Kind = Fault::Kind;
    const Kind kinds[] = {Kind::kDrop,  Kind::kStatus, Kind::kShort,      Kind::kLong,
                          Kind::kDelay, Kind::kStall,  Kind::kWrongRange, Kind::kGarbage};
    fault.kind = kinds[random() % std::size(kinds)];
    fault.bytes = random() % (fault.kind == Kind::kDelay ? 200 : 1000000);
    fault.status = random() % 2 == 0 ? 503 : 429;
    fault.retry_after = "0";
    ++faults;
    return fault;
  });
  server.SetPace(pace);
  constexpr size_t kConnections = 2;
  const std::vector<std::string> command = {
      "pull",       "owner/model",   "-o",
      folder / "m", "--connections", std::to_string(kConnections),
      "--block",    "64KiB",         "--stall",
      "1"};
  size_t interruptions = 0;
  for (int round = 0; round < 30; ++round) {
    const uint64_t target = server.bytes_sent() + random() % (bytes / 60);
    Program program(ProgramCommand(command), With(server));
    for (int ms = 0; ms < 60000 && server.bytes_sent() < target; ++ms) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    program.Signal(round % 3 == 0 ? SIGINT : SIGKILL);
    const int code = program.Finish().exit_code;
    if (code == 130 || code == 128 + SIGKILL) ++interruptions;
  }
  EXPECT_GE(interruptions, 25U);
  server.SetPace(0);
  const ProgramResult last = RunProgram(command, With(server));
  ASSERT_EQ(last.exit_code, 0) << last.err;
  for (const char* name :
       {"config.json", "model-00001-of-000002.safetensors", "model-00002-of-000002.safetensors"}) {
    EXPECT_TRUE(SameContent(server, name, folder / ("m/" + std::string(name)))) << name;
  }
  // A block a connection, and what a socket held when its reader died.
  const uint64_t lost = server.bytes_sent() - server.TotalSize();
  constexpr uint64_t kOnItsWay = 192 * 1024;
  EXPECT_LE(lost, (interruptions * kConnections + faults) * (64 * 1024 + kOnItsWay));
  std::printf("%s fetched twice of %s, %zu interruptions, %zu faults\n",
              FormatByteSize(lost).c_str(), FormatByteSize(server.TotalSize()).c_str(),
              interruptions, faults);
}

}  // namespace
}  // namespace kimi_k3

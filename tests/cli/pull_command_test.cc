// The pull command, run as its users run it: killed at random, against a server that misbehaves.
#include "cli/pull_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "base/byte_size.h"
#include "cli/program.h"
#include "fetch/digest.h"
#include "fetch/faulty_server.h"

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
    const Fault::Kind kinds[] = {Fault::Kind::kDrop, Fault::Kind::kStatus, Fault::Kind::kShort};
    fault.kind = kinds[random() % 3];
    fault.bytes = random() % 1000000;
    fault.retry_after = "0";
    ++faults;
    return fault;
  });
  server.SetPace(pace);
  constexpr size_t kConnections = 2;
  const std::vector<std::string> command = {
      "pull",    "owner/model", "-o", folder / "m", "--connections", std::to_string(kConnections),
      "--block", "64KiB"};
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

// Tests of downloads from a server that does everything wrong, one thing at a time.
#include "fetch/downloader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "fetch/faulty_server.h"
#include "fetch/fetch_test_support.h"
#include "fetch/pull.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uint64_t kBlock = 16 * 1024;

class Download : public testing::Test {
 protected:
  Download() {
    server_.AddFile("config.json", "{}", false);
    server_.AddFile("sub/readme.md", "text", false);
    server_.AddFile("empty", "", false);
    server_.AddLargeFile("a.safetensors", 1000000, 1);
    server_.AddLargeFile("b.safetensors", 500000, 2);
  }

  PullOptions Options() {
    PullOptions options;
    options.address = {server_.Endpoint(), "owner/model", "main", ""};
    options.download.folder = dir_ / "m";
    options.download.connections = 4;
    options.download.block_bytes = kBlock;
    options.download.most_blocks_a_request = 8;
    options.download.retries = 3;
    options.download.first_pause = std::chrono::milliseconds(5);
    options.download.http.stall_time = std::chrono::seconds(1);
    options.download.http.stop = &stop_;
    options.download.note = [this](const std::string& text) { notes_ += text + "\n"; };
    return options;
  }

  void ExpectAllThere(const char* folder = "m") {
    for (const char* name :
         {"config.json", "sub/readme.md", "empty", "a.safetensors", "b.safetensors"}) {
      EXPECT_EQ(GetFile(dir_ / folder / name), server_.Content(name, 0, server_.Size(name)))
          << name;
    }
    EXPECT_FALSE(fs::exists(dir_ / folder / ".kimi_k3/a.safetensors.partial"));
  }

  // The n-th request for a file (from 0 on) of those that `matches` gets the fault.
  void FaultAt(size_t first, size_t last, Fault fault, const std::string& file = "a.safetensors") {
    auto count = std::make_shared<std::atomic<size_t>>(0);
    server_.Misbehave([=](const ServedRequest& request) {
      if (request.file != file) return Fault{};
      const size_t n = (*count)++;
      return n >= first && n <= last ? fault : Fault{};
    });
  }

  ScratchDir dir_;
  FaultyServer server_;
  std::atomic<bool> stop_{false};
  std::string notes_;
};

TEST_F(Download, FetchesEverythingOnceAndRemembersIt) {
  const PullReport report = Pull(Options());
  ExpectAllThere();
  EXPECT_EQ(report.bytes_fetched, server_.TotalSize());
  EXPECT_EQ(server_.bytes_sent(), server_.TotalSize());
  const auto manifest = Manifest::Load(dir_ / "m");
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->repository, "owner/model");
  EXPECT_EQ(manifest->files.size(), 5U);
  EXPECT_EQ(Pull(Options()).bytes_fetched, 0U);
  EXPECT_EQ(server_.bytes_sent(), server_.TotalSize());
}

TEST_F(Download, OvercomesWhatAServerDoesNowAndThen) {
  using Kind = Fault::Kind;
  const std::vector<Fault> faults = {{.kind = Kind::kDrop, .bytes = 20000},
                                     {.kind = Kind::kStall, .bytes = 20000},
                                     {.kind = Kind::kDelay, .bytes = 300},
                                     {.kind = Kind::kShort, .bytes = 100},
                                     {.kind = Kind::kLong, .bytes = 100},
                                     {.kind = Kind::kStatus, .status = 503},
                                     {.kind = Kind::kStatus, .status = 429, .retry_after = "0"},
                                     {.kind = Kind::kStatus, .status = 500},
                                     {.kind = Kind::kWrongRange},
                                     {.kind = Kind::kGarbage},
                                     {.kind = Kind::kDrop, .bytes = 0}};
  for (const Fault& fault : faults) {
    fs::remove_all(dir_ / "m");
    FaultAt(1, 3, fault);
    Pull(Options());
    ExpectAllThere();
  }
}

TEST_F(Download, WaitsAsLongAsTheServerAsks) {
  FaultAt(0, 0, {.kind = Fault::Kind::kStatus, .status = 429, .retry_after = "1"}, "config.json");
  const auto start = std::chrono::steady_clock::now();
  Pull(Options());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  ExpectAllThere();
}

TEST_F(Download, ReadsFromTheBeginningWhereTheServerKnowsNoRanges) {
  FaultAt(0, 1000, {.kind = Fault::Kind::kNoRanges});
  Pull(Options());
  ExpectAllThere();
}

TEST_F(Download, FetchesOnceMoreWhatArrivedDamaged) {
  FaultAt(0, 0, {.kind = Fault::Kind::kCorrupt, .bytes = 10}, "b.safetensors");
  Pull(Options());
  ExpectAllThere();
  EXPECT_THAT(notes_, HasSubstr("b.safetensors"));
}

TEST_F(Download, GivesUpOnAServerThatAlwaysSendsSomethingElse) {
  server_.Misbehave([](const ServedRequest& request) {
    return request.file == "a.safetensors" ? Fault{.kind = Fault::Kind::kCorrupt, .bytes = 10}
                                           : Fault{};
  });
  const auto [kind, text] = ErrorOf([&] { Pull(Options()); });
  EXPECT_EQ(kind, ErrorKind::kRun);
  EXPECT_THAT(text, testing::AllOf(HasSubstr("a.safetensors"), HasSubstr("promises")));
  EXPECT_FALSE(fs::exists(dir_ / "m/a.safetensors"));
}

TEST_F(Download, NoticesAFileThatChangesUnderIt) {
  for (const auto kind : {Fault::Kind::kChangedSize, Fault::Kind::kChangedTag}) {
    fs::remove_all(dir_ / "m");
    FaultAt(3, 1000, {.kind = kind});
    const auto [error, text] = ErrorOf([&] { Pull(Options()); });
    EXPECT_EQ(error, ErrorKind::kRun);
    EXPECT_THAT(text, HasSubstr("has changed on the server"));
    EXPECT_FALSE(fs::exists(dir_ / "m/a.safetensors"));
  }
}

TEST_F(Download, GivesUpWithAMessageWhereNothingHelps) {
  FaultAt(0, 100000, {.kind = Fault::Kind::kStatus, .status = 503});
  auto [kind, text] = ErrorOf([&] { Pull(Options()); });
  EXPECT_EQ(kind, ErrorKind::kIo);
  EXPECT_THAT(text, testing::AllOf(HasSubstr("503"), HasSubstr("given up")));
  FaultAt(0, 100000, {.kind = Fault::Kind::kStatus, .status = 403});
  std::tie(kind, text) = ErrorOf([&] { Pull(Options()); });
  EXPECT_EQ(kind, ErrorKind::kRun);
  EXPECT_THAT(text, HasSubstr("accept its terms"));
  PullOptions options = Options();
  options.address.repository = "owner/none";
  options.download.folder = dir_ / "n";
  EXPECT_THAT(ErrorOf([&] { Pull(options); }).second, HasSubstr("no such repository"));
}

TEST_F(Download, GoesThroughRedirectsWithoutTheToken) {
  FaultyServer elsewhere;
  for (const char* name : {"a.safetensors", "b.safetensors"}) {
    elsewhere.AddLargeFile(name, server_.Size(name), name[0] == 'a' ? 1 : 2);
  }
  server_.Misbehave([&](const ServedRequest& request) {
    Fault fault;
    if (request.file.ends_with(".safetensors")) {
      fault.kind = Fault::Kind::kRedirect;
      fault.location = elsewhere.PlainUrl(request.file, "127.0.0.1");
    }
    return fault;
  });
  PullOptions options = Options();
  options.address.token = "secret";
  Pull(options);
  ExpectAllThere();
  for (const ServedRequest& request : server_.requests()) {
    EXPECT_EQ(request.authorization, "Bearer secret");
  }
  EXPECT_FALSE(elsewhere.requests().empty());
  for (const ServedRequest& request : elsewhere.requests()) EXPECT_EQ(request.authorization, "");
}

TEST_F(Download, ChecksTheDiskFirst) {
  server_.SetListing(R"({"sha": "0123456789abcdef0123456789abcdef01234567", "siblings": [
      {"rfilename": "a.safetensors", "size": 4000000000000}]})");
  PullOptions options = Options();
  options.download.block_bytes = BlockSums::kDefaultBlockBytes;
  const auto [kind, text] = ErrorOf([&] { Pull(options); });
  EXPECT_EQ(kind, ErrorKind::kIo);
  EXPECT_THAT(text, HasSubstr("4.00 TB"));
  EXPECT_EQ(server_.bytes_sent(), 0U);
}

TEST_F(Download, KeepsWhatIsThereFromElsewhere) {
  PutFile(dir_ / "m/a.safetensors", server_.Content("a.safetensors", 0, 1000000));
  PutFile(dir_ / "m/b.safetensors", std::string(500000, 'x'));  // right size, wrong content
  Pull(Options());
  ExpectAllThere();
  EXPECT_EQ(server_.bytes_sent(), server_.TotalSize() - 1000000);
}

TEST_F(Download, OneAtATime) {
  Manifest manifest;
  const Downloader first(Options().download, Options().address, "c", manifest);
  EXPECT_THAT(ErrorOf([&] { Pull(Options()); }).second, HasSubstr("another kimi_k3"));
}

TEST_F(Download, RefusesAFolderOfAnotherRepository) {
  Pull(Options());
  PullOptions options = Options();
  options.address.repository = "owner/other";
  EXPECT_EQ(ErrorOf([&] { Pull(options); }).first, ErrorKind::kUsage);
}

// Stopped at thirty random places, while the server misbehaves at random too: in the end all is
// there, and no connection has lost more than the block that it was in.
TEST_F(Download, ThirtyInterruptionsCostABlockAConnection) {
  server_.AddLargeFile("c.safetensors", 20000000, 3);
  std::mt19937_64 random(11);
  std::mutex mutex;
  size_t faults = 0;
  server_.Misbehave([&](const ServedRequest& request) {
    const std::lock_guard lock(mutex);
    Fault fault;
    if (request.file.empty() || random() % 12 != 0) return fault;
    fault.kind = random() % 2 == 0 ? Fault::Kind::kDrop : Fault::Kind::kStatus;
    fault.bytes = random() % 100000;
    ++faults;
    return fault;
  });
  server_.SetPace(1500000);
  PullOptions options = Options();
  options.download.retries = 20;
  size_t interruptions = 0;
  std::thread stopper;
  for (int round = 0; round < 30; ++round) {
    stop_ = false;
    const uint64_t target = server_.bytes_sent() + random() % 120000;
    std::atomic<bool> over{false};
    stopper = std::thread([&] {
      while (!over && server_.bytes_sent() < target) std::this_thread::yield();
      stop_ = true;
    });
    if (ErrorOf([&] { Pull(options); }).first == ErrorKind::kInterrupted) ++interruptions;
    over = true;
    stopper.join();
  }
  EXPECT_GE(interruptions, 20U);
  stop_ = false;
  server_.SetPace(0);
  Pull(options);
  ExpectAllThere();
  EXPECT_EQ(GetFile(dir_ / "m/c.safetensors"), server_.Content("c.safetensors", 0, 20000000));
  // A response that is cut off has up to a socket's buffer on its way, too.
  constexpr uint64_t kOnItsWay = 96 * 1024;
  EXPECT_LE(server_.bytes_sent(),
            server_.TotalSize() + (interruptions * 4 + faults) * (kBlock + kOnItsWay));
}

}  // namespace
}  // namespace kimi_k3

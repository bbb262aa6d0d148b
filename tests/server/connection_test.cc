// A connection and its other end.
#include "server/connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

namespace kimi_k3::server {
namespace {

using namespace std::chrono_literals;

struct Pair {
  UniqueFd ours, theirs;
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    ours = UniqueFd(ends[0]);
    theirs = UniqueFd(ends[1]);
  }
};

TEST(Connection, ReadsWhatComesUpToTheDeadlineAndTheEnd) {
  Pair pair;
  Connection connection(std::move(pair.ours), 100ms);
  std::string bytes = "x";
  EXPECT_EQ(connection.Read(bytes, 10, Clock::now() + 5ms), ByteSource::Outcome::kTimeout);
  ASSERT_EQ(send(pair.theirs.get(), "hello", 5, 0), 5);
  EXPECT_EQ(connection.Read(bytes, 3, Clock::now() + 1s), ByteSource::Outcome::kBytes);
  EXPECT_EQ(bytes, "xhel");
  EXPECT_EQ(connection.Read(bytes, 10, Clock::now() + 1s), ByteSource::Outcome::kBytes);
  EXPECT_EQ(bytes, "xhello");
  EXPECT_EQ(connection.Probe(), Connection::Peer::kThere);
  shutdown(pair.theirs.get(), SHUT_WR);
  EXPECT_EQ(connection.Read(bytes, 10, Clock::now() + 1s), ByteSource::Outcome::kEnd);
  EXPECT_EQ(connection.Probe(), Connection::Peer::kSilent);
  EXPECT_TRUE(connection.Write("still there?"));
  pair.theirs = UniqueFd();
  EXPECT_EQ(connection.Probe(), Connection::Peer::kGone);
  EXPECT_FALSE(connection.Write("gone"));
}

TEST(Connection, GivesUpOnAClientThatTakesNothing) {
  Pair pair;
  Connection connection(std::move(pair.ours), 50ms);
  const auto start = Clock::now();
  EXPECT_FALSE(connection.Write(std::string(size_t{8} << 20, 'x')));
  EXPECT_LT(Clock::now() - start, 20s);
  EXPECT_FALSE(connection.Write("x"));
  EXPECT_EQ(connection.Probe(), Connection::Peer::kGone);
}

TEST(Connection, CloseEndsAWaitInAnotherThread) {
  Pair pair;
  Connection connection(std::move(pair.ours), 1s);
  std::thread closing([&] {
    std::this_thread::sleep_for(20ms);
    connection.Close();
  });
  std::string bytes;
  EXPECT_EQ(connection.Read(bytes, 10, Clock::now() + 60s), ByteSource::Outcome::kEnd);
  closing.join();
}

}  // namespace
}  // namespace kimi_k3::server

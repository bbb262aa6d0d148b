// Responses as bytes.
#include "server/response_writer.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

namespace kimi_k3::server {
namespace {

using namespace std::chrono_literals;

// A connection whose written bytes can be read back.
class WritingResponses : public testing::Test {
 protected:
  WritingResponses() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    connection_.emplace(UniqueFd(ends[0]), 1000ms);
    theirs_ = UniqueFd(ends[1]);
  }
  std::string Written() {
    std::array<char, 4096> block;
    const ssize_t n = recv(theirs_.get(), block.data(), block.size(), 0);
    return {block.data(), static_cast<size_t>(std::max<ssize_t>(n, 0))};
  }
  std::optional<Connection> connection_;
  UniqueFd theirs_;
};

TEST_F(WritingResponses, AWholeOne) {
  ResponseWriter response(*connection_, true, true);
  response.AddHeader("X-A", "b");
  EXPECT_FALSE(response.begun());
  EXPECT_TRUE(response.Send(404, "text/plain", "none"));
  EXPECT_EQ(
      Written(),
      "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nX-Content-Type-Options: nosniff\r\n"
      "X-A: b\r\nContent-Length: 4\r\n\r\nnone");
  EXPECT_EQ(response.status(), 404);
  EXPECT_TRUE(response.reusable());
}

TEST_F(WritingResponses, TheHeadAloneAndNoContent) {
  EXPECT_TRUE(ResponseWriter(*connection_, true, false).Send(200, "text/plain", "four"));
  const std::string head = Written();
  EXPECT_NE(head.find("Content-Length: 4\r\n"), std::string::npos);
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  EXPECT_TRUE(ResponseWriter(*connection_, true, true).Send(204, "", ""));
  EXPECT_EQ(Written().find("Content-Length"), std::string::npos);
}

TEST_F(WritingResponses, APieceAtATime) {
  ResponseWriter response(*connection_, false, true);
  EXPECT_TRUE(response.BeginStream(200, "text/event-stream"));
  const std::string head = Written();
  EXPECT_NE(head.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_NE(head.find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(response.WritePiece("0123456789abcdef0"));
  EXPECT_TRUE(response.WritePiece(""));
  EXPECT_EQ(Written(), "11\r\n0123456789abcdef0\r\n");
  EXPECT_TRUE(response.EndStream());
  EXPECT_EQ(Written(), "0\r\n\r\n");
  EXPECT_FALSE(response.reusable());  // as the client wished
}

TEST_F(WritingResponses, WithoutChunksTheConnectionEndsTheStream) {
  ResponseWriter response(*connection_, true, true);
  response.set_plain_stream();
  EXPECT_TRUE(response.BeginStream(200, "text/event-stream"));
  const std::string head = Written();
  EXPECT_EQ(head.find("Transfer-Encoding"), std::string::npos);
  EXPECT_NE(head.find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(response.WritePiece("abc"));
  EXPECT_TRUE(response.EndStream());
  EXPECT_EQ(Written(), "abc");
  EXPECT_FALSE(response.reusable());
}

TEST_F(WritingResponses, OneBrokenOffCannotBeFollowed) {
  ResponseWriter response(*connection_, true, true);
  EXPECT_TRUE(response.BeginStream(200, "text/event-stream"));
  EXPECT_TRUE(response.WritePiece("a"));
  EXPECT_FALSE(response.reusable());
  theirs_ = UniqueFd();
  EXPECT_FALSE(response.WritePiece("b"));
}

}  // namespace
}  // namespace kimi_k3::server

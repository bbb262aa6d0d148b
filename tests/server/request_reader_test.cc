// Reading HTTP requests: well-formed, ill-formed, too large, too slow.
#include "server/request_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "server/api_error.h"

namespace kimi_k3::server {
namespace {

// Gives a text in pieces of at most `piece` bytes, and then ends or is silent.
class TextSource : public ByteSource {
 public:
  TextSource(std::string text, size_t piece, bool ends = true)
      : text_(std::move(text)), piece_(piece), ends_(ends) {}
  Outcome Read(std::string& bytes, size_t most, Clock::time_point /*deadline*/) override {
    if (at_ == text_.size()) return ends_ ? Outcome::kEnd : Outcome::kTimeout;
    const size_t count = std::min({piece_, most, text_.size() - at_});
    bytes += text_.substr(at_, count);
    at_ += count;
    return Outcome::kBytes;
  }
  size_t taken() const { return at_; }

 private:
  std::string text_;
  size_t piece_;
  bool ends_;
  size_t at_ = 0;
};

constexpr RequestLimits kLimits = {.head_bytes = 1000, .body_bytes = 100};

// The status with which the request is refused; 0: it is taken.
int StatusOf(const std::string& text, bool ends = true, size_t piece = 7) {
  TextSource source(text, piece, ends);
  RequestReader reader(source, kLimits);
  try {
    const std::optional<RequestHead> head = reader.ReadHead();
    if (!head) return -1;
    reader.ReadBody(*head);
    return 0;
  } catch (const ApiError& error) {
    return error.status();
  }
}

std::string WithHeaders(const std::string& headers) {
  return "POST /v1 HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n";
}

TEST(RequestReader, ReadsRequestsOneAfterAnotherHoweverTheyAreCut) {
  const std::string text =
      "\r\nPOST /v1/x?q=1 HTTP/1.1\r\nHost: localhost:80\r\nContent-Length: 5\r\n"
      "X-Empty:\r\n\r\nhello"
      "GET / HTTP/1.1\r\nhost:  b \r\nConnection: close\r\n\r\n"
      "PUT /c HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: Chunked\r\nExpect: 100-continue\r\n\r\n"
      "3;x=y\r\nabc\r\n0a\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n";
  for (const size_t piece : {1, 2, 3, 10, 1000}) {
    TextSource source(text, piece);
    RequestReader reader(source, kLimits);
    const auto first = reader.ReadHead();
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(first->method, "POST");
    EXPECT_EQ(first->target, "/v1/x?q=1");
    EXPECT_EQ(first->path, "/v1/x");
    EXPECT_EQ(first->Find("host"), "localhost:80");
    EXPECT_EQ(first->Find("x-empty"), "");
    EXPECT_FALSE(first->Find("x-none").has_value());
    EXPECT_TRUE(first->keep_alive);
    EXPECT_EQ(reader.ReadBody(*first), "hello");
    const auto second = reader.ReadHead();
    ASSERT_TRUE(second.has_value());
    EXPECT_EQ(second->Find("host"), "b");
    EXPECT_FALSE(second->keep_alive);
    EXPECT_EQ(reader.ReadBody(*second), "");
    const auto third = reader.ReadHead();
    ASSERT_TRUE(third.has_value());
    EXPECT_TRUE(third->chunked);
    EXPECT_TRUE(third->expects_continue);
    EXPECT_EQ(reader.ReadBody(*third), "abc0123456789");
    EXPECT_FALSE(reader.ReadHead().has_value());
  }
}

TEST(RequestReader, RefusesWhatIsNotHttp) {
  EXPECT_EQ(StatusOf("hello\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET /\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("G@T / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / a HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\nHost: a\n\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost : a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf(std::string("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 29)), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/0.9\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(StatusOf("GET / HTTP/1.00\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(StatusOf("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(StatusOf("\x16\x03\x01\x02"), 400);
  EXPECT_EQ(StatusOf(""), -1);
}

TEST(RequestReader, TheOldVersionHasOneRequestAConnectionAndNoChunks) {
  const std::string post = "POST /v1 HTTP/1.0\r\n";
  TextSource source(
      post + "Content-Length: 3\r\nExpect: 100-continue\r\n" + "Connection: keep-alive\r\n\r\nabc",
      5);
  RequestReader reader(source, kLimits);
  const auto head = reader.ReadHead();
  ASSERT_TRUE(head.has_value());
  EXPECT_TRUE(head->old_version);
  EXPECT_FALSE(head->keep_alive);
  EXPECT_FALSE(head->expects_continue);
  EXPECT_EQ(reader.ReadBody(*head), "abc");
  EXPECT_EQ(StatusOf(post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf(post + "Host: a\r\nHost: a\r\n\r\n"), 400);
}

TEST(RequestReader, RefusesLengthsThatCouldBeReadInTwoWays) {
  EXPECT_EQ(StatusOf(WithHeaders("Content-Length: 3\r\n") + "abc"), 0);
  EXPECT_EQ(StatusOf(WithHeaders("Content-Length: 3\r\nContent-Length: 3\r\n") + "abc"), 400);
  EXPECT_EQ(StatusOf(WithHeaders("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n") + "abc"),
            400);
  EXPECT_EQ(StatusOf(WithHeaders("Transfer-Encoding: gzip, chunked\r\n")), 501);
  EXPECT_EQ(StatusOf(WithHeaders("Expect: wonders\r\n")), 417);
  for (const char* length : {"-1", "+3", "3, 3", "0x3", "", "3a", "1e2"}) {
    EXPECT_EQ(StatusOf(WithHeaders(std::string("Content-Length: ") + length + "\r\n") + "abc"), 400)
        << length;
  }
}

TEST(RequestReader, RefusesLargeBodiesWithoutReadingThem) {
  for (const char* length : {"101", "1000000000000000", "100000000000000000000"}) {
    EXPECT_EQ(StatusOf(WithHeaders(std::string("Content-Length: ") + length + "\r\n")), 413);
  }
  const std::string chunked = WithHeaders("Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(StatusOf(chunked + "65\r\n"), 413);
  EXPECT_EQ(StatusOf(chunked + "64\r\n" + std::string(100, 'x') + "\r\n1\r\nx\r\n"), 413);
  EXPECT_EQ(StatusOf(chunked + "64\r\n" + std::string(100, 'x') + "\r\n0\r\n\r\n"), 0);
  EXPECT_EQ(StatusOf(chunked + "fffffffffffffffff\r\n"), 400);
  EXPECT_EQ(StatusOf(chunked + "-1\r\n"), 400);
  EXPECT_EQ(StatusOf(chunked + "3\r\nabcd\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf(chunked + std::string(10000, '0')), 400);
}

TEST(RequestReader, RefusesLargeHeadsAndTakesNoMoreThanTheLimit) {
  const std::string long_line = "GET /" + std::string(100000, 'a');
  TextSource source(long_line, 100);
  RequestReader reader(source, kLimits);
  EXPECT_THROW(reader.ReadHead(), ApiError);
  EXPECT_LT(source.taken(), 2 * kLimits.head_bytes);
  EXPECT_EQ(StatusOf(long_line), 431);
  EXPECT_EQ(StatusOf(WithHeaders("X: " + std::string(2000, 'a') + "\r\n")), 431);
  std::string many;
  for (int i = 0; i < 120; ++i) many += "a:b\r\n";
  EXPECT_EQ(StatusOf(WithHeaders(many)), 431);
}

TEST(RequestReader, RefusesWhatDoesNotComeInTime) {
  EXPECT_EQ(StatusOf("", false), -1);  // idle: no request has begun
  EXPECT_EQ(StatusOf("GET / HT", false), 408);
  EXPECT_EQ(StatusOf(WithHeaders("Content-Length: 10\r\n") + "abc", false), 408);
  EXPECT_EQ(StatusOf(WithHeaders("Content-Length: 10\r\n") + "abc", true), 400);
}

TEST(RequestReader, RandomBytesAreRefusedOrReadWithoutHarm) {
  std::mt19937 random(1);
  const std::string good = WithHeaders("Content-Length: 3\r\nConnection: keep-alive\r\n") + "abc" +
                           WithHeaders("Transfer-Encoding: chunked\r\n") + "3\r\nabc\r\n0\r\n\r\n";
  for (int round = 0; round < 5000; ++round) {
    std::string text = good;
    for (size_t changes = random() % 4 + 1; changes > 0; --changes) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    TextSource source(text, random() % 9 + 1);
    RequestReader reader(source, kLimits);
    try {
      while (const auto head = reader.ReadHead()) {
        EXPECT_LE(reader.ReadBody(*head).size(), kLimits.body_bytes);
      }
    } catch (const ApiError& error) {
      EXPECT_GE(error.status(), 400);
    }
  }
}

}  // namespace
}  // namespace kimi_k3::server

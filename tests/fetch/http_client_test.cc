// Tests of HTTP against a server that misbehaves.
#include "fetch/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "fetch/faulty_server.h"
#include "fetch/fetch_test_support.h"
#include "fetch/tls_front.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

struct Got {
  HttpReply reply;
  std::string body;
};

Got Get(const HttpRequest& request, HttpOptions options = {}) {
  HttpClient client(options);
  Got got;
  got.reply = client.Get(
      request, [](const HttpReply&) { return true; },
      [&](std::span<const std::byte> data) {
        got.body.append(reinterpret_cast<const char*>(data.data()), data.size());
        return true;
      });
  return got;
}

TEST(HttpClient, GetsRangesAndSaysWhichTheyAre) {
  FaultyServer server;
  server.AddFile("a", "0123456789");
  const Got got = Get({server.PlainUrl("a", "127.0.0.1"), "", HttpRequest::Range{2, 5}});
  EXPECT_EQ(got.body, "2345");
  EXPECT_EQ(got.reply.status, 206);
  ASSERT_TRUE(got.reply.content_range);
  EXPECT_EQ(got.reply.content_range->total, 10U);
  EXPECT_EQ(got.reply.content_length, 4U);
  EXPECT_EQ(got.reply.error, "");
}

TEST(HttpClient, KeepsTheTokenAtHome) {
  FaultyServer home;
  FaultyServer elsewhere;
  elsewhere.AddFile("a", "content");
  home.AddFile("a", "");
  home.Misbehave([&](const ServedRequest&) {
    Fault fault;
    fault.kind = Fault::Kind::kRedirect;
    fault.location = elsewhere.PlainUrl("a", "127.0.0.1");
    return fault;
  });
  const Got got = Get({home.PlainUrl("a", "127.0.0.1"), "secret", {}});
  EXPECT_EQ(got.body, "content");
  ASSERT_EQ(home.requests().size(), 1U);
  EXPECT_EQ(home.requests()[0].authorization, "Bearer secret");
  ASSERT_EQ(elsewhere.requests().size(), 1U);
  EXPECT_EQ(elsewhere.requests()[0].authorization, "");
}

TEST(HttpClient, FollowsRelativeRedirectsAtHomeWithTheTokenAndNoEndlessOnes) {
  FaultyServer server;
  server.AddFile("a", "content");
  server.AddFile("b", "");
  server.Misbehave([](const ServedRequest& request) {
    Fault fault;
    if (request.file == "b") {
      fault.kind = Fault::Kind::kRedirect;
      fault.location = "/plain/a";
    }
    return fault;
  });
  EXPECT_EQ(Get({server.PlainUrl("b", "127.0.0.1"), "t", {}}).body, "content");
  EXPECT_EQ(server.requests().back().authorization, "Bearer t");
  server.Misbehave([](const ServedRequest&) {
    Fault fault;
    fault.kind = Fault::Kind::kRedirect;
    fault.location = "/plain/a";
    return fault;
  });
  EXPECT_THAT(Get({server.PlainUrl("a", "127.0.0.1"), "", {}}).reply.error,
              HasSubstr("redirected too often"));
}

TEST(HttpClient, RefusesRedirectsToOtherSchemes) {
  FaultyServer server;
  server.AddFile("a", "");
  for (const char* place : {"file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x"}) {
    server.Misbehave([place](const ServedRequest&) {
      Fault fault;
      fault.kind = Fault::Kind::kRedirect;
      fault.location = place;
      return fault;
    });
    const Got got = Get({server.PlainUrl("a", "127.0.0.1"), "", {}});
    EXPECT_EQ(got.body, "");
    EXPECT_NE(got.reply.error, "") << place;
  }
}

class Https : public testing::Test {
 protected:
  Https() {
    // The client takes its authorities from the environment, where a user names them.
    PutFile(dir_ / "ca.pem", front_.Pem() + other_front_.Pem());
    setenv("SSL_CERT_FILE", (dir_ / "ca.pem").c_str(), 1);
    home_.AddFile("a", "content of home");
    other_.AddFile("a", "content of another");
  }
  ~Https() override { unsetenv("SSL_CERT_FILE"); }
  void Redirect(const std::string& location) {
    home_.Misbehave([location](const ServedRequest&) {
      return Fault{.kind = Fault::Kind::kRedirect, .location = location};
    });
  }
  std::string Url() const { return front_.Endpoint() + "/plain/a"; }

  ScratchDir dir_;
  FaultyServer home_, other_;
  TlsFront front_{home_.Endpoint()};
  TlsFront other_front_{other_.Endpoint()};
};

TEST_F(Https, IsReadWhereTheCertificateIsTrusted) {
  const Got got = Get({Url(), "secret", HttpRequest::Range{0, 6}});
  EXPECT_EQ(got.reply.error, "");
  EXPECT_EQ(got.body, "content");
  EXPECT_EQ(home_.requests().at(0).authorization, "Bearer secret");
}

TEST_F(Https, CurlsNameForTheAuthoritiesWillDo) {
  unsetenv("SSL_CERT_FILE");
  setenv("CURL_CA_BUNDLE", (dir_ / "ca.pem").c_str(), 1);
  EXPECT_EQ(Get({Url(), "", {}}).body, "content of home");
  unsetenv("CURL_CA_BUNDLE");
}

TEST_F(Https, RefusesAServerThatCannotProveWhoItIs) {
  const TlsFront stranger(home_.Endpoint());
  const TlsFront misnamed(home_.Endpoint(), "DNS:elsewhere.example");
  PutFile(dir_ / "ca.pem", misnamed.Pem());
  for (const TlsFront* front : {&stranger, &misnamed}) {
    const Got got = Get({front->Endpoint() + "/plain/a", "secret", {}});
    EXPECT_EQ(got.body, "");
    EXPECT_TRUE(got.reply.hopeless);
    EXPECT_THAT(got.reply.error,
                testing::AllOf(HasSubstr("cannot prove who it is"), HasSubstr("SSL_CERT_FILE")));
  }
  EXPECT_TRUE(home_.requests().empty());  // and so the token was never sent
  setenv("SSL_CERT_FILE", (dir_ / "none.pem").c_str(), 1);
  const Got got = Get({front_.Endpoint() + "/plain/a", "", {}});
  EXPECT_TRUE(got.reply.hopeless);
  EXPECT_THAT(got.reply.error, HasSubstr("none.pem, which cannot be used"));
}

TEST_F(Https, RedirectsToAnotherHostWithoutTheToken) {
  Redirect(other_front_.Endpoint() + "/plain/a");
  EXPECT_EQ(Get({Url(), "secret", {}}).body, "content of another");
  EXPECT_EQ(home_.requests().at(0).authorization, "Bearer secret");
  ASSERT_EQ(other_.requests().size(), 1U);
  EXPECT_EQ(other_.requests()[0].authorization, "");
}

TEST_F(Https, IsNeverLeftForHttp) {
  for (const std::string& place :
       {other_.PlainUrl("a", "127.0.0.1"), home_.PlainUrl("a", "127.0.0.1")}) {
    Redirect(place);
    const Got got = Get({Url(), "secret", {}});
    EXPECT_EQ(got.body, "");
    EXPECT_TRUE(got.reply.hopeless);
    EXPECT_THAT(got.reply.error, HasSubstr("redirected from https to http"));
  }
  EXPECT_TRUE(other_.requests().empty());
  for (const ServedRequest& request : home_.requests()) {
    EXPECT_EQ(request.authorization, "Bearer secret");  // all of them came through TLS
  }
}

TEST(HttpClient, NoticesStallsDropsAndGarbage) {
  FaultyServer server;
  server.AddFile("a", std::string(100000, 'x'));
  Fault fault;
  server.Misbehave([&](const ServedRequest&) { return fault; });
  HttpOptions options;
  options.stall_time = std::chrono::seconds(1);
  fault.kind = Fault::Kind::kStall;
  fault.bytes = 5000;
  EXPECT_THAT(Get({server.PlainUrl("a", "127.0.0.1"), "", {}}, options).reply.error,
              HasSubstr("hardly anything came for 1 s"));
  fault.kind = Fault::Kind::kDrop;
  const Got dropped = Get({server.PlainUrl("a", "127.0.0.1"), "", {}}, options);
  EXPECT_EQ(dropped.body.size(), 5000U);
  EXPECT_NE(dropped.reply.error, "");
  fault.kind = Fault::Kind::kGarbage;
  EXPECT_NE(Get({server.PlainUrl("a", "127.0.0.1"), "", {}}, options).reply.error, "");
  EXPECT_NE(Get({"http://127.0.0.1:1/", "", {}}, options).reply.error, "");
  EXPECT_NE(Get({"file:///etc/passwd", "", {}}, options).reply.error, "");
}

TEST(HttpClient, StopsWhenAskedAndLetsExceptionsThrough) {
  FaultyServer server;
  server.AddFile("a", std::string(100000, 'x'));
  HttpClient client({});
  const HttpReply stopped = client.Get(
      {server.PlainUrl("a", "127.0.0.1"), "", {}}, [](const HttpReply&) { return true; },
      [](std::span<const std::byte>) { return false; });
  EXPECT_TRUE(stopped.stopped);
  EXPECT_THROW(
      client.Get(
          {server.PlainUrl("a", "127.0.0.1"), "", {}}, [](const HttpReply&) { return true; },
          [](std::span<const std::byte>) -> bool {
            throw Error(ErrorKind::kIo, "the disk is full");
          }),
      Error);
}

TEST(HttpClient, ReadsOriginsEscapesAndWaits) {
  EXPECT_EQ(OriginOf("https://Example.org/x?y"), "https://example.org:443");
  EXPECT_EQ(OriginOf("http://h:81/"), "http://h:81");
  EXPECT_EQ(OriginOf("ftp://h/"), "");
  EXPECT_EQ(UrlEscape("a b/c%\xc3", true), "a%20b/c%25%C3");
  EXPECT_EQ(UrlEscape("refs/pr/1", false), "refs%2Fpr%2F1");
  EXPECT_EQ(RetryAfter("7"), std::chrono::seconds(7));
  EXPECT_EQ(RetryAfter("Fri, 01 Jan 1999 00:00:00 GMT"), std::chrono::seconds(0));
  EXPECT_FALSE(RetryAfter(""));
  EXPECT_FALSE(RetryAfter("soon"));
}

}  // namespace
}  // namespace kimi_k3

// Who may use the server.
#include "server/access.h"

#include <gtest/gtest.h>

#include "server/api_error.h"

namespace kimi_k3::server {
namespace {

RequestHead HeadWith(std::vector<std::pair<std::string, std::string>> headers) {
  RequestHead head;
  head.headers = std::move(headers);
  return head;
}

bool TakesHost(const std::string& host, const ServerOptions& options = {}) {
  try {
    CheckHost(HeadWith({{"host", host}}), options);
    return true;
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 403);
    return false;
  }
}

TEST(Access, GoesByLoopbackNamesOnly) {
  for (const char* name : {"localhost", "localhost:8080", "LOCALHOST.", "127.0.0.1:1", "127.8.9.1",
                           "[::1]", "[::1]:8080", "::1"}) {
    EXPECT_TRUE(TakesHost(name)) << name;
  }
  for (const char* name : {"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", ":80",
                           "localhost.evil.example", "192.168.1.1", "[::2]", "127.evil.example"}) {
    EXPECT_FALSE(TakesHost(name)) << name;
  }
}

TEST(Access, GoesByItsAddressAndByNamesThatItIsTold) {
  ServerOptions options;
  options.host = "192.168.1.5";
  options.allowed_hosts = {"Model.Example:99"};
  EXPECT_TRUE(TakesHost("192.168.1.5:8080", options));
  EXPECT_TRUE(TakesHost("model.example", options));
  EXPECT_FALSE(TakesHost("192.168.1.6", options));
  options.host = "0.0.0.0";  // any address may be its own; a name may be anybody's
  EXPECT_TRUE(TakesHost("192.168.1.6", options));
  EXPECT_TRUE(TakesHost("[fe80::1]:80", options));
  EXPECT_FALSE(TakesHost("evil.example", options));
  options.allowed_hosts = {"*"};
  EXPECT_TRUE(TakesHost("evil.example", options));
}

TEST(Access, WebPagesOfOtherOriginsAreRefusedUnlessAllowed) {
  ServerOptions options;
  const auto takes = [&](const std::string& origin) {
    try {
      CheckOrigin(HeadWith({{"host", "localhost:8080"}, {"origin", origin}}), options);
      return true;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status(), 403);
      return false;
    }
  };
  EXPECT_NO_THROW(CheckOrigin(HeadWith({{"host", "localhost"}}), options));
  EXPECT_TRUE(takes("http://localhost:8080"));
  EXPECT_FALSE(takes("http://localhost:8081"));
  EXPECT_FALSE(takes("null"));
  options.cors_origins = {"https://a.example/", "http://localhost:3000"};
  EXPECT_TRUE(takes("https://A.example"));
  EXPECT_FALSE(takes("https://a.example:444"));
  const auto allowed = [&](const std::string& origin) {
    return AllowedOrigin(HeadWith({{"origin", origin}}), options);
  };
  EXPECT_EQ(allowed("https://a.example"), "https://a.example");
  EXPECT_EQ(allowed("http://localhost:3000"), "http://localhost:3000");
  EXPECT_FALSE(allowed("https://b.example").has_value());
  EXPECT_FALSE(AllowedOrigin(HeadWith({}), options).has_value());
}

TEST(Access, AnyOfTheKeysIsEnoughAndNothingElse) {
  ServerOptions options;
  const auto takes = [&](const std::string& value) {
    try {
      CheckApiKey(HeadWith({{"authorization", value}}), options);
      return true;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status(), 401);
      EXPECT_EQ(error.code(), "invalid_api_key");
      return false;
    }
  };
  EXPECT_TRUE(takes("whatever"));
  options.api_keys = {"sk-one", "sk-two"};
  EXPECT_TRUE(takes("Bearer sk-one"));
  EXPECT_TRUE(takes("bearer sk-two"));
  for (const char* value : {"", "Bearer ", "Bearer sk-on", "Bearer sk-onee", "Bearer sk-one sk-two",
                            "sk-one", "Basic sk-one", "Bearer SK-ONE"}) {
    EXPECT_FALSE(takes(value)) << value;
  }
  EXPECT_THROW(CheckApiKey(HeadWith({}), options), ApiError);
}

TEST(Access, ComparisonInConstantTimeCompares) {
  EXPECT_TRUE(EqualInConstantTime("", ""));
  EXPECT_TRUE(EqualInConstantTime("abc", "abc"));
  EXPECT_FALSE(EqualInConstantTime("abc", "abd"));
  EXPECT_FALSE(EqualInConstantTime("abc", "abcc"));
  EXPECT_FALSE(EqualInConstantTime("abcc", "abc"));
  EXPECT_FALSE(EqualInConstantTime("", "a"));
  EXPECT_FALSE(EqualInConstantTime("a", ""));
}

}  // namespace
}  // namespace kimi_k3::server

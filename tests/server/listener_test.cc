// Listening on addresses.
#include "server/listener.h"

#include <gtest/gtest.h>

#include "kimi_k3/error.h"
#include "server/http_client.h"

namespace kimi_k3::server {
namespace {

using namespace std::chrono_literals;

TEST(Listener, TakesConnectionsOnAFreePort) {
  Listener listener("127.0.0.1", 0);
  EXPECT_NE(listener.port(), 0);
  EXPECT_FALSE(listener.Accept(1ms).has_value());
  const HttpClient client(listener.port());
  EXPECT_TRUE(listener.Accept(5000ms).has_value());
}

TEST(Listener, APortInUseIsAnError) {
  const Listener first("127.0.0.1", 0);
  try {
    const Listener second("127.0.0.1", first.port());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find(std::to_string(first.port())), std::string::npos);
  }
}

TEST(Listener, AHostThatIsNoneIsAnError) {
  try {
    const Listener listener("no such host", 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace kimi_k3::server

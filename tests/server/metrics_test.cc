// Metrics as text.
#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace kimi_k3::server {
namespace {

TEST(Metrics, EveryLineIsOneThatPrometheusReads) {
  Metrics metrics;
  metrics.CountRequest("/v1/models", 200);
  metrics.CountRequest("/v1/models", 200);
  metrics.CountRequest("other", 404);
  const std::string text = metrics.Prometheus({});
  using testing::MatchesRegex;
  const auto comment = MatchesRegex("# (HELP|TYPE) kimi_k3_[a-z_]+ .+");
  const auto value =
      MatchesRegex(R"re(kimi_k3_[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+)re");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_THAT(line, testing::AnyOf(comment, value));
  }
  EXPECT_NE(text.find("kimi_k3_requests_total{path=\"/v1/models\",code=\"200\"} 2\n"),
            std::string::npos);
}

TEST(Metrics, StatusIsJson) {
  SchedulerStatus status;
  status.waiting = 3;
  status.engine.trunk_bytes = 5;
  status.engine.expert_bytes = 6;
  const auto json = nlohmann::json::parse(Metrics().StatusJson(status, "K3"));
  EXPECT_EQ(json["model"], "K3");
  EXPECT_EQ(json["waiting"], 3);
  EXPECT_EQ(json["bytes_read"]["total"], 11);
}

}  // namespace
}  // namespace kimi_k3::server

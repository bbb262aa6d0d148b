// Counters as the statistics files have them.
#include "cli/stats_json.h"

#include <gtest/gtest.h>

namespace kimi_k3 {
namespace {

TEST(StatsJson, AddsUpWhatWasRead) {
  EngineCounters counters;
  counters.passes = 2;
  counters.trunk_bytes = 100;
  counters.expert_bytes = 20;
  counters.head_bytes = 3;
  counters.embedding_bytes = 4;
  counters.tentative_rows = 5;
  counters.accepted_rows = 1;
  const auto json = CountersToJson(counters);
  EXPECT_EQ(json["passes"], 2);
  EXPECT_EQ(json["bytes_read"]["experts"], 20);
  EXPECT_EQ(json["bytes_read"]["total"], 127);
  EXPECT_EQ(json["guesses"], 5);
  EXPECT_EQ(json["right_guesses"], 1);
}

TEST(StatsJson, HasTheReadingsOfTheProcess) {
  ProcessReading process;
  process.peak_resident_bytes = 7;
  process.storage_read_bytes = 9;
  const auto json = ProcessToJson(process);
  EXPECT_EQ(json["peak_resident_bytes"], 7);
  EXPECT_EQ(json["storage_read_bytes"], 9);
}

}  // namespace
}  // namespace kimi_k3

// Tests of showing and drawing what `bench` has measured.
#include "cli/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace kimi_k3 {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Json Report() {
  return Json::parse(R"({
    "model": "kimi_k3 <93 layers>",
    "drive": {"bytes_per_second": 2e9, "reading": "direct reads"},
    "memory": {"read_bytes_per_second": 3e10},
    "processor": {"isa": "avx2", "threads": 2, "multiply_adds_per_second": 1e11},
    "products": [{"weights": "bf16", "rows": 1, "unit": "GB/s", "speed": 20, "limit": 25}],
    "runs": [
      {"memory_budget_bytes": 2000000000, "seconds_per_token": 4, "bytes_per_token": 8000000000,
       "drive_bytes_per_second": 1.9e9, "compute_waited_share": 0.75,
       "prompts": [{"tokens": 16, "seconds": 8}, {"tokens": 1, "seconds": 4}]},
      {"memory_budget_bytes": 16000000000, "seconds_per_token": 0.5, "bytes_per_token": 0,
       "drive_bytes_per_second": 0, "compute_waited_share": 0, "prompts": []}]})");
}

TEST(BenchReport, ShowsEachFigureBesideItsLimit) {
  const std::string text = FormatBenchReport(Report());
  EXPECT_THAT(text, HasSubstr("2.00 GB/s at best (direct reads)"));
  EXPECT_THAT(text, HasSubstr("80 %"));
  EXPECT_THAT(text, HasSubstr("0.25"));
  EXPECT_THAT(text, HasSubstr("75 %"));
  EXPECT_THAT(text, HasSubstr("16.0 GB"));
}

TEST(BenchReport, DrawsABarForEachBudgetAndTheDrivesLimit) {
  const std::string svg = DrawBenchReport(Report());
  EXPECT_THAT(svg, testing::StartsWith("<svg xmlns="));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  EXPECT_THAT(svg, HasSubstr("kimi_k3 &lt;93 layers&gt;"));
  size_t limits = 0;
  for (size_t at = 0; (at = svg.find("class=\"limit\"", at)) != std::string::npos; ++at) ++limits;
  EXPECT_EQ(limits, 1U);  // the run that reads nothing has none
  EXPECT_THAT(svg, testing::Not(HasSubstr("nan")));
  EXPECT_THAT(svg, testing::Not(HasSubstr("inf")));
}

TEST(BenchReport, DrawsRunsWithoutPrompts) {
  Json report = Report();
  for (Json& run : report["runs"]) run["prompts"] = Json::array();
  EXPECT_THAT(DrawBenchReport(report), testing::Not(HasSubstr("length of the prompt")));
}

TEST(BenchReport, TakesTheBestThatTheDriveWasSeenToGiveForItsLimit) {
  Json report = Report();
  report["runs"][0]["drive_bytes_per_second"] = 2.5e9;
  EXPECT_THAT(FormatBenchReport(report), HasSubstr("2.50 GB/s at best"));
}

TEST(BenchReport, DrawsPromptsOnAnAxisOfDecades) {
  const std::string svg = DrawBenchReport(Report());  // 0.5 and 4 seconds a position
  for (const char* line : {">0.1<", ">1<", ">10<"}) EXPECT_THAT(svg, HasSubstr(line));
}

TEST(BenchReport, DrawsPromptsThatAllTakeTheSame) {
  Json report = Report();
  report["runs"][0]["prompts"] = {{{"tokens", 1}, {"seconds", 10}}};
  const std::string svg = DrawBenchReport(report);
  EXPECT_THAT(svg, HasSubstr("length of the prompt"));
  EXPECT_THAT(svg, testing::Not(HasSubstr("nan")));
}

TEST(BenchReport, RefusesWhatIsNoReport) {
  for (const char* name : {"model", "drive", "memory", "processor", "products", "runs"}) {
    Json report = Report();
    report.erase(name);
    EXPECT_THROW(FormatBenchReport(report), Error) << name;
    report[name] = "x";
    if (std::string_view(name) != "model") {
      EXPECT_THROW(DrawBenchReport(report), Error) << name;
    }
  }
  for (const Json& bad : {Json(0), Json(-1), Json(nullptr), Json("4")}) {
    Json report = Report();
    report["runs"][0]["seconds_per_token"] = bad;
    EXPECT_THROW(DrawBenchReport(report), Error) << bad;
  }
  EXPECT_THROW(FormatBenchReport(Json::array()), Error);
  Json report = Report();
  report["runs"] = Json::array();
  EXPECT_THROW(DrawBenchReport(report), Error);
}

TEST(BenchReport, ThePlotsOfTheDocumentationAreOfTheirRecords) {
  size_t plots = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(KIMI_K3_SOURCE_DIR "/docs/performance")) {
    std::filesystem::path path = entry.path();
    if (path.extension() != ".json") continue;
    const Json report = Json::parse(ReadWholeFile(path, 1 << 20));
    EXPECT_EQ(DrawBenchReport(report), ReadWholeFile(path.replace_extension(".svg"), 1 << 20))
        << path << ": draw it again with bench/plots.sh";
    ++plots;
  }
  EXPECT_GT(plots, 0U);
}

}  // namespace
}  // namespace kimi_k3

// What `bench` has measured: as a table for people, and as a picture.
#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"

namespace kimi_k3 {
namespace {

using Json = nlohmann::ordered_json;

struct PromptRun {
  uint64_t tokens;
  double seconds;
};

struct BudgetRun {
  uint64_t budget_bytes;
  uint64_t bytes_per_token;
  double seconds_per_token;
  double drive_bytes_per_second;
  double compute_waited;  // share of the time
  std::vector<PromptRun> prompts;

  double tokens_per_second() const { return 1 / seconds_per_token; }
};

struct Product {
  std::string weights;
  uint64_t rows;
  std::string unit;
  double speed;
  double limit;
};

struct Report {
  std::string model;
  std::string drive;
  double drive_bytes_per_second = 0;
  double read_bytes_per_second = 0;
  double multiply_adds_per_second = 0;
  std::vector<Product> products;
  std::vector<BudgetRun> runs;
};

// A number that can be drawn and divided by.
double Positive(const Json& json, const char* name) {
  const double value = json.at(name).get<double>();
  if (!std::isfinite(value) || value <= 0) {
    Fail(ErrorKind::kUsage, "the report's \"{}\" is {}, not a positive number", name, value);
  }
  return value;
}

BudgetRun ReadRun(const Json& json) {
  BudgetRun run = {.budget_bytes = static_cast<uint64_t>(Positive(json, "memory_budget_bytes")),
                   .bytes_per_token = json.at("bytes_per_token").get<uint64_t>(),
                   .seconds_per_token = Positive(json, "seconds_per_token"),
                   .drive_bytes_per_second = json.at("drive_bytes_per_second").get<double>(),
                   .compute_waited = json.at("compute_waited_share").get<double>(),
                   .prompts = {}};
  for (const Json& prompt : json.at("prompts")) {
    run.prompts.push_back(
        {static_cast<uint64_t>(Positive(prompt, "tokens")), Positive(prompt, "seconds")});
  }
  return run;
}

Report ReadReport(const Json& json) {
  try {
    Report report;
    report.model = json.at("model").get<std::string>();
    report.drive = json.at("drive").at("reading").get<std::string>();
    report.drive_bytes_per_second = Positive(json.at("drive"), "bytes_per_second");
    report.read_bytes_per_second = Positive(json.at("memory"), "read_bytes_per_second");
    report.multiply_adds_per_second = Positive(json.at("processor"), "multiply_adds_per_second");
    for (const Json& product : json.at("products")) {
      report.products.push_back({product.at("weights").get<std::string>(),
                                 product.at("rows").get<uint64_t>(),
                                 product.at("unit").get<std::string>(), Positive(product, "speed"),
                                 Positive(product, "limit")});
    }
    for (const Json& run : json.at("runs")) {
      report.runs.push_back(ReadRun(run));
      // What the drive has been seen to give is no more than what it can.
      report.drive_bytes_per_second =
          std::max(report.drive_bytes_per_second, report.runs.back().drive_bytes_per_second);
    }
    return report;
  } catch (const Json::exception& error) {
    Fail(ErrorKind::kUsage, "not a report of kimi_k3 bench: {}", error.what());
  }
}

std::string Bytes(double bytes) { return FormatByteSize(static_cast<uint64_t>(bytes)); }

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

// An axis upwards, with the values that have a line: linear from zero, or in powers of ten.
class Axis {
 public:
  static Axis Linear(double most) {
    Axis axis(0, most, false);
    for (int i = 0; i <= 4; ++i) axis.lines_.push_back(most * i / 4);
    return axis;
  }
  // From the power of ten below `least` to that above `most`; both are positive.
  static Axis Decades(double least, double most) {
    const double low = std::floor(std::log10(least));
    const double high = std::max(low + 1, std::ceil(std::log10(most)));
    Axis axis(low, high, true);
    for (int power = static_cast<int>(low); power <= static_cast<int>(high); ++power) {
      axis.lines_.push_back(std::pow(10.0, power));
    }
    return axis;
  }

  const std::vector<double>& lines() const { return lines_; }
  // 0 at the foot, 1 at the top; what lies beyond is drawn at the end.
  double Place(double value) const {
    const double at = decades_ ? std::log10(value) : value;
    return std::clamp((at - low_) / (high_ - low_), 0.0, 1.0);
  }

 private:
  Axis(double low, double high, bool decades) : low_(low), high_(high), decades_(decades) {}
  double low_;
  double high_;
  bool decades_;
  std::vector<double> lines_;
};

// One diagram: a frame with a title, an axis upwards, and named places along the other.
class Panel {
 public:
  Panel(double left, const std::string& title, const std::string& below,
        const std::vector<std::string>& places, Axis axis)
      : left_(left), places_(places.size()), axis_(std::move(axis)) {
    svg_ = fmt::format(
        "<text x=\"{0}\" y=\"{1}\" class=\"title\">{2}</text>\n"
        "<path d=\"M{0} {3}V{4}H{5}\" class=\"frame\"/>\n"
        "<text x=\"{6}\" y=\"{7}\" class=\"middle\">{8}</text>\n",
        left, kTop - 16, Escaped(title), kTop, kBottom, left + kWidth, left + kWidth / 2,
        kBottom + 42, Escaped(below));
    for (const double value : axis_.lines()) {
      svg_ += fmt::format(
          "<path d=\"M{} {:.1f}h{}\" class=\"grid\"/>"
          "<text x=\"{}\" y=\"{:.1f}\" class=\"end\">{:.3g}</text>\n",
          left, Y(value), kWidth, left - 6, Y(value) + 4, value);
    }
    for (size_t i = 0; i < places.size(); ++i) {
      svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{}\" class=\"middle\">{}</text>\n", X(i),
                          kBottom + 20, Escaped(places[i]));
    }
  }

  void Bar(size_t place, double value, const char* color) {
    svg_ += fmt::format("<path d=\"M{:.1f} {:.1f}h36V{}h-36z\" fill=\"{}\"/>\n", X(place) - 18,
                        Y(value), kBottom, color);
    svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"middle\">{:.3g}</text>\n",
                        X(place), Y(value) - 5, value);
  }
  void Mark(size_t place, double value) {
    svg_ +=
        fmt::format("<path d=\"M{:.1f} {:.1f}h52\" class=\"limit\"/>\n", X(place) - 26, Y(value));
  }
  void Line(const std::vector<std::pair<size_t, double>>& points, const char* color,
            const std::string& name, size_t index) {
    std::string path;
    for (const auto& [place, value] : points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', X(place), Y(value));
      svg_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", X(place),
                          Y(value), color);
    }
    svg_ += fmt::format(
        "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>"
        "<text x=\"{}\" y=\"{}\" class=\"end\" fill=\"{}\">{}</text>\n",
        path, color, left_ + kWidth, kTop + 14 + 16 * static_cast<double>(index), color,
        Escaped(name));
  }
  const std::string& svg() const { return svg_; }

 private:
  static constexpr double kTop = 70;
  static constexpr double kBottom = 290;
  static constexpr double kWidth = 330;

  double X(size_t place) const {
    return left_ + kWidth * (static_cast<double>(place) + 0.5) / static_cast<double>(places_);
  }
  double Y(double value) const { return kBottom - (kBottom - kTop) * axis_.Place(value); }

  double left_;
  size_t places_;
  Axis axis_;
  std::string svg_;
};

// The smallest of 1, 2, 5, 10, 20 ... that is not below `value`.
double RoundUp(double value) {
  const double unit = std::pow(10.0, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (value <= step * unit) return step * unit;
  }
  return 10 * unit;
}

constexpr const char* kColors[] = {"#1f77b4", "#d95f02", "#2ca02c", "#9467bd", "#8c564b"};

std::string DrawBudgets(const Report& report) {
  std::vector<std::string> places;
  double most = 0;
  for (const BudgetRun& run : report.runs) {
    places.push_back(FormatByteSize(run.budget_bytes));
    most = std::max(most, run.tokens_per_second());
  }
  Panel panel(70, "tokens a second, decoding", "memory budget; dashes: what the drive allows",
              places, Axis::Linear(RoundUp(most * 1.1)));
  for (size_t i = 0; i < report.runs.size(); ++i) {
    const BudgetRun& run = report.runs[i];
    panel.Bar(i, run.tokens_per_second(), kColors[0]);
    if (run.bytes_per_token > 0) {
      panel.Mark(i, report.drive_bytes_per_second / static_cast<double>(run.bytes_per_token));
    }
  }
  return panel.svg();
}

std::string DrawPrompts(const Report& report) {
  std::vector<uint64_t> lengths;
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const BudgetRun& run : report.runs) {
    for (const PromptRun& prompt : run.prompts) {
      lengths.push_back(prompt.tokens);
      const double each = prompt.seconds / static_cast<double>(prompt.tokens);
      least = std::min(least, each);
      most = std::max(most, each);
    }
  }
  if (lengths.empty()) return {};
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  std::vector<std::string> places;
  places.reserve(lengths.size());
  for (const uint64_t length : lengths) places.push_back(std::to_string(length));
  Panel panel(490, "seconds a position, prompt", "length of the prompt, tokens", places,
              Axis::Decades(least, most));
  for (size_t i = 0; i < report.runs.size(); ++i) {
    std::vector<std::pair<size_t, double>> points;
    for (const PromptRun& prompt : report.runs[i].prompts) {
      const auto at = std::lower_bound(lengths.begin(), lengths.end(), prompt.tokens);
      points.emplace_back(static_cast<size_t>(at - lengths.begin()),
                          prompt.seconds / static_cast<double>(prompt.tokens));
    }
    std::sort(points.begin(), points.end());
    panel.Line(points, kColors[i % std::size(kColors)], FormatByteSize(report.runs[i].budget_bytes),
               i);
  }
  return panel.svg();
}

}  // namespace

std::string FormatBenchReport(const Json& json) {
  const Report report = ReadReport(json);
  std::string text = fmt::format(
      "{}\n\ndrive    {}/s at best ({})\nmemory   {}/s read by all threads\nmultiply {:.3g} GFMA/s "
      "at "
      "most\n\n",
      report.model, Bytes(report.drive_bytes_per_second), report.drive,
      Bytes(report.read_bytes_per_second), report.multiply_adds_per_second / 1e9);
  text += "weights  rows    speed              limit   of it\n";
  for (const Product& product : report.products) {
    text += fmt::format("{:<8} {:>4} {:>8.3g} {:<6} {:>8.3g} {:>6.0f} %\n", product.weights,
                        product.rows, product.speed, product.unit, product.limit,
                        100 * product.speed / product.limit);
  }
  text += "\nbudget     tokens/s  s/token  read a token   drive        compute waited\n";
  for (const BudgetRun& run : report.runs) {
    text += fmt::format("{:<10} {:>8.3g} {:>8.3g} {:>13} {:>9}/s {:>15.0f} %\n",
                        FormatByteSize(run.budget_bytes), run.tokens_per_second(),
                        run.seconds_per_token, FormatByteSize(run.bytes_per_token),
                        Bytes(run.drive_bytes_per_second), 100 * run.compute_waited);
  }
  text += "\nbudget     prompt   seconds  s/position\n";
  for (const BudgetRun& run : report.runs) {
    for (const PromptRun& prompt : run.prompts) {
      text += fmt::format("{:<10} {:>6} {:>9.3g} {:>11.3g}\n", FormatByteSize(run.budget_bytes),
                          prompt.tokens, prompt.seconds,
                          prompt.seconds / static_cast<double>(prompt.tokens));
    }
  }
  return text;
}

std::string DrawBenchReport(const Json& json) {
  const Report report = ReadReport(json);
  if (report.runs.empty()) Fail(ErrorKind::kUsage, "the report has no runs to draw");
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 860 350\" width=\"860\" "
      "height=\"350\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<style>.title{{font-weight:bold}}.middle{{text-anchor:middle}}.end{{text-anchor:end}}"
      ".frame{{fill:none;stroke:#333}}.grid{{stroke:#ddd}}"
      ".limit{{stroke:#d95f02;stroke-width:2;stroke-dasharray:5 3}}</style>\n"
      "<rect width=\"860\" height=\"350\" fill=\"#fff\"/>\n"
      "<text x=\"20\" y=\"24\">{}</text>\n{}{}</svg>\n",
      Escaped(report.model), DrawBudgets(report), DrawPrompts(report));
}

}  // namespace kimi_k3

// A picture of where the bytes of a checkpoint are: a bar a layer, coloured by what they are for.
#include "cli/byte_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/byte_size.h"

namespace kimi_k3 {
namespace {

constexpr double kWidth = 1200;
constexpr double kHeight = 560;
constexpr double kLeft = 80;
constexpr double kTop = 120;
constexpr double kBottom = 40;
constexpr size_t kMostLabels = 32;

constexpr std::array<const char*, kByteGroups> kColours = {
    "#e8a33d", "#3b7dd8", "#7b4fc9", "#c94f7b", "#2fa4a0", "#5c9e4a", "#666666", "#bbbbbb"};

uint64_t Total(const LayerBytes& layer) {
  return std::accumulate(layer.bytes.begin(), layer.bytes.end(), uint64_t{0});
}

std::string Rectangle(double x, double y, double width, double height, size_t group,
                      const std::string& title) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\">"
      "<title>{}</title></rect>\n",
      x, y, width, height, kColours[group], title);
}

std::string Label(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     text);
}

std::string Legend(const InspectReport& report) {
  std::string svg;
  size_t place = 0;
  for (size_t group = 0; group < kByteGroups; ++group) {
    uint64_t bytes = 0;
    for (const LayerBytes& layer : report.layers) bytes += layer.bytes[group];
    if (bytes == 0) continue;
    const std::string name(GroupName(static_cast<ByteGroup>(group)));
    const double share = 100 * static_cast<double>(bytes) / static_cast<double>(report.bytes);
    const size_t column = place % 4;
    const size_t row = place / 4;
    const double x = kLeft + static_cast<double>(column) * 275;
    const double y = 50 + static_cast<double>(row) * 22;
    svg += Rectangle(x, y - 11, 13, 13, group, name);
    svg += Label(x + 19, y, "start",
                 fmt::format("{}: {}, {:.2f} %", name, FormatByteSize(bytes), share));
    ++place;
  }
  return svg;
}

}  // namespace

std::string BytePicture(const InspectReport& report) {
  std::vector<LayerBytes> bars;
  uint64_t most = 1;
  for (const LayerBytes& layer : report.layers) {
    if (Total(layer) == 0) continue;
    bars.push_back(layer);
    most = std::max(most, Total(layer));
  }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\""
      " font-size=\"13\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kWidth, kHeight);
  svg += Label(kLeft, 24, "start",
               fmt::format("{} in {} tensors, by layer", FormatByteSize(report.bytes),
                           Grouped(report.tensors)));
  svg += Legend(report);
  const double floor = kHeight - kBottom;
  const double step = (kWidth - kLeft - 20) / static_cast<double>(std::max<size_t>(1, bars.size()));
  const double scale = (floor - kTop) / static_cast<double>(most);
  svg += Label(kLeft - 6, kTop + 10, "end", FormatByteSize(most));
  svg += Label(kLeft - 6, floor, "end", "0");
  const size_t every = std::max<size_t>(1, bars.size() / kMostLabels);
  for (size_t bar = 0; bar < bars.size(); ++bar) {
    const double x = kLeft + static_cast<double>(bar) * step;
    double y = floor;
    for (size_t group = 0; group < kByteGroups; ++group) {
      const uint64_t bytes = bars[bar].bytes[group];
      if (bytes == 0) continue;
      const double height = static_cast<double>(bytes) * scale;
      y -= height;
      svg +=
          Rectangle(x, y, step * 0.9, height, group,
                    fmt::format("{}: {}, {}", bars[bar].name,
                                GroupName(static_cast<ByteGroup>(group)), FormatByteSize(bytes)));
    }
    const bool numbered = bars[bar].name.find_first_not_of("0123456789") == std::string::npos;
    if (bar % every == 0 || !numbered) {
      svg += Label(x + step * 0.45, floor + (numbered ? 16 : 32), "middle", bars[bar].name);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace kimi_k3

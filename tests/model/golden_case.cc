// A golden case on disk: a small checkpoint and the logits and tokens that are right for it.
#include "model/golden_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace kimi_k3 {
namespace {

std::vector<float> ReadFloats(const std::filesystem::path& path) {
  const std::string bytes = ReadWholeFile(path, uint64_t{1} << 30);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

}  // namespace

std::vector<std::filesystem::path> GoldenFolders() {
  std::vector<std::filesystem::path> folders;
  const std::filesystem::path source = KIMI_K3_SOURCE_DIR;
  for (const auto& root : {source / "tests/data/golden", source / "../shared/golden"}) {
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      if (std::filesystem::exists(entry.path() / "golden.json")) folders.push_back(entry.path());
    }
  }
  std::ranges::sort(folders);
  return folders;
}

GoldenCase LoadGoldenCase(const std::filesystem::path& folder) {
  const auto json = nlohmann::json::parse(ReadWholeFile(folder / "golden.json", uint64_t{1} << 24));
  GoldenCase golden;
  golden.name = folder.filename();
  golden.checkpoint = folder / "checkpoint";
  golden.prompt_ids = json.at("prompt_ids").get<std::vector<int32_t>>();
  golden.greedy_ids = json.at("greedy_ids").get<std::vector<int32_t>>();
  const bool f64 = std::filesystem::exists(folder / "prompt_logits_f64.f32");
  golden.prompt_logits = ReadFloats(folder / (f64 ? "prompt_logits_f64.f32" : "prompt_logits.f32"));
  golden.greedy_logits = ReadFloats(folder / "greedy_logits.f32");
  for (size_t layer = 0; layer < 100; ++layer) {
    const auto file = folder / ("kda_state_layer" + std::to_string(layer) + ".f32");
    if (!std::filesystem::exists(file)) continue;
    golden.kda_state = ReadFloats(file);
    golden.state_layer = layer;
  }
  return golden;
}

double RelativeL2(const float* a, const float* b, size_t n) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference / norm);
}

}  // namespace kimi_k3

// A golden case on disk: a small checkpoint and the logits and tokens that are right for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kimi_k3 {

struct GoldenCase {
  std::string name;
  std::filesystem::path checkpoint;
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> greedy_ids;
  std::vector<float>
      prompt_logits;  // [prompt, vocabulary], float64 rounded where there is such a file
  std::vector<float> greedy_logits;  // [greedy, vocabulary]
  std::vector<float> kda_state;      // of `state_layer` after the prompt, empty where not given
  size_t state_layer = 0;
};

// The folders of all cases: those of tests/data/golden, and the vendor's where they lie beside the
// repository.
std::vector<std::filesystem::path> GoldenFolders();

GoldenCase LoadGoldenCase(const std::filesystem::path& folder);

// ||a - b|| / ||b||
double RelativeL2(const float* a, const float* b, size_t n);

}  // namespace kimi_k3

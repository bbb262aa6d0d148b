// Small golden checkpoints opened as engines.
#pragma once

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "kimi_k3/engine.h"

namespace kimi_k3 {

inline std::filesystem::path GoldenFolder(const std::string& name) {
  return std::filesystem::path(KIMI_K3_SOURCE_DIR) / "tests/data/golden" / name;
}

// The ids under `key` ("prompt_ids", "greedy_ids") of a golden case.
inline std::vector<TokenId> GoldenIds(const std::string& name, const char* key) {
  const std::string text = ReadWholeFile(GoldenFolder(name) / "golden.json", uint64_t{1} << 24);
  return nlohmann::json::parse(text).at(key).get<std::vector<TokenId>>();
}

inline EngineOptions GoldenOptions(const std::string& name, size_t context = 64,
                                   size_t prompt_chunk = 0) {
  EngineOptions options;
  options.model_dir = GoldenFolder(name) / "checkpoint";
  options.context = context;
  options.sequences = 4;
  options.threads = 1;
  options.prompt_chunk = prompt_chunk;
  return options;
}

}  // namespace kimi_k3

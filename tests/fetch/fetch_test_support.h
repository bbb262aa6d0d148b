// Folders and files for the tests of getting and verifying checkpoints.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "checkpoint/synth.h"
#include "checkpoint/synth_config.h"

namespace kimi_k3 {

// A folder that is removed with its contents.
class ScratchDir {
 public:
  ScratchDir() {
    std::string name = testing::TempDir() + "kimi_k3_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void PutFile(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string GetFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A tiny checkpoint of all of K3's features.
inline void PutCheckpoint(const std::filesystem::path& folder, size_t shards = 3) {
  SynthOptions options;
  options.config_json = GeometryConfig("tiny", {5, 8, 64});
  options.output = folder;
  options.shards = shards;
  WriteSynthCheckpoint(options);
}

// The kind and message of what a call throws; kRun and "" where it throws nothing.
template <typename Call>
std::pair<ErrorKind, std::string> ErrorOf(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {ErrorKind::kRun, ""};
}

}  // namespace kimi_k3

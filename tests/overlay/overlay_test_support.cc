// Checkpoints and overlays for tests.
#include "overlay/overlay_test_support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace kimi_k3 {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
  static int number = 0;
  path_ = fs::path(testing::TempDir()) / fmt::format("kimi_k3_overlay_{}_{}", getpid(), number++);
  fs::remove_all(path_);
  fs::create_directories(path_);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path TrainedModel() { return fs::path(KIMI_K3_SOURCE_DIR) / "models" / "tiny"; }

fs::path CopyOfTrainedModel(const ScratchFolder& folder) {
  fs::copy(TrainedModel(), folder / "model");
  return folder / "model";
}

std::string ContentOf(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  EXPECT_TRUE(stream.good()) << file;
  return text.str();
}

std::map<std::string, std::string> FilesOf(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().filename()] = ContentOf(entry.path());
  }
  return files;
}

void FlipByte(const fs::path& file, uint64_t offset) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(stream.get() ^ 0x10);
  stream.seekp(static_cast<std::streamoff>(offset));
  stream.put(byte);
  EXPECT_TRUE(stream.good()) << file;
}

fs::path MakeOverlay(const ScratchFolder& folder, Dtype form, std::string_view name) {
  OverlayOptions options;
  options.output = folder / name;
  options.form = form;
  WriteOverlay(Checkpoint::Open(TrainedModel()), options);
  return options.output;
}

}  // namespace kimi_k3

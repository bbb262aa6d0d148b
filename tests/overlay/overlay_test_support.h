// Checkpoints and overlays for tests.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "checkpoint/checkpoint.h"
#include "overlay/overlay_writer.h"

namespace kimi_k3 {

// A folder of its own, removed with its contents.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::filesystem::path TrainedModel();  // the one in the repository
// A copy that may be changed.
std::filesystem::path CopyOfTrainedModel(const ScratchFolder& folder);

std::string ContentOf(const std::filesystem::path& file);
// Name and content of the files of a folder, its own folders left out.
std::map<std::string, std::string> FilesOf(const std::filesystem::path& folder);
// Changes the byte at `offset`.
void FlipByte(const std::filesystem::path& file, uint64_t offset);

// Writes one of the trained model and gives its folder.
std::filesystem::path MakeOverlay(const ScratchFolder& folder, Dtype form,
                                  std::string_view name = "overlay");

}  // namespace kimi_k3

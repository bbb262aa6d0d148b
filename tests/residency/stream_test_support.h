// Walks a weight stream as a model does, and what such a walk must have seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "residency/weight_stream.h"

namespace kimi_k3 {

// A scratch folder that vanishes with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Folder of a golden case's checkpoint in the repository.
std::filesystem::path GoldenCheckpoint(const std::string& name);
// A copy that a test may damage.
std::filesystem::path CopyOfGolden(const std::string& name, const ScratchFolder& scratch);

// The name as GoogleTest wants it in the name of a test.
std::string TestName(std::string name);

// The bytes of one matrix, or of one expert's three matrices, as a walk saw them.
struct Visit {
  std::string what;
  std::vector<std::byte> bytes;
  bool operator==(const Visit&) const = default;
};

// Which experts a pass wants of a layer.
using ExpertChoice = std::function<std::vector<int32_t>(size_t layer)>;
// Some experts of every layer, others in every pass.
ExpertChoice SomeExperts(const Checkpoint& checkpoint, size_t pass);
ExpertChoice AllExperts(const Checkpoint& checkpoint);

// The walk of one pass, experts in ascending order however they came.
std::vector<Visit> RunPass(WeightStream& stream, const Checkpoint& checkpoint, bool with_head,
                           const ExpertChoice& choice, ExpertOrder order = ExpertOrder::kArrival);

// The same, read from the files with nothing of residency/ in between.
std::vector<Visit> ExpectedPass(const Checkpoint& checkpoint, bool with_head,
                                const ExpertChoice& choice);

// The row of the embedding, read likewise.
std::vector<float> ExpectedEmbeddingRow(const Checkpoint& checkpoint, size_t token);

// Names of what differs, for messages; empty where nothing does.
std::string Difference(const std::vector<Visit>& got, const std::vector<Visit>& want);

}  // namespace kimi_k3

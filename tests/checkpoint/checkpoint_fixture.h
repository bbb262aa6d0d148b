// A tiny valid checkpoint to damage in one place at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kimi_k3 {

// A folder of its own below the test's temporary folder, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string ReadFile(const std::filesystem::path& path);
void WriteFile(const std::filesystem::path& path, std::string_view text);

// A safetensors file in two parts that can be edited.
struct ShardParts {
  std::string header;  // JSON text
  std::string data;
};
ShardParts ReadShard(const std::filesystem::path& path);
// With the length field that fits the header.
void WriteShard(const std::filesystem::path& path, const ShardParts& parts);

// A copy of one made-up checkpoint: 5 layers (the first dense, the last two MLA), 8 experts, three
// of them chosen, all of K3's features, vision tensors, 3 shards (or 1 without an index).
class CheckpointFixture {
 public:
  explicit CheckpointFixture(size_t shards = 3);

  const std::filesystem::path& dir() const { return folder_.path(); }
  std::filesystem::path ShardPath(size_t number, size_t total = 3) const;
  std::filesystem::path IndexPath() const { return dir() / "model.safetensors.index.json"; }

  nlohmann::json Config() const;
  void SetConfig(const nlohmann::json& config);
  nlohmann::json Index() const;
  void SetIndex(const nlohmann::json& index);

  // The shard that holds a tensor, by the index.
  std::filesystem::path ShardOf(const std::string& tensor) const;
  // Edits the header entry of a tensor and leaves the data as they are.
  void EditEntry(const std::string& tensor, const nlohmann::json& changes);
  // Replaces a tensor by zeros of another dtype and shape, moving whatever follows.
  void ReplaceTensor(const std::string& tensor, const std::string& dtype,
                     const std::vector<uint64_t>& shape);
  // Takes a tensor out of its shard and, unless keep_in_index, out of the index.
  void RemoveTensor(const std::string& tensor, bool keep_in_index = false);

  // What opening it says; empty where it opens.
  std::string OpenError() const;

 private:
  void Rebuild(const std::filesystem::path& shard, const std::string& tensor,
               const nlohmann::json& entry);

  TemporaryFolder folder_;
};

}  // namespace kimi_k3

// A tiny valid checkpoint to damage in one place at a time.
#include "checkpoint/checkpoint_fixture.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/synth.h"
#include "checkpoint/synth_config.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Made once a process for each number of shards, then copied.
const fs::path& Original(size_t shards) {
  static std::map<size_t, std::unique_ptr<TemporaryFolder>> made;
  std::unique_ptr<TemporaryFolder>& folder = made[shards];
  if (!folder) {
    folder = std::make_unique<TemporaryFolder>();
    SynthOptions options;
    options.config_json = GeometryConfig("tiny", {5, 8, 64});
    options.output = folder->path();
    options.shards = shards;
    WriteSynthCheckpoint(options);
  }
  return folder->path();
}

uint64_t BytesOf(const std::string& dtype, const std::vector<uint64_t>& shape) {
  const std::map<std::string, uint64_t> sizes = {{"F64", 8}, {"I64", 8}, {"F32", 4},
                                                 {"I32", 4}, {"F16", 2}, {"BF16", 2}};
  const auto size = sizes.find(dtype);
  uint64_t bytes = size == sizes.end() ? 1 : size->second;
  for (const uint64_t n : shape) bytes *= n;
  return bytes;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = testing::TempDir() + "kimi_k3_XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteFile(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

ShardParts ReadShard(const fs::path& path) {
  const std::string file = ReadFile(path);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  return {file.substr(8, length), file.substr(8 + length)};
}

void WriteShard(const fs::path& path, const ShardParts& parts) {
  const uint64_t length = parts.header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  WriteFile(path, file + parts.header + parts.data);
}

CheckpointFixture::CheckpointFixture(size_t shards) {
  for (const auto& entry : fs::directory_iterator(Original(shards))) {
    fs::copy(entry.path(), dir() / entry.path().filename());
  }
}

fs::path CheckpointFixture::ShardPath(size_t number, size_t total) const {
  return dir() / fmt::format("model-{:05}-of-{:06}.safetensors", number, total);
}

json CheckpointFixture::Config() const { return json::parse(ReadFile(dir() / "config.json")); }

void CheckpointFixture::SetConfig(const json& config) {
  WriteFile(dir() / "config.json", config.dump());
}

json CheckpointFixture::Index() const { return json::parse(ReadFile(IndexPath())); }

void CheckpointFixture::SetIndex(const json& index) { WriteFile(IndexPath(), index.dump()); }

fs::path CheckpointFixture::ShardOf(const std::string& tensor) const {
  return dir() / Index()["weight_map"].at(tensor).get<std::string>();
}

void CheckpointFixture::EditEntry(const std::string& tensor, const json& changes) {
  const fs::path path = ShardOf(tensor);
  ShardParts parts = ReadShard(path);
  json header = json::parse(parts.header);
  header.at(tensor).update(changes);
  parts.header = header.dump();
  WriteShard(path, parts);
}

// Lays the data out anew, in the old order, with `tensor` as `entry` says; null removes it.
void CheckpointFixture::Rebuild(const fs::path& shard, const std::string& tensor,
                                const json& entry) {
  const ShardParts parts = ReadShard(shard);
  json header = json::parse(parts.header);
  std::map<uint64_t, std::string> order;
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") order[value["data_offsets"][0].get<uint64_t>()] = name;
  }
  std::string data;
  for (const auto& [begin, name] : order) {
    json& value = header[name];
    std::string bytes = parts.data.substr(begin, value["data_offsets"][1].get<uint64_t>() - begin);
    if (name == tensor) {
      if (entry.is_null()) {
        header.erase(name);
        continue;
      }
      value = entry;
      bytes.assign(BytesOf(entry["dtype"], entry["shape"]), '\0');
    }
    value["data_offsets"] = {data.size(), data.size() + bytes.size()};
    data += bytes;
  }
  WriteShard(shard, {header.dump(), data});
}

void CheckpointFixture::ReplaceTensor(const std::string& tensor, const std::string& dtype,
                                      const std::vector<uint64_t>& shape) {
  Rebuild(ShardOf(tensor), tensor, {{"dtype", dtype}, {"shape", shape}});
}

void CheckpointFixture::RemoveTensor(const std::string& tensor, bool keep_in_index) {
  Rebuild(ShardOf(tensor), tensor, nullptr);
  if (keep_in_index) return;
  json index = Index();
  index["weight_map"].erase(tensor);
  SetIndex(index);
}

std::string CheckpointFixture::OpenError() const {
  try {
    Checkpoint::Open(dir());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace kimi_k3

// The requests of a batch: a file of JSON lines as OpenAI's batch interface has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/file.h"
#include "cli/batch_id.h"
#include "cli/batch_plan.h"

namespace kimi_k3 {

inline constexpr uint64_t kMostBatchLineBytes = uint64_t{16} << 20;

enum class BatchKind : uint8_t { kChat, kText, kScore };

struct BatchRequest {
  std::string custom_id;
  BatchKind kind = BatchKind::kChat;
  std::string body;  // a JSON object
};

// What is wrong with a line that is no request.
struct BatchProblem {
  std::string code;
  std::string message;
  std::string custom_id = {};  // where it has one of its own
};

// {"custom_id", "method": "POST", "url", "body"} (not trusted). url: /v1/chat/completions,
// /v1/completions or /v1/score.
std::variant<BatchRequest, BatchProblem> ParseBatchLine(std::string_view line);

// A line of the file that is not blank.
struct BatchLine {
  uint64_t number = 0;  // from 1
  uint64_t offset = 0;
  uint64_t bytes = 0;
  // Of the request and all that its answer depends on; of a line that is no request, of the line.
  BatchId id;
  uint64_t twin = 0;  // the earlier line that has the same custom_id; 0: none
};

// Keeps some 150 bytes for each line, never the lines themselves. One thread at a time.
class BatchInput {
 public:
  // Reads the file once. settings: what the answers depend on besides the requests. Throws
  // Error(kIo) for what is no regular file or cannot be read.
  BatchInput(std::filesystem::path path, std::string_view settings);

  const std::filesystem::path& path() const { return path_; }
  const UniqueFd& file() const { return fd_; }
  std::span<const BatchLine> lines() const { return lines_; }
  // Reads a line again. Throws Error(kIo) where it is no longer what it was.
  std::variant<BatchRequest, BatchProblem> Read(size_t index) const;

  std::optional<size_t> Find(const BatchId& id) const;
  bool HasCustomId(std::string_view custom_id) const;

  // What the lines that were taken ask for.
  const BatchDemand& demand() const { return demand_; }
  int64_t changed() const { return changed_; }  // when the file last was, Unix time

 private:
  void Add(const BatchLine& line, std::string_view text);
  BatchId IdOf(const BatchLine& line, std::string_view text, bool is_request) const;

  const std::filesystem::path path_;
  const std::string settings_;
  UniqueFd fd_;
  int64_t changed_ = 0;
  std::vector<BatchLine> lines_;
  std::unordered_map<BatchId, size_t, BatchIdHash> by_id_;
  std::unordered_map<BatchId, uint64_t, BatchIdHash> custom_ids_;  // the line of each
  BatchDemand demand_ = {.longest_line_bytes = 0};
};

}  // namespace kimi_k3

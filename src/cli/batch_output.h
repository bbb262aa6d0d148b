// The results of a batch: a file of JSON lines that grows by whole, synced lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "cli/batch_input.h"
#include "text/json_value.h"

namespace kimi_k3 {

// One result as OpenAI's batch interface has it, with its line feed. custom_id: empty for none.
// body: a JSON text on one line.
std::string BatchResultLine(const BatchId& id, std::string_view custom_id, int status,
                            std::string_view body);
// The result of a line that is no request.
std::string BatchProblemLine(const BatchId& id, const BatchProblem& problem);

// Owns the file while it lives: another program that opens it is refused. One thread at a time.
class BatchOutput {
 public:
  // Makes the file, or takes up the one that is there: cuts off a last line that was not written to
  // its end, and removes lines of requests that were refused and are others now, or gone (the file
  // without them takes its place in one step). Refuses (Error(kUsage)) a file with anything but
  // results of these requests, or with two of the same one. changed_flags: for messages, which
  // flags are others than the file was begun with; empty: none; unset: it is not known. Throws
  // Error(kIo) where it cannot be read or written or another program has it. input must outlive it.
  BatchOutput(std::filesystem::path path, const BatchInput& input,
              std::optional<std::string> changed_flags = std::nullopt);
  // A file that this object made and that nothing came into is removed, but for Keep.
  ~BatchOutput();
  BatchOutput(const BatchOutput&) = delete;
  BatchOutput& operator=(const BatchOutput&) = delete;

  const std::filesystem::path& path() const { return path_; }
  bool has(size_t index) const { return line_of_[index] != 0; }  // a result of that input line
  size_t results() const { return results_; }                    // of lines of the input
  size_t unanswered() const { return unanswered_; }  // of these, with another status than 200
  std::string Standing() const;                      // "97 of 100 requests done, 3 refused"
  const std::optional<std::string>& changed_flags() const { return changed_flags_; }
  uint64_t cut_bytes() const { return cut_bytes_; }    // of a torn line
  size_t removed() const { return outdated_.size(); }  // lines of requests that are others now

  // The file stays, be it empty.
  void Keep() { made_here_ = false; }
  // A result of line `index`, to be written.
  void Add(size_t index, std::string_view line, bool answered);
  uint64_t waiting_bytes() const { return waiting_.size(); }
  // Writes and syncs what was added. Throws Error(kIo): what is in the file is whole even then, and
  // what was not written is still to be had by a later run.
  void Sync();

 private:
  struct Stretch {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  void ReadResults();
  // False: the line is outdated.
  bool Take(std::string_view line);
  bool IsOutdated(const text::JsonValue& result, bool refused);
  void RefuseAnotherJob() const;
  void CutTornLine(std::string_view torn);
  void RemoveOutdated();
  void Count(bool answered);

  const std::filesystem::path path_;
  const BatchInput& input_;
  const std::optional<std::string> changed_flags_;
  bool made_here_ = false;
  UniqueFd fd_;
  std::vector<uint64_t> line_of_;  // of the file, by line of the input; 0: none
  uint64_t lines_ = 0;             // of the file
  std::vector<Stretch> outdated_;
  bool any_known_ = false;  // a line that belongs to a request of the input
  std::string stray_;       // the first refused request that the input does not have
  uint64_t stray_line_ = 0;
  size_t results_ = 0;
  size_t unanswered_ = 0;
  uint64_t bytes_ = 0;  // whole lines in the file
  uint64_t cut_bytes_ = 0;
  std::string waiting_;
};

}  // namespace kimi_k3

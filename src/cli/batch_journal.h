// What a batch has generated of answers that are not finished, so that a run that is killed loses
// seconds and not nights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/batch_flags.h"
#include "cli/batch_output.h"
#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {

// A file beside the results, OUT.begun: a line of the flags that the job was begun with, and lines
// {"id", "from", "tokens"}: tokens of one answer from a place in it on. Whoever owns the results
// owns it too. Note may be called from any thread.
class BatchJournal {
 public:
  // Takes up what is there for requests that `output` has no result of, and forgets the rest. A
  // file that cannot be read is treated as none. Throws Error(kUsage) where all that was begun was
  // begun with other requests, another model or other flags. Both must outlive it.
  BatchJournal(const BatchInput& input, const BatchOutput& output, BatchFlags flags = {});

  // The flags that an unfinished job with these results was begun with; nothing where there is
  // none.
  static std::optional<BatchFlags> FlagsOf(const std::filesystem::path& results);

  // The batch begins: from now on the file tells its flags. Throws Error(kIo).
  void Start();
  // What an earlier run generated for line `index` of the input; given once.
  std::vector<TokenId> TakeBegun(size_t index);
  size_t begun() const { return begun_.size(); }  // answers

  // Token `place` (from 0) of the answer to line `index` has been chosen.
  void Note(size_t index, size_t place, TokenId token);
  // Writes and syncs what was noted. Throws Error(kIo).
  void Sync();
  // The batch is done.
  void Remove();

 private:
  struct Piece {
    size_t from = 0;
    std::vector<TokenId> tokens;
  };
  void ReadPieces();
  void Take(std::string_view line);
  void RefuseWhatOthersBegan() const;
  void Rewrite();
  std::string LineOf(size_t index, const Piece& piece) const;

  const std::filesystem::path path_;
  const BatchInput& input_;
  const BatchOutput& output_;
  const BatchFlags flags_;
  std::map<size_t, std::vector<TokenId>> begun_;
  std::set<std::string> others_;  // answers that this input does not ask for
  bool any_known_ = false;        // one that it does
  UniqueFd fd_;
  uint64_t bytes_ = 0;  // of the file
  std::mutex mutex_;
  std::map<size_t, Piece> noted_;
};

}  // namespace kimi_k3

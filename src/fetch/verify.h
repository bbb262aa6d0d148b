// Is a checkpoint whole: every file against its known hash, every shard against its own header.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kimi_k3 {

struct VerifyProgress {
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
  size_t files_done = 0;
  size_t files_total = 0;
};

struct VerifyOptions {
  std::vector<std::filesystem::path> folders;
  std::optional<std::filesystem::path> hash_list;  // as sha256sum writes it
  bool quick = false;                              // sizes and headers alone
  bool write_hashes = false;                       // remember the hashes of what is found good
  bool go_on = false;  // leave out what an interrupted verification had found good
  size_t threads = 0;  // 0: as suits the machine
  // Of this many bytes on, what is found good is noted in the first folder until all is done.
  uint64_t remember_from_bytes = uint64_t{4} << 30;
  // What else is wrong with files before their contents are read: lines that begin with the path of
  // the file, or are about the checkpoint as a whole; empty where there is nothing. Null: not asked.
  std::function<std::string()> further_problems;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const VerifyProgress&)> progress;  // some times a second
};

enum class FileState : uint8_t {
  kGood,        // everything that is known of it holds
  kBad,         // it is not what it should be
  kMissing,     // known of, but not there
  kUnreadable,  // the system failed to read it
};

struct FileFinding {
  std::string name;
  std::filesystem::path path;
  FileState state = FileState::kGood;
  bool hash_holds = false;            // all of its bytes are what its known hash says
  bool hashed = false;                // there was a hash to compare with (or block sums)
  bool remembered = false;            // good by an earlier, interrupted verification
  std::vector<std::string> problems;  // each naming file and, where it can be told, tensor
};

struct VerifyReport {
  std::vector<FileFinding> files;     // sorted by name
  std::vector<std::string> problems;  // of the checkpoint as a whole
  uint64_t bytes_read = 0;
  size_t bad() const;  // files that are not good
  bool good() const { return problems.empty() && bad() == 0; }
  bool unreadable() const;
};

// Verifies the shards that the index names, config, index and tokenizer, and every other file whose
// hash is known: from the hash list, or else from the manifest that pull and write_hashes leave
// (also for a part), or else from what the huggingface client left. What is told of a bad file is
// what can be known: a header that does not add up and a number that no weight may be name the
// tensor; a hash names the file, and where block sums are remembered the tensors in the bad block.
// A file of another size than its header or manifest says is told of in one line and not read. A
// shard with holes is bad unless its known hash holds, its header says that they are meant
// (kMadeOfHoles), or only a part of it was fetched.
// Throws Error(kUsage) for a hash list that is none, kCheckpoint for a folder that is not there or
// a manifest that cannot be read, kInterrupted once *stop is set.
VerifyReport VerifyCheckpoint(const VerifyOptions& options);

}  // namespace kimi_k3

// What a verification has found of each file, gathered from several threads.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "fetch/known_file.h"
#include "fetch/verify.h"

namespace kimi_k3 {

// Begins with every file being good. Files are named as in KnownFiles. Thread-safe.
class VerifyFindings {
 public:
  explicit VerifyFindings(const KnownFiles& known);

  // A file that is no longer good; a worse state stays. The same problem is told once.
  void Note(const std::string& name, FileState state, const std::string& problem);
  // Its size is wrong, which explains whatever else may be said of it.
  void NoteWrongSize(const std::string& name, const std::string& problem);
  // What is wrong with a shard's header, a line each, unless something is known to be wrong with
  // the shard already.
  void NoteHeader(const std::string& name, const std::string& problems);
  // A line of what opening the checkpoint says: given to the file that it begins with, or else to
  // the checkpoint as a whole.
  void NoteStructure(const std::string& line);
  // There was something to compare the file with, and whether its hash holds.
  void NoteHashed(const std::string& name, bool hashed, bool hash_holds);
  // Good by an earlier verification.
  void NoteRemembered(const std::string& name, bool hashed);

  FileState StateOf(const std::string& name) const;
  bool HasWrongSize(const std::string& name) const;

  // Two files may contradict each other; where the hash of one holds, it is the other's fault.
  void AcquitGoodFiles();

  // The report of all that was noted.
  VerifyReport Take();

 private:
  // Require the mutex.
  FileFinding& FindingOf(const std::string& name);
  const FileFinding& FindingOf(const std::string& name) const;
  void NoteLocked(const std::string& name, FileState state, const std::string& problem);

  mutable std::mutex mutex_;
  VerifyReport report_;
  std::set<std::string> wrong_size_;
};

}  // namespace kimi_k3

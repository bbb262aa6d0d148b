// Is one file of a checkpoint what it should be.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/block_sums.h"
#include "fetch/file_check.h"
#include "fetch/known_file.h"
#include "fetch/verify.h"
#include "fetch/verify_findings.h"

namespace kimi_k3 {

// Looks at one file at a time and notes what it finds. Several threads may use one object.
class FileVerifier {
 public:
  // The references must outlive it. bytes_read counts what it reads.
  FileVerifier(const VerifyOptions& options, VerifyFindings& findings,
               std::atomic<uint64_t>& bytes_read, const std::atomic<bool>& stop)
      : options_(options), findings_(findings), bytes_read_(bytes_read), stop_(stop) {}

  // The hashes of a file, to be remembered.
  struct Hashes {
    uint64_t bytes = 0;
    std::string sha256;
    std::optional<BlockSums> sums;  // of a shard
  };

  // Reads the whole file. Gives its hashes if they are wanted and it is good. Throws Error(kIo)
  // where reading fails, kInterrupted once *stop is set.
  std::optional<Hashes> Verify(const KnownFile& file) const;

  // Notes the first hole of a shard of which nothing else is wrong and that should have none. Only
  // a hash that holds can tell that its zeros are right. Throws as FirstUnmeantHole.
  void CheckHoles(const KnownFile& file) const;

 private:
  FileCheckRequest RequestFor(const KnownFile& file, const std::optional<BlockSums>& sums) const;
  void NoteContents(const KnownFile& file, const FileCheckRequest& request,
                    const std::optional<BlockSums>& sums, const FileCheckResult& result) const;
  std::string Advice(const KnownFile& file, const FileCheckRequest& first,
                     const std::optional<BlockSums>& sums) const;

  const VerifyOptions& options_;
  VerifyFindings& findings_;
  std::atomic<uint64_t>& bytes_read_;
  const std::atomic<bool>& stop_;
};

}  // namespace kimi_k3

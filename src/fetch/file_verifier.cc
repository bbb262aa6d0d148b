// Is one file of a checkpoint what it should be.
#include "fetch/file_verifier.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "checkpoint/fetched_part.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/shard_header.h"

namespace kimi_k3 {

namespace fs = std::filesystem;

std::optional<FileVerifier::Hashes> FileVerifier::Verify(const KnownFile& file) const {
  const auto sums = BlockSums::Load(SumsPath(file.folder, file.name));
  const FileCheckRequest request = RequestFor(file, sums);
  FileCheckResult result = CheckFile(request, bytes_read_, stop_);
  NoteContents(file, request, sums, result);
  const bool hash_holds = file.hash && result.digests.front() == file.hash->hex;
  findings_.NoteHashed(file.name, file.hash.has_value() || (file.part && sums), hash_holds);
  if (!options_.write_hashes || file.part || findings_.StateOf(file.name) != FileState::kGood) {
    return std::nullopt;
  }
  return Hashes{result.bytes, result.digests.back(), std::move(result.sums)};
}

FileCheckRequest FileVerifier::RequestFor(const KnownFile& file,
                                          const std::optional<BlockSums>& sums) const {
  FileCheckRequest request;
  request.path = file.path();
  if (file.shard && !file.part) {
    try {
      request.tensors = TensorSpans(file.path());
    } catch (const Error& error) {
      findings_.NoteHeader(file.name, error.what());
    }
  }
  if (file.part && sums) request.expected = &*sums;
  if (file.hash) request.digests.push_back(file.hash->kind);
  if (options_.write_hashes && !file.part) {
    request.digests.push_back(DigestKind::kSha256);
    request.sums = file.shard;
  }
  return request;
}

void FileVerifier::NoteContents(const KnownFile& file, const FileCheckRequest& request,
                                const std::optional<BlockSums>& sums,
                                const FileCheckResult& result) const {
  const std::string path = file.path().string();
  const auto note = [&](const std::string& problem) {
    findings_.Note(file.name, FileState::kBad, fmt::format("{}: {}", path, problem));
  };
  if (result.first_bad_number) note(*result.first_bad_number);
  const bool wrong_hash = file.hash && result.digests.front() != file.hash->hex;
  if (!file.hash || wrong_hash) CheckHoles(file);
  if (wrong_hash) {
    note(fmt::format("its {} is {}, but should be {}; {}",
                     file.hash->kind == DigestKind::kSha256 ? "SHA-256" : "git hash",
                     result.digests.front(), file.hash->hex, Advice(file, request, sums)));
  } else if (!result.bad_blocks.empty()) {
    note(fmt::format("differs from what was downloaded, first in the {} bytes from {} on",
                     sums->BytesOf(result.bad_blocks.front()),
                     sums->OffsetOf(result.bad_blocks.front())));
  }
}

void FileVerifier::CheckHoles(const KnownFile& file) const {
  if (!file.shard || file.part || findings_.StateOf(file.name) != FileState::kGood) return;
  const fs::path path = file.path();
  std::error_code error;
  if (FetchedPart(path, fs::file_size(path, error))) return;
  SafetensorsHeaderParser parser;
  const auto hole = FirstUnmeantHole(path, parser);
  if (!hole) return;
  findings_.Note(
      file.name, FileState::kBad,
      fmt::format("{}: has holes, which read as zeros, the first from byte {} to {}: it was never "
                  "fetched whole; fetch this file again{}",
                  path.string(), GroupedDigits(hole->begin), GroupedDigits(hole->end - 1),
                  file.hash && options_.quick
                      ? ", or see without --quick whether its hash holds all the same"
                      : ""));
}

// After a second look at a file whose hash is wrong: which block, and so which tensors, and what to
// do.
std::string FileVerifier::Advice(const KnownFile& file, const FileCheckRequest& first,
                                 const std::optional<BlockSums>& sums) const {
  std::error_code error;
  if (!sums || sums->source() != file.hash->hex ||
      sums->file_bytes() != fs::file_size(file.path(), error)) {
    return fmt::format(
        "{}fetch this file again",
        file.shard ? "which tensor cannot be told from the hash of the whole file; " : "");
  }
  FileCheckRequest request;
  request.path = file.path();
  request.expected = &*sums;
  std::atomic<uint64_t> uncounted{0};
  const std::vector<size_t> bad = CheckFile(request, uncounted, stop_).bad_blocks;
  if (bad.empty()) return "yet each of its blocks is right: it changed while it was read";
  const uint64_t begin = sums->OffsetOf(bad.front());
  const uint64_t end = begin + sums->BytesOf(bad.front());
  const std::string where =
      first.tensors.empty() ? std::string() : ": " + TensorsIn(first.tensors, begin, end);
  return fmt::format("{} of its {} blocks differ{}, first bytes {} to {}{}; fetch this file again",
                     bad.size(), sums->blocks(), bad.size() == 1 ? "s" : "", begin, end - 1, where);
}

}  // namespace kimi_k3

// The file of a session: a header, and sections of bytes in compressed, checksummed blocks.
#include "engine/session_file.h"

#include <fcntl.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "kimi_k3/session.h"

namespace kimi_k3 {
namespace {

// A text editor or a transfer in text mode would break the line ends, and be found out.
constexpr std::string_view kMagic = "\x89K3S\r\n\x1a\n";
constexpr size_t kSectionBlockBytes = size_t{1} << 20;
constexpr size_t kLongestHeaderBytes = size_t{1} << 16;
constexpr int kLevel = 1;
// Numbers of a state are four bytes wide: equal bytes of neighbours, such as exponents, compress
// once they stand together.
constexpr size_t kPlanes = 4;

// All first bytes, then all second bytes and so on; what is left over follows.
void Split(std::span<const std::byte> block, std::byte* planes) {
  const size_t n = block.size() / kPlanes;
  for (size_t i = 0; i < n; ++i) {
    for (size_t p = 0; p < kPlanes; ++p) planes[p * n + i] = block[i * kPlanes + p];
  }
  std::ranges::copy(block.subspan(n * kPlanes), planes + n * kPlanes);
}

void Join(const std::byte* planes, std::span<std::byte> block) {
  const size_t n = block.size() / kPlanes;
  for (size_t i = 0; i < n; ++i) {
    for (size_t p = 0; p < kPlanes; ++p) block[i * kPlanes + p] = planes[p * n + i];
  }
  std::copy(planes + n * kPlanes, planes + block.size(), block.data() + n * kPlanes);
}

template <size_t n>
std::array<std::byte, 4 * n> LittleEndian(const std::array<uint32_t, n>& numbers) {
  std::array<std::byte, 4 * n> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(numbers[i / 4] >> (8 * (i % 4)) & 0xffU);
  }
  return bytes;
}

uint32_t FromLittleEndian(const std::byte* bytes) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number |= static_cast<uint32_t>(bytes[i]) << (8 * i);
  return number;
}

std::string HeaderText(const SessionHeader& header) {
  return nlohmann::ordered_json{{"model", header.model},
                                {"part", header.part},
                                {"kv_cache", header.kv_cache},
                                {"state_type", header.state_type},
                                {"approximations", header.approximations},
                                {"fingerprint", header.fingerprint},
                                {"context", header.context},
                                {"tokens", header.tokens},
                                {"note_bytes", header.note_bytes}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string HeaderString(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) {
    Fail(ErrorKind::kIo, "\"{}\" of the header is missing or no text", key);
  }
  return *found;
}

// Not what nlohmann-json would make of a negative number or a fraction.
uint64_t HeaderCount(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned()) {
    Fail(ErrorKind::kIo, "\"{}\" of the header is missing or no count", key);
  }
  return *found;
}

// Files written before this was said have none but that of their cache.
std::string ApproximationsIn(const nlohmann::json& json) {
  if (json.contains("approximations")) return HeaderString(json, "approximations");
  const std::string cache = HeaderString(json, "kv_cache");
  return cache == "f32" ? "" : fmt::format("--kv-cache-quant {}", cache);
}

// Throws Error with what is wrong, without the file's name.
SessionHeader HeaderIn(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) Fail(ErrorKind::kIo, "the header is no JSON object");
  return {.model = HeaderString(json, "model"),
          .part = HeaderString(json, "part"),
          .kv_cache = HeaderString(json, "kv_cache"),
          .state_type = json.contains("state_type") ? HeaderString(json, "state_type") : "f32",
          .approximations = ApproximationsIn(json),
          .fingerprint = HeaderString(json, "fingerprint"),
          .context = HeaderCount(json, "context"),
          .tokens = HeaderCount(json, "tokens"),
          .note_bytes = HeaderCount(json, "note_bytes")};
}

}  // namespace

SessionWriter::SessionWriter(const std::filesystem::path& path, const SessionHeader& header)
    : path_(path),
      file_(path),
      context_(ZSTD_createCCtx()),
      planes_(kSectionBlockBytes),
      packed_(ZSTD_compressBound(kSectionBlockBytes)) {
  if (context_ == nullptr) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(context_, ZSTD_c_checksumFlag, 1);
  file_.Append(kMagic);
  file_.Append(LittleEndian<2>({kSessionVersion, 0}));
  bytes_ = kMagic.size() + 8;
  const std::string text = HeaderText(header);
  if (text.size() > kLongestHeaderBytes) {
    Fail(ErrorKind::kRun, "{}: cannot be written: the session's header is too long",
         path_.string());
  }
  AppendBlock(std::as_bytes(std::span(text)));
}

SessionWriter::~SessionWriter() { ZSTD_freeCCtx(context_); }

void SessionWriter::Append(std::span<const std::byte> section) {
  while (!section.empty()) {
    const size_t size = std::min(section.size(), kSectionBlockBytes);
    AppendBlock(section.first(size));
    section = section.subspan(size);
  }
}

void SessionWriter::AppendBlock(std::span<const std::byte> block) {
  Split(block, planes_.data());
  const size_t packed =
      ZSTD_compress2(context_, packed_.data(), packed_.size(), planes_.data(), block.size());
  if (ZSTD_isError(packed) != 0) {
    Fail(ErrorKind::kRun, "{}: the session cannot be compressed: {}", path_.string(),
         ZSTD_getErrorName(packed));
  }
  file_.Append(
      LittleEndian<2>({static_cast<uint32_t>(block.size()), static_cast<uint32_t>(packed)}));
  file_.Append(packed_.span().first(packed));
  bytes_ += 8 + packed;
}

void SessionWriter::Commit() { file_.Commit(); }

SessionReader::SessionReader(const std::filesystem::path& path)
    : path_(path),
      fd_(OpenForReading(path, O_NONBLOCK)),
      file_bytes_(FileSizeBytes(fd_, path)),
      context_(ZSTD_createDCtx()),
      planes_(kSectionBlockBytes),
      packed_(ZSTD_compressBound(kSectionBlockBytes)) {
  if (context_ == nullptr) throw std::bad_alloc();
  try {
    ReadMagic();
    ReadHeader();
  } catch (...) {
    ZSTD_freeDCtx(context_);
    throw;
  }
}

SessionReader::~SessionReader() { ZSTD_freeDCtx(context_); }

void SessionReader::FailDamaged(const std::string& what) const {
  Fail(ErrorKind::kIo,
       "{}: this session is damaged at offset {} ({}) and cannot be used: bring back a copy of it, "
       "or "
       "begin another one",
       path_.string(), at_, what);
}

void SessionReader::ReadMagic() {
  std::array<std::byte, kMagic.size() + 8> front = {};
  const size_t present = std::min<uint64_t>(front.size(), file_bytes_);
  ReadExactly(fd_, path_, 0, std::span(front).first(present));
  const size_t compared = std::min(present, kMagic.size());
  if (present == 0 || std::memcmp(front.data(), kMagic.data(), compared) != 0) {
    Fail(ErrorKind::kCheckpoint, "{}: is no session file of kimi_k3; name another file",
         path_.string());
  }
  if (present < front.size()) FailDamaged("the file ends here");
  const uint32_t version = FromLittleEndian(front.data() + kMagic.size());
  if (version != kSessionVersion) {
    Fail(ErrorKind::kCheckpoint,
         "{}: is a session of format {}, but this version of kimi_k3 knows only format {}: use the "
         "version that wrote it",
         path_.string(), version, kSessionVersion);
  }
  if (FromLittleEndian(front.data() + kMagic.size() + 4) != 0) FailDamaged("unknown flags");
  at_ = front.size();
}

void SessionReader::ReadHeader() {
  const BlockSizes sizes = ReadBlockSizes();
  if (sizes.raw == 0 || sizes.raw > kLongestHeaderBytes) FailDamaged("the header's size");
  std::string text(sizes.raw, '\0');
  ReadBlock(sizes, std::as_writable_bytes(std::span(text)));
  try {
    header_ = HeaderIn(text);
  } catch (const Error& error) {
    FailDamaged(error.what());
  }
  if (header_.note_bytes > kMostSessionNoteBytes) FailDamaged("the note's size");
}

SessionReader::BlockSizes SessionReader::ReadBlockSizes() {
  std::array<std::byte, 8> front;
  if (file_bytes_ - at_ < front.size()) FailDamaged("the file ends here");
  ReadExactly(fd_, path_, at_, front);
  const BlockSizes sizes = {.raw = FromLittleEndian(front.data()),
                            .stored = FromLittleEndian(front.data() + 4)};
  if (sizes.raw > kSectionBlockBytes || sizes.stored > packed_.size())
    FailDamaged("a block's size");
  if (sizes.stored > file_bytes_ - at_ - front.size()) FailDamaged("the file ends in this block");
  at_ += front.size();
  return sizes;
}

void SessionReader::ReadBlock(BlockSizes sizes, std::span<std::byte> block) {
  if (sizes.raw != block.size()) FailDamaged("a block's size");
  const std::span<std::byte> packed = packed_.span().first(sizes.stored);
  ReadExactly(fd_, path_, at_, packed);
  // The checksum that every frame ends with is compared here.
  const size_t raw =
      ZSTD_decompressDCtx(context_, planes_.data(), block.size(), packed.data(), packed.size());
  if (ZSTD_isError(raw) != 0) FailDamaged("a block is not what was written");
  if (raw != block.size()) FailDamaged("a block's contents are too short");
  Join(planes_.data(), block);
  at_ += sizes.stored;
}

void SessionReader::Read(std::span<std::byte> section) {
  while (!section.empty()) {
    const size_t size = std::min(section.size(), kSectionBlockBytes);
    ReadBlock(ReadBlockSizes(), section.first(size));
    section = section.subspan(size);
  }
}

void SessionReader::ExpectEnd() const {
  if (at_ != file_bytes_) FailDamaged("more follows than belongs to it");
}

}  // namespace kimi_k3

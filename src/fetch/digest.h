// Cryptographic digests of files, by OpenSSL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kimi_k3 {

enum class DigestKind : uint8_t { kSha256, kSha1 };

// Fed piece by piece. Not thread-safe; several at once may run in as many threads.
class Digest {
 public:
  // Throws Error(kRun) where the library refuses the kind.
  explicit Digest(DigestKind kind);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text);
  // The digest in lower-case hexadecimal; the object is used up.
  std::string Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What is known of a file's content: a SHA-256, or the SHA-1 that git names a small file by (of
// "blob SIZE", a zero byte and the content).
struct ExpectedHash {
  DigestKind kind = DigestKind::kSha256;
  std::string hex;  // lower case
};

// Whether the text is a digest of that kind in lower-case hexadecimal.
bool IsHexDigest(std::string_view text, DigestKind kind);

// The digest that a known hash is of, begun for a file of that many bytes.
Digest BeginDigest(DigestKind kind, uint64_t file_bytes);

// The first eight bytes of the block's SHA-256; never 0.
uint64_t SumOfBlock(std::span<const std::byte> block);

// The library and its version, for --version.
std::string DigestLibrary();

}  // namespace kimi_k3

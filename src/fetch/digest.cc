// Cryptographic digests of files, by OpenSSL.
#include "fetch/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"

namespace kimi_k3 {

struct Digest::State {
  struct Free {
    void operator()(EVP_MD_CTX* handle) const { EVP_MD_CTX_free(handle); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context{EVP_MD_CTX_new()};
};

Digest::Digest(DigestKind kind) : state_(std::make_unique<State>()) {
  const EVP_MD* algorithm = kind == DigestKind::kSha256 ? EVP_sha256() : EVP_sha1();
  if (!state_->context || EVP_DigestInit_ex(state_->context.get(), algorithm, nullptr) != 1) {
    Fail(ErrorKind::kRun, "the cryptographic library offers no {}",
         kind == DigestKind::kSha256 ? "SHA-256" : "SHA-1");
  }
}

Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::Update(std::span<const std::byte> bytes) {
  if (EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) != 1) {
    Fail(ErrorKind::kRun, "the cryptographic library failed to hash");
  }
}

void Digest::Update(std::string_view text) { Update(std::as_bytes(std::span(text))); }

std::string Digest::Finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  unsigned size = 0;
  if (EVP_DigestFinal_ex(state_->context.get(), bytes.data(), &size) != 1) {
    Fail(ErrorKind::kRun, "the cryptographic library failed to hash");
  }
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", bytes[i]);
  return hex;
}

bool IsHexDigest(std::string_view text, DigestKind kind) {
  const size_t length = kind == DigestKind::kSha256 ? 64 : 40;
  return text.size() == length && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Digest BeginDigest(DigestKind kind, uint64_t file_bytes) {
  Digest digest(kind);
  if (kind == DigestKind::kSha1) {
    digest.Update(fmt::format("blob {}", file_bytes));
    digest.Update(std::string_view("\0", 1));
  }
  return digest;
}

uint64_t SumOfBlock(std::span<const std::byte> block) {
  Digest digest(DigestKind::kSha256);
  digest.Update(block);
  const std::string hex = digest.Finish();
  uint64_t sum = 0;
  std::from_chars(hex.data(), hex.data() + 16, sum, 16);
  return sum == 0 ? 1 : sum;
}

std::string DigestLibrary() {
  return fmt::format("OpenSSL {}", OpenSSL_version(OPENSSL_VERSION_STRING));
}

}  // namespace kimi_k3

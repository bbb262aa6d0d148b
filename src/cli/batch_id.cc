// The names that a batch knows its requests by.
#include "cli/batch_id.h"

#include <fmt/format.h>

#include <charconv>

#include "fetch/digest.h"

namespace kimi_k3 {
namespace {

constexpr size_t kDigits = 16;  // of 64 bits

std::optional<uint64_t> ReadHex(std::string_view digits) {
  uint64_t bits = 0;
  const auto [end, status] =
      std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  if (status != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return bits;
}

std::optional<BatchId> ReadHexPair(std::string_view digits) {
  const std::optional<uint64_t> first = ReadHex(digits.substr(0, kDigits));
  const std::optional<uint64_t> second = ReadHex(digits.substr(kDigits, kDigits));
  if (!first || !second) return std::nullopt;
  return BatchId{{*first, *second}};
}

}  // namespace

BatchId BatchId::Of(std::initializer_list<std::string_view> parts) {
  Digest digest(DigestKind::kSha256);
  for (const std::string_view part : parts) {
    digest.Update(fmt::format("{} ", part.size()));
    digest.Update(part);
  }
  return ReadHexPair(digest.Finish()).value_or(BatchId{});
}

std::optional<BatchId> BatchId::FromName(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(std::string_view(kPrefix).size());
  if (name.size() != 2 * kDigits) return std::nullopt;
  return ReadHexPair(name);
}

std::string BatchId::Hex() const { return fmt::format("{:016x}{:016x}", bits[0], bits[1]); }

}  // namespace kimi_k3

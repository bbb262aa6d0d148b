// Well-formed, ill-formed and unfinished UTF-8.
#include "text/code_point.h"

#include <cstdint>
#include <cstring>

namespace kimi_k3::text {
namespace {

// Bounds of the second byte for a lead byte and the length of the whole; no length: never a lead.
struct LeadByte {
  size_t size_bytes = 0;
  unsigned char second_low = 0x80;
  unsigned char second_high = 0xBF;
};

LeadByte ClassifyLead(unsigned char lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xC2) return {};  // a continuation byte, or the lead of an overlong pair
  if (lead < 0xE0) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};  // below: overlong
  if (lead == 0xED) return {3, 0x80, 0x9F};  // above: surrogates
  if (lead < 0xF0) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};  // below: overlong
  if (lead < 0xF4) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};  // above: beyond U+10FFFF
  return {};
}

// Number of leading ASCII bytes, by eights.
size_t AsciiRun(std::string_view bytes) {
  size_t i = 0;
  for (uint64_t block = 0; i + sizeof(block) <= bytes.size(); i += sizeof(block)) {
    std::memcpy(&block, bytes.data() + i, sizeof(block));
    if ((block & 0x8080808080808080U) != 0) break;
  }
  while (i < bytes.size() && static_cast<unsigned char>(bytes[i]) < 0x80) ++i;
  return i;
}

}  // namespace

Utf8Prefix ReadUtf8Prefix(std::string_view bytes) {
  const LeadByte lead = ClassifyLead(static_cast<unsigned char>(bytes[0]));
  if (lead.size_bytes == 0) return {Utf8Prefix::Kind::kIllFormed, 1};
  for (size_t i = 1; i < lead.size_bytes; ++i) {
    if (i == bytes.size()) return {Utf8Prefix::Kind::kUnfinished, i};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const unsigned char low = i == 1 ? lead.second_low : 0x80;
    const unsigned char high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {Utf8Prefix::Kind::kIllFormed, i};
  }
  return {Utf8Prefix::Kind::kCharacter, lead.size_bytes};
}

size_t ValidUtf8Prefix(std::string_view bytes) {
  size_t position = 0;
  for (;;) {
    position += AsciiRun(bytes.substr(position));
    if (position == bytes.size()) return position;
    const Utf8Prefix prefix = ReadUtf8Prefix(bytes.substr(position));
    if (prefix.kind != Utf8Prefix::Kind::kCharacter) return position;
    position += prefix.size_bytes;
  }
}

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto tail = [&](int shift) {
    out += static_cast<char>(0x80 | (code_point >> shift & 0x3F));
  };
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += static_cast<char>(0xC0 | code_point >> 6);
    tail(0);
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xE0 | code_point >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | code_point >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

size_t AppendReplacingInvalid(std::string_view bytes, std::string& out) {
  for (;;) {
    const size_t valid = ValidUtf8Prefix(bytes);
    out += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) return 0;
    const Utf8Prefix prefix = ReadUtf8Prefix(bytes);
    if (prefix.kind == Utf8Prefix::Kind::kUnfinished) return bytes.size();
    out += kReplacement;
    bytes.remove_prefix(prefix.size_bytes);
  }
}

}  // namespace kimi_k3::text

// Looks up classes of code points: a table for ASCII, a binary search for the rest.
#include "text/unicode_class.h"

#include <algorithm>

namespace kimi_k3::text {
namespace {

constexpr int kMaskBits = 6;
constexpr uint32_t kMaskOfBits = (1U << kMaskBits) - 1;

constexpr std::array<ClassMask, 128> MakeAsciiClasses() {
  std::array<ClassMask, 128> classes{};
  for (size_t c = 0; c < classes.size(); ++c) {
    if (c >= 'A' && c <= 'Z') classes[c] = kUpper | kLetter;
    if (c >= 'a' && c <= 'z') classes[c] = kLower | kLetter;
    if (c >= '0' && c <= '9') classes[c] = kNumber;
    if (c == ' ' || (c >= '\t' && c <= '\r')) classes[c] = kSpace;
  }
  return classes;
}

constexpr std::array<ClassMask, 128> kAsciiClasses = MakeAsciiClasses();

}  // namespace

ClassMask ClassOf(char32_t code_point) {
  if (code_point < kAsciiClasses.size()) return kAsciiClasses[code_point];
  const uint32_t last_of_code_point =
      (static_cast<uint32_t>(code_point) << kMaskBits) | kMaskOfBits;
  const auto after = std::upper_bound(kClassSteps.begin(), kClassSteps.end(), last_of_code_point);
  return static_cast<ClassMask>(*(after - 1) & kMaskOfBits);
}

bool IsPythonSpace(char32_t code_point) {
  if (code_point >= 0x1C && code_point <= 0x1F) return true;
  return (ClassOf(code_point) & kSpace) != 0;
}

}  // namespace kimi_k3::text

// Classes of code points on which the splitting of text rests (docs/text.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kimi_k3::text {

// A set of classes; a code point is in several.
using ClassMask = uint8_t;
inline constexpr ClassMask kHan = 1;     // script Han
inline constexpr ClassMask kUpper = 2;   // Lu, Lt, Lm, Lo, M without Han: may open a word
inline constexpr ClassMask kLower = 4;   // Ll, Lm, Lo, M without Han: may end a word
inline constexpr ClassMask kLetter = 8;  // L
inline constexpr ClassMask kNumber = 16;
inline constexpr ClassMask kSpace = 32;  // White_Space

// Sorted steps, each code point << 6 | mask, valid up to the next one.
inline constexpr size_t kClassStepCount = 3200;
extern const std::array<uint32_t, kClassStepCount> kClassSteps;

// The classes of a code point below 0x110000.
ClassMask ClassOf(char32_t code_point);

// Neither white space, letter nor number; marks and some Han symbols are among them.
inline bool IsPunctuation(ClassMask mask) { return (mask & (kSpace | kLetter | kNumber)) == 0; }

// White space as Python's str.isspace sees it: kSpace and the separators U+001C..U+001F.
bool IsPythonSpace(char32_t code_point);

}  // namespace kimi_k3::text

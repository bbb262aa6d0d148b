// Sizes in bytes as people write them: "8G", "1.5 GiB", "32 MB".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kimi_k3 {

// Reads a number with an optional unit. K, M, G, T and KB, MB, GB, TB are powers of 1000; KiB, MiB,
// GiB, TiB powers of 1024; no unit or B means bytes; case and one space before the unit do not
// matter. Throws Error(kUsage) that quotes the text for anything else, for a negative number and
// for one beyond 2^63 - 1.
uint64_t ParseByteSize(std::string_view text);

// "8.24 GB", "512 MB", "17 bytes": three significant digits, decimal units.
std::string FormatByteSize(uint64_t bytes);

}  // namespace kimi_k3

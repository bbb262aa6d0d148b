// Which instruction sets the kernels were built for, which are usable here, and forcing one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kimi_k3::kernels {

// Names of the sets that this processor can run, the best first: "avx512", "avx2", "neon". Empty
// where the processor has none that the kernels need (x86-64 without AVX2 and FMA).
std::vector<std::string> UsableIsas();

// The set that the kernels use now.
std::string CurrentIsa();

// Throws Error(kRun) where the processor has no set that the kernels need: before any is called.
void RequireIsa();

// Makes the kernels use this set from now on ("auto": the best). Not for use while kernels run.
// Throws Error(kUsage) that lists what is usable for any other name, and as RequireIsa does.
void UseIsa(std::string_view name);

}  // namespace kimi_k3::kernels

// What this program was built from, and what it can use here.
#include "cli/version.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "kernels/isa.h"

namespace kimi_k3 {

std::string VersionText() {
  const std::vector<std::string> isas = kernels::UsableIsas();
  const std::string usable =
      isas.empty() ? "none (the program needs AVX2 with FMA, AVX-512 or NEON)"
                   : fmt::format("{}; in use: {}", fmt::join(isas, ", "), isas.front());
  return fmt::format(
      "kimi_k3 {} ({}, {})\n"
      "instruction sets usable here: {}\n"
      "libraries: {}",
      KIMI_K3_VERSION, KIMI_K3_BUILD, KIMI_K3_COMPILER, usable, KIMI_K3_LIBRARIES);
}

}  // namespace kimi_k3

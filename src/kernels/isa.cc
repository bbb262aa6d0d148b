// The instruction sets that Highway was asked to compile, under the names that users know.
#include "kernels/isa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "hwy/targets.h"

namespace kimi_k3::kernels {
namespace {

struct Isa {
  int64_t target;
  std::string_view name;
};

// Best first.
constexpr Isa kIsas[] = {{HWY_AVX3, "avx512"}, {HWY_AVX2, "avx2"}, {HWY_NEON, "neon"}};

// What this processor can run of what was compiled, whatever was forced meanwhile: the first call
// comes before anything is forced.
int64_t DetectedTargets() {
  static const int64_t detected = hwy::SupportedTargets() & (HWY_TARGETS);
  return detected;
}

}  // namespace

std::vector<std::string> UsableIsas() {
  std::vector<std::string> names;
  for (const Isa& isa : kIsas) {
    if ((DetectedTargets() & isa.target) != 0) names.emplace_back(isa.name);
  }
  return names;
}

std::string CurrentIsa() {
  const int64_t targets = DetectedTargets() & hwy::SupportedTargets();
  for (const Isa& isa : kIsas) {
    if ((targets & isa.target) != 0) return std::string(isa.name);
  }
  return "none";
}

void RequireIsa() {
  if (!UsableIsas().empty()) return;
  Fail(ErrorKind::kRun,
       "this processor has none of the instruction sets that the program needs: AVX2 with FMA or "
       "AVX-512 (in a virtual machine, give it the host's processor model)");
}

void UseIsa(std::string_view name) {
  RequireIsa();
  const int64_t detected = DetectedTargets();
  if (name == "auto") {
    hwy::SetSupportedTargetsForTest(0);
    return;
  }
  for (const Isa& isa : kIsas) {
    if (isa.name == name && (detected & isa.target) != 0) {
      hwy::SetSupportedTargetsForTest(isa.target);
      return;
    }
  }
  Fail(ErrorKind::kUsage, "instruction set '{}' is not usable on this machine; choose auto{}{}",
       name, UsableIsas().empty() ? "" : ", ", fmt::join(UsableIsas(), ", "));
}

}  // namespace kimi_k3::kernels

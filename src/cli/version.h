// What this program was built from, and what it can use here.
#pragma once

#include <string>

namespace kimi_k3 {

// The text of --version: version, build type and compiler; usable instruction sets; libraries.
std::string VersionText();

}  // namespace kimi_k3

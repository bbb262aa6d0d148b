// A picture of where the bytes of a checkpoint are: a bar a layer, coloured by what they are for.
#pragma once

#include <string>

#include "cli/inspect_report.h"

namespace kimi_k3 {

// The text of an SVG file.
std::string BytePicture(const InspectReport& report);

}  // namespace kimi_k3

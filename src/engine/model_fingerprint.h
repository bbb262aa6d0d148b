// Telling models apart, cheaply.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"

namespace kimi_k3 {

// Sixteen hexadecimal digits that depend on the geometry, the part of the model that is run, the
// type and shape of its tensors and samples of its weights: in each layer of one matrix and of one
// expert. They are the same wherever the files lie. Reads some hundred kilobytes; throws Error(kIo)
// where that fails.
std::string ModelFingerprint(const Checkpoint& checkpoint);

}  // namespace kimi_k3

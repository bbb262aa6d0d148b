// Where a text stands, in words.
#pragma once

#include <string>

#include "kimi_k3/scheduler.h"

namespace kimi_k3::server {

// "prefill 34/93 layers, 256 of 300 tokens done, about 40 s left", "waiting, 2 requests before this
// one", "token 5, 34/93 layers, this token in about 40 s".
std::string DescribeProgress(const TextProgress& progress);

}  // namespace kimi_k3::server

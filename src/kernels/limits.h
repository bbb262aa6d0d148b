// What this machine could do at most: reading memory, and multiply-adds without dependencies.
#pragma once

#include <cstddef>
#include <span>

namespace kimi_k3::kernels {

// Reads every byte in order and returns a value that depends on all of them.
unsigned long long ReadAll(std::span<const std::byte> bytes);

// Runs chains of fused multiply-adds that do not wait for one another, on the instruction set that
// the kernels use, and returns how many multiply-adds (counted per number, not per register) they
// were. `rounds` is the length of the chains.
double RunMultiplyAdds(size_t rounds);

// Seconds of processor time of this thread: what others do on the machine counts less than in wall
// time.
double ThreadSeconds();

}  // namespace kimi_k3::kernels

// Fuzzes the parser of safetensors headers: whatever it visits lies inside the data.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "checkpoint/problem_list.h"
#include "checkpoint/safetensors_header.h"

namespace kimi_k3 {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

// The first byte stands for the size of the data, in steps that the corpus uses.
void FuzzOne(std::string_view input) {
  static SafetensorsHeaderParser parser;
  if (input.empty()) return;
  constexpr uint64_t kStep = 16;
  const uint64_t data_bytes = static_cast<unsigned char>(input.front()) * kStep;
  input.remove_prefix(1);
  std::ranges::copy(input, parser.Buffer(input.size()).begin());
  ProblemList problems;
  uint64_t covered = 0;
  const bool whole = parser.Parse(data_bytes, "fuzz", problems, [&](const HeaderTensor& tensor) {
    Check(tensor.begin <= tensor.end && tensor.end <= data_bytes);
    Check(tensor.shape.size() <= kTensorRankLimit);
    covered += tensor.end - tensor.begin;
  });
  Check(whole || !problems.empty());
  // What is accepted tiles the data.
  Check(!problems.empty() || covered == data_bytes);
}

}  // namespace
}  // namespace kimi_k3

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kimi_k3::FuzzOne({reinterpret_cast<const char*>(data), size});
  return 0;
}

// Fuzzes config.json: it is refused with an Error, or all that follows from it holds together.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "checkpoint/model_config.h"
#include "checkpoint/tensor_slots.h"
#include "checkpoint/tensor_table.h"

namespace kimi_k3 {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

void CheckConfig(const ModelConfig& config) {
  Check(config.hidden > 0 && config.layers > 0 && config.vocabulary > 0);
  Check(config.mla_layers.size() == config.layers && config.dense_layers.size() == config.layers);
  Check(config.rms_epsilon > 0 && config.situ_beta > 0);
  Check(config.moe.experts_per_token <= config.moe.experts);
  Check(config.moe.experts % config.moe.groups == 0);
  const TensorSlots slots(config);
  // The first and the last tensor of the model, by name and back.
  for (const size_t slot : {size_t{0}, slots.count() - 1}) {
    const TensorSlots::Tensor tensor = slots.Describe(slot);
    const auto match = slots.Find(TensorSlots::Name(tensor));
    Check(match && match->slot == slot);
    Check(tensor.spec->rows > 0 && tensor.spec->columns > 0);
    Check(tensor.spec->rows < (uint64_t{1} << 40) / tensor.spec->columns * (uint64_t{1} << 10));
  }
}

}  // namespace
}  // namespace kimi_k3

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kimi_k3;
  ModelConfig config;
  try {
    config = ParseModelConfig({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error& error) {
    Check(error.kind() == ErrorKind::kCheckpoint);
    Check(std::string_view(error.what()).starts_with("fuzz: "));
    return 0;
  }
  CheckConfig(config);
  return 0;
}

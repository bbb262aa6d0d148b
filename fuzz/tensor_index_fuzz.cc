// Fuzzes model.safetensors.index.json: it is refused with an Error, or its pairs are given.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "checkpoint/index_reader.h"

namespace kimi_k3 {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

// What is accepted is JSON to another parser too, with as many pairs.
void CheckAgainst(std::string_view text, uint64_t pairs) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return;  // strings are not checked for valid UTF-8
  Check(json["weight_map"].size() <= pairs);
}

}  // namespace
}  // namespace kimi_k3

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kimi_k3;
  static const int fd = memfd_create("index", 0);
  static const std::filesystem::path path = "/proc/self/fd/" + std::to_string(fd);
  Check(ftruncate(fd, 0) == 0);
  Check(pwrite(fd, data, size, 0) == static_cast<ssize_t>(size));
  uint64_t pairs = 0;
  try {
    ReadTensorIndex(path, [&](std::string_view, std::string_view) { ++pairs; });
  } catch (const Error& error) {
    Check(error.kind() == ErrorKind::kCheckpoint);
    return 0;
  }
  Check(pairs > 0);
  CheckAgainst({reinterpret_cast<const char*>(data), size}, pairs);
  return 0;
}

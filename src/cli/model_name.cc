// What clients call a model that nobody has named.
#include "cli/model_name.h"

namespace kimi_k3 {

std::string ModelNameOf(const std::filesystem::path& folder) {
  const std::filesystem::path whole = std::filesystem::absolute(folder).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

}  // namespace kimi_k3

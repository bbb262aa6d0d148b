// Config files of made-up models: known geometries, with another number of layers or experts.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace kimi_k3 {

// What to change in a geometry; nothing: as it is.
struct GeometryChanges {
  std::optional<size_t> layers;
  std::optional<size_t> experts;
  std::optional<size_t> vocabulary;
};

// The text of a config.json, nested as published. geometry: "k3" (the published sizes) or "tiny" (9
// layers, all of K3's features, about 4 MB of weights). Throws Error(kUsage) for another name.
std::string GeometryConfig(std::string_view geometry, const GeometryChanges& changes);

// The text of a given config.json with changes made. Layers: every fourth layer and the last two
// are MLA, as published, and attention residual blocks are shortened so that there are at least
// three. Experts: no more are chosen per token than there are. Vocabulary: the special tokens move
// along. Throws Error(kCheckpoint) where the text is no config.
std::string ChangeConfig(std::string_view json, std::string_view source,
                         const GeometryChanges& changes);

}  // namespace kimi_k3

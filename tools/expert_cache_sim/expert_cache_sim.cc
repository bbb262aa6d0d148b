// Replays a routing trace against cache policies and prints how much each would have spared.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "policies.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kMostTraceBytes = uint64_t{1} << 30;

struct Geometry {
  size_t layers = 92;
  size_t experts = 896;
  size_t per_token = 16;
};

// Reads pairs of little-endian u32 (MoE layer from 1, expert) and takes the last pass: of every
// layer a run of per_token pairs a position. Gives it back position by position, as decoding goes.
Trace ReadTrace(const std::filesystem::path& path, const Geometry& geometry) {
  const std::string text = ReadWholeFile(path, kMostTraceBytes);
  std::vector<uint32_t> words(text.size() / sizeof(uint32_t));
  std::memcpy(words.data(), text.data(), words.size() * sizeof(uint32_t));
  const size_t pairs = words.size() / 2;
  size_t run = 0;  // pairs of the last layer of the last pass
  while (run < pairs && words[2 * (pairs - 1 - run)] == geometry.layers) ++run;
  const size_t positions = run / geometry.per_token;
  if (positions == 0 || positions * geometry.per_token * geometry.layers > pairs) {
    Fail(ErrorKind::kUsage, "{}: does not end with a whole pass over {} layers of {} experts",
         path.string(), geometry.layers, geometry.per_token);
  }
  const size_t first = pairs - positions * geometry.per_token * geometry.layers;
  Trace trace = {geometry.layers, geometry.experts, geometry.per_token, positions, {}};
  for (size_t position = 0; position < positions; ++position) {
    for (size_t layer = 0; layer < geometry.layers; ++layer) {
      TraceStep step = {layer, {}};
      for (size_t k = 0; k < geometry.per_token; ++k) {
        const size_t pair = first + (layer * positions + position) * geometry.per_token + k;
        if (words[2 * pair] != layer + 1 || words[2 * pair + 1] >= geometry.experts) {
          Fail(ErrorKind::kUsage, "{}: pair {} is ({}, {}), expected a layer of {}", path.string(),
               pair, words[2 * pair], words[2 * pair + 1], layer + 1);
        }
        step.experts.push_back(static_cast<int32_t>(words[2 * pair + 1]));
      }
      trace.steps.push_back(std::move(step));
    }
  }
  return trace;
}

void Print(const Trace& trace, const std::vector<size_t>& slots) {
  const std::vector<Policy> policies = AllPolicies();
  const auto requests = static_cast<double>((trace.positions - 1) * trace.layers * trace.per_token);
  fmt::print("{} positions, {} layers of {} of {} experts; hits in % of requests\n\n| slots |",
             trace.positions, trace.layers, trace.per_token, trace.experts);
  for (const Policy& policy : policies) fmt::print(" {} |", policy.name);
  fmt::print("\n|---|");
  for (size_t i = 0; i < policies.size(); ++i) fmt::print("---|");
  fmt::print("\n");
  for (const size_t count : slots) {
    fmt::print("| {} |", count);
    for (const Policy& policy : policies) {
      fmt::print(" {:.1f} |", 100.0 * static_cast<double>(policy.hits(trace, count)) / requests);
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
}

int Main(int argc, char** argv) {
  CLI::App app("Replays a routing trace against policies of the expert cache");
  std::filesystem::path file;
  Geometry geometry;
  std::vector<size_t> slots = {64, 184, 368, 736, 1104, 1472, 1840, 2208, 2944, 4416, 8832};
  app.add_option("TRACE", file, "Pairs of little-endian u32: MoE layer from 1, expert")->required();
  app.add_option("--layers", geometry.layers, "MoE layers")->check(CLI::PositiveNumber);
  app.add_option("--experts", geometry.experts, "Experts in a layer")->check(CLI::PositiveNumber);
  app.add_option("--per-token", geometry.per_token, "Experts a token uses in a layer")
      ->check(CLI::PositiveNumber);
  app.add_option("--slots", slots, "Sizes of the cache, in experts");
  CLI11_PARSE(app, argc, argv);
  Print(ReadTrace(file, geometry), slots);
  return 0;
}

}  // namespace
}  // namespace kimi_k3

int main(int argc, char** argv) {
  try {
    return kimi_k3::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "expert_cache_sim: %s\n", error.what());
    return 1;
  }
}

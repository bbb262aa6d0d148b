// Overlays through the engine: bits that depend on the weights alone, and on none where it is
// lossless.
#include <gtest/gtest.h>

#include <cstring>

#include "checkpoint/checkpoint.h"
#include "engine/golden_engine.h"
#include "engine/temporary_folder.h"
#include "kimi_k3/engine.h"
#include "overlay/overlay_writer.h"

namespace kimi_k3 {
namespace {

std::filesystem::path WriteGoldenOverlay(const TemporaryFolder& folder, const EngineOptions& model,
                                         Dtype form) {
  OverlayOptions options;
  options.output = folder.path() / "overlay";
  options.form = form;
  WriteOverlay(Checkpoint::Open(model.model_dir), options);
  return options.output;
}

// Logits of every position of a fixed text, in passes of at most `chunk` rows.
std::vector<float> LogitsOf(const EngineOptions& given, size_t chunk) {
  EngineOptions options = given;
  options.prompt_chunk = chunk;
  options.all_prompt_logits = true;
  Engine engine = Engine::Open(options);
  Sequence sequence = engine.NewSequence();
  std::vector<float> all;
  constexpr size_t kTokens = 12;
  for (size_t first = 0; first < kTokens; first += chunk) {
    std::vector<PassRow> rows;
    for (size_t i = first; i < std::min(kTokens, first + chunk); ++i) {
      rows.push_back({&sequence, static_cast<TokenId>(1 + i * 7), true, false});
    }
    std::vector<float> logits(rows.size() * engine.vocabulary());
    engine.Forward(rows, logits);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class GoldenOverlay : public testing::TestWithParam<const char*> {};

TEST_P(GoldenOverlay, OfTheLosslessFormChangesNoBit) {
  const TemporaryFolder folder;
  EngineOptions options = GoldenOptions(GetParam(), 16);
  const std::vector<float> exact = LogitsOf(options, 5);
  options.overlay_dir = WriteGoldenOverlay(folder, options, Dtype::kCodedBf16);
  for (const char* io : {"direct", "buffered", "mmap"}) {
    options.io = io;
    for (const size_t threads : {1, 2}) {
      options.threads = threads;
      EXPECT_TRUE(SameBits(LogitsOf(options, threads == 1 ? 1 : 5), exact)) << io;
    }
  }
}

TEST_P(GoldenOverlay, OfGroupsGivesTheSameBitsHoweverItRuns) {
  for (const Dtype form : {Dtype::kQ8, Dtype::kQ4}) {
    const TemporaryFolder folder;
    EngineOptions options = GoldenOptions(GetParam(), 16);
    const std::vector<float> exact = LogitsOf(options, 5);
    options.overlay_dir = WriteGoldenOverlay(folder, options, form);
    const std::vector<float> first = LogitsOf(options, 5);
    EXPECT_FALSE(SameBits(first, exact));
    options.threads = 3;
    options.prefetch_layers = 0;
    EXPECT_TRUE(SameBits(LogitsOf(options, 12), first));
    options.io = "mmap";
    EXPECT_TRUE(SameBits(LogitsOf(options, 1), first));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenOverlay, testing::Values("k3", "kimi-linear"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace kimi_k3

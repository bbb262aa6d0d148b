// Overlays through the engine: bits that depend on the weights alone, and on none where it is
// lossless.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "engine/golden_engine.h"
#include "engine/temporary_folder.h"
#include "kimi_k3/engine.h"
#include "kimi_k3/error.h"
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

// Sets bytes of the first matrix of layer 1 in the overlay.
void Damage(const std::filesystem::path& overlay, size_t at, std::string_view bytes) {
  const auto path = overlay / "layer-00001.safetensors";
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  uint64_t header = 0;
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  file.seekp(static_cast<std::streamoff>(sizeof header + header + at));
  file << bytes << std::flush;
  ASSERT_TRUE(file.good());
}

TEST(DamagedOverlayWeights, AreToldOfWithFileAndTensor) {
  for (const Dtype form : {Dtype::kCodedBf16, Dtype::kQ8, Dtype::kQ4}) {
    for (const char* io : {"buffered", "mmap"}) {
      const TemporaryFolder folder;
      EngineOptions options = GoldenOptions("k3", 16);
      options.io = io;
      options.overlay_dir = WriteGoldenOverlay(folder, options, form);
      // In coded rows the first byte of each plane of codes is that of the first eight columns.
      Damage(options.overlay_dir, 0, form == Dtype::kCodedBf16 ? "\xff" : "\xff\xff");
      if (form == Dtype::kCodedBf16) {
        const size_t columns = Checkpoint::Open(options.model_dir).Get(Role::kKdaQ, 1).columns;
        Damage(options.overlay_dir, (columns + 7) / 8, "\xff");
        Damage(options.overlay_dir, 2 * ((columns + 7) / 8), "\xff");
      }
      try {
        LogitsOf(options, 4);
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint) << error.what();
        EXPECT_THAT(error.what(), testing::HasSubstr("layer-00001.safetensors"));
        // Of rows of 48 columns groups of 32 cannot be made: there o_proj comes first.
        EXPECT_THAT(error.what(),
                    testing::HasSubstr(form == Dtype::kCodedBf16
                                           ? "layers.1.self_attn.q_proj.weight: row 0"
                                           : "layers.1.self_attn.o_proj.weight: a scale"));
      }
    }
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

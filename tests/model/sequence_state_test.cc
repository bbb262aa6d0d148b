// The state of one sequence: sizes, emptiness, and the rounding of the latent cache.
#include "model/sequence_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/bf16.h"
#include "base/process_meter.h"
#include "kimi_k3/error.h"
#include "model/test_model.h"

namespace kimi_k3 {
namespace {

using kernels::CacheType;

size_t FirstLayer(const ModelConfig& config, bool mla) {
  return static_cast<size_t>(std::ranges::find(config.mla_layers, mla) - config.mla_layers.begin());
}

ModelConfig RealSize() {
  ModelConfig config;
  config.layers = 93;
  config.kda = {.heads = 96, .head_dim = 128, .conv_taps = 4, .gate_lower_bound = -5.0F};
  config.mla = {.heads = 96, .kv_lora_rank = 512, .qk_rope_head_dim = 64};
  for (size_t l = 1; l <= 93; ++l) config.mla_layers.push_back(l % 4 == 0 || l == 93);
  return config;
}

TEST(SequenceState, BytesAreThoseOfEveryPartOfEveryGeometry) {
  for (const TestGeometry& geometry : TestGeometries()) {
    const ModelConfig& config = geometry.config;
    for (const CacheType type :
         {CacheType::kF32, CacheType::kBf16, CacheType::kQ8, CacheType::kQ4}) {
      constexpr size_t kPositions = 7;
      SequenceState state(config, kPositions, type);
      uint64_t bytes = 0;
      for (size_t l = 0; l < config.layers; ++l) {
        bytes += state.KdaState(l).size_bytes() + state.ConvTail(l).size_bytes();
        if (config.IsMla(l)) {
          bytes += kPositions * kernels::CacheRowBytes(type, state.Cache(l).width);
        } else {
          EXPECT_EQ(state.KdaState(l).size_bytes(),
                    4 * config.kda.heads * config.kda.head_dim * config.kda.head_dim);
          EXPECT_EQ(state.ConvTail(l).size(),
                    3 * (config.kda.conv_taps - 1) * config.kda.heads * config.kda.head_dim);
        }
      }
      EXPECT_EQ(SequenceState::Bytes(config, kPositions, type), bytes) << geometry.name;
    }
  }
}

TEST(SequenceState, LayersThatArePlacedLieWhereTheyAreToldTo) {
  for (const TestGeometry& geometry : TestGeometries()) {
    const ModelConfig& config = geometry.config;
    constexpr size_t kPositions = 7;
    SequenceState state(config, kPositions, CacheType::kF32, 0, kernels::StateType::kF32,
                        SequenceState::Home::kPlaced);
    for (size_t l = config.first_layer(); l < config.end_layer(); ++l) {
      const uint64_t bytes = SequenceState::LayerBytes(config, l, kPositions, CacheType::kF32);
      AlignedBuffer<std::byte> memory(bytes);
      state.Place(l, memory.data());
      const auto end = [](auto numbers) {
        return reinterpret_cast<std::byte*>(numbers.data() + numbers.size());
      };
      if (config.IsMla(l)) {
        EXPECT_EQ(state.Cache(l).data, memory.data());
        EXPECT_EQ(bytes,
                  kPositions * kernels::CacheRowBytes(CacheType::kF32, state.Cache(l).width));
      } else {
        EXPECT_EQ(state.KdaState(l).data(), memory.data());
        EXPECT_LE(end(state.KdaState(l)), reinterpret_cast<std::byte*>(state.ConvTail(l).data()));
        EXPECT_EQ(end(state.ConvTail(l)), memory.data() + bytes);
      }
    }
    state.Advance(3);
    state.Reset();
    EXPECT_EQ(state.positions(), 0U);
  }
}

TEST(SequenceState, BytesAtTheRealSizeAreThoseOfTheDesign) {
  const ModelConfig config = RealSize();
  const uint64_t recurrent = SequenceState::Bytes(config, 0, CacheType::kF32);
  EXPECT_EQ(recurrent, uint64_t{69} * 4 * (96 * 128 * 128 + 3 * 3 * 96 * 128));
  EXPECT_EQ(SequenceState::Bytes(config, 2048, CacheType::kF32) - recurrent,
            uint64_t{2048} * 24 * 576 * 4);
  EXPECT_EQ(SequenceState::Bytes(config, 2048, CacheType::kBf16) - recurrent,
            uint64_t{2048} * 27648);
  EXPECT_EQ(SequenceState::Bytes(config, 2048, CacheType::kQ8) - recurrent, uint64_t{2048} * 14688);
  EXPECT_EQ(SequenceState::Bytes(config, 2048, CacheType::kQ4) - recurrent, uint64_t{2048} * 7776);
}

TEST(SequenceState, InBf16TheRecurrentStateTakesHalfAndTheTailsWhatTheyDid) {
  for (const TestGeometry& geometry : TestGeometries()) {
    const ModelConfig& config = geometry.config;
    const uint64_t whole = SequenceState::Bytes(config, 7, CacheType::kF32, 2);
    const uint64_t less =
        SequenceState::Bytes(config, 7, CacheType::kF32, 2, kernels::StateType::kBf16);
    SequenceState state(config, 7, CacheType::kF32, 2, kernels::StateType::kBf16);
    uint64_t saved = 0;
    uint64_t bytes = 0;
    for (size_t l = 0; l < config.layers; ++l) {
      saved += state.KdaState(l).size_bytes();
      if (!config.IsMla(l)) {
        EXPECT_EQ(state.KdaState(l).size_bytes(),
                  2 * config.kda.heads * config.kda.head_dim * config.kda.head_dim);
      }
    }
    for (const std::span<std::byte> stretch : state.Stretches(7)) bytes += stretch.size();
    EXPECT_EQ(whole - less, saved) << geometry.name;
    EXPECT_EQ(bytes + TentativeRows::Bytes(config, 2), less) << geometry.name;
  }
}

TEST(SequenceState, ANewStateIsEmptyAndResetMakesItSoAgain) {
  for (const TestGeometry& geometry : TestGeometries()) {
    const ModelConfig& config = geometry.config;
    SequenceState state(config, 9);
    const auto all_are = [&](std::byte value) {
      for (size_t l = 0; l < config.layers; ++l) {
        const auto is_value = [&](std::byte b) { return b == value; };
        if (!std::ranges::all_of(state.KdaState(l), is_value) ||
            !std::ranges::all_of(std::as_bytes(state.ConvTail(l)), is_value)) {
          return false;
        }
      }
      return state.positions() == 0;
    };
    EXPECT_TRUE(all_are(std::byte{0})) << geometry.name;
    EXPECT_EQ(state.max_positions(), 9U);
    state.Advance(3);
    state.Advance(2);
    EXPECT_EQ(state.positions(), 5U);
    for (size_t l = 0; l < config.layers; ++l) {
      std::ranges::fill(state.KdaState(l), std::byte{64});
      std::ranges::fill(std::as_writable_bytes(state.ConvTail(l)), std::byte{64});
    }
    state.Reset();
    EXPECT_TRUE(all_are(std::byte{0})) << geometry.name;
    EXPECT_EQ(state.max_positions(), 9U);
  }
}

TEST(SequenceState, LayersDoNotOverlap) {
  for (const TestGeometry& geometry : TestGeometries()) {
    const ModelConfig& config = geometry.config;
    SequenceState state(config, 9);
    const auto stretches = state.Stretches(9);
    for (size_t i = 0; i < stretches.size(); ++i) {
      std::ranges::fill(stretches[i], static_cast<std::byte>(i + 1));
    }
    for (size_t i = 0; i < stretches.size(); ++i) {
      EXPECT_TRUE(std::ranges::all_of(
          stretches[i], [&](std::byte b) { return b == static_cast<std::byte>(i + 1); }))
          << geometry.name << " stretch " << i;
    }
  }
}

TEST(SequenceState, OfTheRealSizeTouchesItsMemoryOnlyAsItIsUsed) {
  const ModelConfig config = RealSize();
  const uint64_t before = ReadProcessMeters().resident_bytes;
  SequenceState state(config, 2048);
  const std::span<std::byte> first = state.KdaState(FirstLayer(config, false));
  std::ranges::fill(first, std::byte{1});
  EXPECT_LT(ReadProcessMeters().resident_bytes, before + (uint64_t{64} << 20));
  state.Reset();
  EXPECT_TRUE(std::ranges::all_of(first, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(SequenceState, CacheRowsAreKeptAsTheyAreInF32) {
  const ModelConfig config = TestConfig("KimiK3Like");
  SequenceState state(config, 3);
  const size_t layer = FirstLayer(config, true);
  const size_t width = config.mla.cache_width();
  std::vector<float> rows(3 * width);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = 1.0F / static_cast<float>(i + 1);
  for (const size_t position : {2, 0, 1}) {
    state.WriteCacheRow(layer, position, std::span(rows).subspan(position * width, width));
  }
  const kernels::LatentCacheView cache = state.Cache(layer);
  EXPECT_EQ(cache.type, CacheType::kF32);
  EXPECT_EQ(cache.width, width);
  EXPECT_EQ(cache.latent, config.mla.kv_lora_rank);
  EXPECT_EQ(std::memcmp(cache.data, rows.data(), rows.size() * sizeof(float)), 0);
}

TEST(SequenceState, CacheRowsAreRoundedToTheNearestInBf16) {
  const ModelConfig config = TestConfig("KimiK3Like");
  SequenceState state(config, 2, CacheType::kBf16);
  const size_t layer = FirstLayer(config, true);
  const size_t width = config.mla.cache_width();
  std::vector<float> row(width, -0.1F);
  // Ties go to the even neighbour, others to the nearer one.
  row[0] = 1.0F + 0x1p-8F;
  row[1] = 1.0F + 0x3p-8F;
  row[2] = 1.0F + 0x1p-8F + 0x1p-20F;
  row[3] = -2.0F;
  state.WriteCacheRow(layer, 1, row);
  const kernels::LatentCacheView cache = state.Cache(layer);
  EXPECT_EQ(cache.type, CacheType::kBf16);
  std::vector<float> stored(width);
  for (size_t i = 0; i < width; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, cache.data + (width + i) * sizeof(bits), sizeof(bits));
    stored[i] = Bf16ToFloat(bits);
  }
  EXPECT_EQ(stored[0], 1.0F);
  EXPECT_EQ(stored[1], 1.0F + 0x1p-6F);
  EXPECT_EQ(stored[2], 1.0F + 0x1p-7F);
  EXPECT_EQ(stored[3], -2.0F);
  EXPECT_EQ(stored[4], -0.10009765625F);
}

TEST(SequenceState, CacheRowsOfIntegersStandWhereTheAttentionLooksForThem) {
  const ModelConfig config = TestConfig("KimiK3Like");
  const size_t layer = FirstLayer(config, true);
  const size_t width = config.mla.cache_width();
  for (const CacheType type : {CacheType::kQ8, CacheType::kQ4}) {
    SequenceState state(config, 3, type);
    for (const size_t position : {2, 0, 1}) {
      std::vector<float> row(width, 0.25F);
      row[position] = 0.5F * static_cast<float>(position + 1);
      state.WriteCacheRow(layer, position, row);
    }
    const kernels::LatentCacheView cache = state.Cache(layer);
    EXPECT_EQ(cache.type, type);
    std::vector<float> stored(width);
    for (size_t position = 0; position < 3; ++position) {
      kernels::ExpandCacheRow(type, cache.data + position * kernels::CacheRowBytes(type, width),
                              width, stored.data());
      EXPECT_NEAR(stored[position], 0.5F * static_cast<float>(position + 1), 0.07F);
      EXPECT_NEAR(stored[width - 1], 0.25F, 0.1F);
    }
  }
}

TEST(SequenceState, AContextBeyondAllMemoryIsRefusedInsteadOfWrappingAround) {
  const ModelConfig config = TestConfig("AllMlaDense");
  for (const size_t positions :
       {std::numeric_limits<size_t>::max(), size_t{1} << 63, size_t{1} << 61}) {
    try {
      const SequenceState state(config, positions);
      FAIL() << positions;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBudget);
      EXPECT_NE(std::string(error.what()).find("context"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace kimi_k3

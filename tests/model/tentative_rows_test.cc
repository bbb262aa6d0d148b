// Tests of the room for rows that may be taken back.
#include "model/tentative_rows.h"

#include <gtest/gtest.h>

#include <set>

#include "model/test_model.h"

namespace kimi_k3 {
namespace {

TEST(TentativeRows, EveryRowOfEveryRecurrentLayerHasItsOwnRoom) {
  for (const TestGeometry& geometry : TestGeometries()) {
    const ModelConfig& config = geometry.config;
    const size_t width = config.kda.width();
    TentativeRows rows(config, 3);
    EXPECT_EQ(rows.most(), 3U);
    std::set<float*> places;
    size_t floats = 0;
    const auto take = [&](float* place, size_t n) {
      for (size_t i = 0; i < n; ++i) places.insert(place + i);
      std::fill_n(place, n, 1.0F);
      floats += n;
    };
    for (size_t l = config.first_layer(); l < config.end_layer(); ++l) {
      if (config.IsMla(l)) continue;
      for (size_t r = 0; r < 3; ++r) {
        take(rows.ConvInputs(l, r), 3 * width);
        take(rows.Keys(l, r), width);
        take(rows.Values(l, r), width);
        take(rows.Decays(l, r), width);
        take(rows.Betas(l, r), config.kda.heads);
      }
    }
    EXPECT_EQ(places.size(), floats) << geometry.name;
    EXPECT_EQ(TentativeRows::Bytes(config, 3), floats * sizeof(float)) << geometry.name;
  }
}

}  // namespace
}  // namespace kimi_k3

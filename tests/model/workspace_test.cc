// The scratch memory of a pass: what it takes, and that nothing goes beyond it.
#include "model/workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "base/aligned_buffer.h"
#include "model/test_model.h"

namespace kimi_k3 {
namespace {

constexpr size_t kLineFloats = kCacheLineBytes / sizeof(float);

// Floats of the scratch area, found by taking them.
size_t ScratchFloats(Workspace& workspace) {
  size_t floats = 0;
  try {
    for (;; floats += kLineFloats) workspace.TakeFloats(kLineFloats);
  } catch (const std::logic_error&) {
    workspace.Release();
  }
  return floats;
}

TEST(Workspace, BytesAreThoseOfTheRowsAndTheScratchArea) {
  for (const TestGeometry& geometry : TestGeometries()) {
    for (const size_t rows : {1, 8, 9, 33}) {
      for (const size_t parts : {1, 5}) {
        Workspace workspace(geometry.config, rows, parts);
        EXPECT_EQ(workspace.max_rows(), rows);
        const size_t blocks = geometry.config.BlocksBefore(geometry.config.layers);
        const size_t floats =
            (4 + blocks) * rows * geometry.config.hidden + ScratchFloats(workspace);
        EXPECT_EQ(Workspace::Bytes(geometry.config, rows, parts), floats * sizeof(float))
            << geometry.name << " " << rows << " " << parts;
      }
    }
  }
}

TEST(Workspace, AreasDoNotOverlap) {
  const ModelConfig config = TestConfig("KimiK3Like");
  constexpr size_t kRows = 3;
  Workspace workspace(config, kRows, 2);
  std::vector<float*> areas = {workspace.residual(), workspace.mixed(), workspace.normed(),
                               workspace.output()};
  for (size_t b = 0; b < config.BlocksBefore(config.layers); ++b) {
    areas.push_back(workspace.Block(b));
  }
  areas.push_back(workspace.Take(kRows, config.hidden).data);
  areas.push_back(workspace.Take(kRows, config.hidden).data);
  for (size_t a = 0; a < areas.size(); ++a) {
    std::fill_n(areas[a], kRows * config.hidden, static_cast<float>(a));
  }
  for (size_t a = 0; a < areas.size(); ++a) {
    EXPECT_EQ(std::count(areas[a], areas[a] + kRows * config.hidden, static_cast<float>(a)),
              kRows * config.hidden);
  }
}

TEST(Workspace, WhatIsTakenIsAlignedAndReleaseGivesItBack) {
  Workspace workspace(TestConfig("KimiLinearLike"), 4, 1);
  const RowsView first = workspace.Take(3, 5);
  EXPECT_EQ(first.stride, 5U);
  EXPECT_EQ(first.count, 3U);
  EXPECT_EQ(first.Row(2), first.data + 10);
  float* const second = workspace.TakeFloats(1);
  EXPECT_EQ(second, first.data + kLineFloats);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(second) % kCacheLineBytes, 0U);
  EXPECT_EQ(workspace.Take(0, 9).count, 0U);
  EXPECT_EQ(workspace.TakeFloats(1), second + kLineFloats);
  workspace.Release();
  EXPECT_EQ(workspace.TakeFloats(1), first.data);
}

TEST(Workspace, AnOverrunIsCaughtAndTakesNothing) {
  Workspace workspace(TestConfig("Smallest"), 2, 1);
  const size_t floats = ScratchFloats(workspace);
  EXPECT_THROW(workspace.TakeFloats(floats + 1), std::logic_error);
  EXPECT_NO_THROW(workspace.TakeFloats(floats));
  EXPECT_THROW(workspace.TakeFloats(1), std::logic_error);
  EXPECT_NO_THROW(workspace.TakeFloats(0));
}

}  // namespace
}  // namespace kimi_k3

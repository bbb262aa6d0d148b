// Tests of measuring the machine: what is measured is there and hangs together, never how fast it
// is.
#include "engine/machine_speed.h"

#include <gtest/gtest.h>

namespace kimi_k3 {
namespace {

TEST(MachineSpeed, MeasuresBothKindsOfWeightsForOneAndManyRows) {
  const MachineSpeed speed = MeasureMachine(2);
  EXPECT_EQ(speed.threads, 2U);
  EXPECT_FALSE(speed.isa.empty());
  EXPECT_GT(speed.read_bytes_per_second, 0.0);
  EXPECT_GT(speed.multiply_adds_per_second, 0.0);
  ASSERT_EQ(speed.products.size(), 4U);
  for (const ProductSpeed& product : speed.products) {
    EXPECT_GT(product.speed, 0.0);
    EXPECT_GT(product.limit, 0.0);
    EXPECT_EQ(product.unit, product.rows == 1 ? "GB/s" : "GFMA/s");
  }
}

TEST(MachineSpeed, AByteOfMxfp4HoldsNearlyTwoWeights) {
  ThreadPool pool(1);
  EXPECT_EQ(ProductMeter(pool, kernels::WeightType::kBf16).MultiplyAddsPerByte(), 0.5);
  EXPECT_EQ(ProductMeter(pool, kernels::WeightType::kMxfp4).MultiplyAddsPerByte(), 32.0 / 17.0);
}

}  // namespace
}  // namespace kimi_k3

// A small model made of random numbers, held in memory as it would be stored on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "checkpoint/model_config.h"
#include "checkpoint/tensor_table.h"
#include "kernels/matmul.h"

namespace kimi_k3 {

// One tensor: its bytes as stored, and the numbers that they stand for.
struct TestTensor {
  kernels::WeightType type = kernels::WeightType::kF32;
  size_t rows = 0;
  size_t columns = 0;
  std::vector<std::byte> data;
  std::vector<uint8_t> scales;  // kMxfp4
  std::vector<float> values;    // [rows, columns]

  const float* Row(size_t row) const { return values.data() + row * columns; }
};

// Every tensor that a config demands, each matrix in a storage type of its own.
class TestModel {
 public:
  TestModel(ModelConfig config, uint64_t seed);

  const ModelConfig& config() const { return config_; }
  // Throws std::logic_error for a tensor that the model does not have.
  const TestTensor& Get(Role role, size_t layer = 0, size_t expert = 0) const;
  // Stores other numbers, [rows, columns], as f32.
  void Set(Role role, size_t layer, size_t expert, const std::vector<float>& values);

 private:
  using Key = std::tuple<Role, size_t, size_t>;
  void Add(const TensorSpec& spec, size_t layer, size_t expert, uint64_t seed);

  ModelConfig config_;
  std::map<Key, TestTensor> tensors_;
};

// A geometry under a name that GoogleTest accepts.
struct TestGeometry {
  std::string name;
  ModelConfig config;
};

// For GoogleTest: how a geometry is shown, and what names a test of it.
inline void PrintTo(const TestGeometry& geometry, std::ostream* out) { *out << geometry.name; }
struct GeometryName {
  std::string operator()(const auto& test) const { return test.param.name; }
};

// Small models of every kind, with sizes that are multiples of nothing where that is allowed.
std::vector<TestGeometry> TestGeometries();
// One of them by name.
ModelConfig TestConfig(const std::string& name);

}  // namespace kimi_k3

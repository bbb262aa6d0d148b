// Reads back what --logits wrote.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace kimi_k3 {

// The numbers of a .npy file whose header must say f32 [rows, columns].
inline std::vector<float> NpyFloats(const std::string& file, size_t rows, size_t columns) {
  EXPECT_EQ(file.substr(0, 6), "\x93NUMPY");
  const size_t header = 10 + static_cast<unsigned char>(file[8]) +
                        256 * static_cast<size_t>(static_cast<unsigned char>(file[9]));
  EXPECT_EQ(header % 64, 0U);
  EXPECT_NE(
      file.substr(0, header).find("{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                                  std::to_string(rows) + ", " + std::to_string(columns) + "), }"),
      std::string::npos);
  EXPECT_EQ(file.size(), header + rows * columns * sizeof(float));
  std::vector<float> values(rows * columns);
  if (file.size() == header + values.size() * sizeof(float)) {
    std::memcpy(values.data(), file.data() + header, file.size() - header);
  }
  return values;
}

}  // namespace kimi_k3

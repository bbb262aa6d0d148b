// How fast this machine reads memory and multiplies, beside what it could do at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "kernels/matmul.h"

namespace kimi_k3 {

// A matrix of weights larger than the caches, as weights are that come from memory or from a drive,
// and its product with activations by all threads of a pool. One thread at a time.
class ProductMeter {
 public:
  // Takes about 64 MB. `pool` must outlive it.
  ProductMeter(ThreadPool& pool, kernels::WeightType type);

  // Stored bytes that are multiplied with `rows` rows in a second: the best of a few tries.
  double BytesPerSecond(size_t rows);
  // Stored bytes that a plain loop reads in a second, likewise.
  double ReadBytesPerSecond();
  // Multiply-adds that a stored byte takes part in for each row.
  double MultiplyAddsPerByte() const;

 private:
  ThreadPool& pool_;
  kernels::WeightView view_;
  AlignedBuffer<std::byte> data_;
  AlignedBuffer<uint8_t> scales_;
};

// A product with the limit measured in the same minute: for one row the plain read loop over the
// same bytes (GB/s), for many rows independent multiply-adds (GFMA/s).
struct ProductSpeed {
  std::string weights;  // "bf16", "MXFP4"
  size_t rows = 1;
  std::string unit;  // "GB/s", "GFMA/s"
  double speed = 0;
  double limit = 0;
};

struct MachineSpeed {
  std::string isa;
  size_t threads = 1;
  double read_bytes_per_second = 0;
  double multiply_adds_per_second = 0;
  std::vector<ProductSpeed> products;
};

// Measures for about two seconds.
MachineSpeed MeasureMachine(size_t threads);

}  // namespace kimi_k3

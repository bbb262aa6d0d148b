// Uninitialised, cache-line aligned storage for numbers and file blocks.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "base/checked_math.h"

namespace kimi_k3 {

inline constexpr size_t kCacheLineBytes = 64;

// Owns `size` elements of a trivial type at an aligned address; move-only; contents start
// undefined.
template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  AlignedBuffer() = default;

  // Throws std::bad_alloc where the memory is not to be had. alignment_bytes: a power of two.
  explicit AlignedBuffer(size_t size, size_t alignment_bytes = kCacheLineBytes) : size_(size) {
    if (size == 0) return;
    const auto bytes = CheckedMul(size, sizeof(T));
    const auto padded = bytes ? CheckedAdd(*bytes, alignment_bytes - 1) : std::nullopt;
    if (!padded) throw std::bad_alloc();
    data_.reset(static_cast<T*>(
        std::aligned_alloc(alignment_bytes, *padded / alignment_bytes * alignment_bytes)));
    if (!data_) throw std::bad_alloc();
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> span() const { return {data(), size_}; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  size_t size_ = 0;
};

}  // namespace kimi_k3

// Whole pages straight from the system, given back to it the moment they are released.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace kimi_k3 {

// Anonymous memory that counts as resident only as far as it was touched, so a process holds what
// was planned and not what an allocator kept. Move-only.
class PageBuffer {
 public:
  enum class Pages : uint8_t { kSmall, kHuge };

  PageBuffer() = default;
  // kHuge: asks for huge pages; of use where the whole buffer will be filled. Throws Error(kBudget)
  // where the system has no such memory.
  explicit PageBuffer(size_t bytes, Pages pages = Pages::kSmall);
  PageBuffer(PageBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PageBuffer& operator=(PageBuffer&& other) noexcept;
  ~PageBuffer();

  // All zeros again; the pages go back to the system until they are touched.
  void Clear();

  // Aligned to the page (to 2 MiB with huge pages).
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// `size` numbers, zero at first, on huge pages where they fill some. Move-only.
template <typename T>
class PagedArray {
 public:
  PagedArray() = default;
  // Throws as PageBuffer.
  explicit PagedArray(size_t size)
      : buffer_(size * sizeof(T), size * sizeof(T) < kLeastHugeBytes ? PageBuffer::Pages::kSmall
                                                                     : PageBuffer::Pages::kHuge),
        size_(size) {}

  // As PageBuffer::Clear.
  void Clear() { buffer_.Clear(); }

  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  size_t size() const { return size_; }
  std::span<T> span() const { return {data(), size_}; }

 private:
  static constexpr size_t kLeastHugeBytes = size_t{4} << 20;
  PageBuffer buffer_;
  size_t size_ = 0;
};

}  // namespace kimi_k3

// Whole pages straight from the system, given back to it the moment they are released.
#pragma once

#include <cstddef>
#include <cstdint>
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

  // Aligned to the page (to 2 MiB with huge pages).
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace kimi_k3

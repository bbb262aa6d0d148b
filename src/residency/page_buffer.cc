// Whole pages straight from the system, given back to it the moment they are released.
#include "residency/page_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/byte_size.h"
#include "base/error.h"

namespace kimi_k3 {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHugeBytes = size_t{2} << 20;

}  // namespace

PageBuffer::PageBuffer(size_t bytes, Pages pages) {
  if (bytes == 0) return;
  const size_t unit = pages == Pages::kHuge ? kHugeBytes : kPageBytes;
  const size_t whole = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const size_t mapped = whole + unit - kPageBytes;
  void* map = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) {
    Fail(ErrorKind::kBudget, "the system refuses {} of memory: {}", FormatByteSize(bytes),
         std::generic_category().message(errno));
  }
  auto* begin = static_cast<std::byte*>(map);
  const size_t skipped = (unit - reinterpret_cast<uintptr_t>(begin) % unit) % unit;
  if (skipped > 0) munmap(begin, skipped);
  const size_t tail = mapped - skipped - whole;
  if (tail > 0) munmap(begin + skipped + whole, tail);
  data_ = begin + skipped;
  bytes_ = whole;
  madvise(data_, bytes_, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

void PageBuffer::Clear() {
  if (data_ == nullptr) return;
  // Refused for pages that whoever started the process had locked in memory.
  if (madvise(data_, bytes_, MADV_DONTNEED) != 0) std::memset(data_, 0, bytes_);
}

PageBuffer& PageBuffer::operator=(PageBuffer&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) munmap(data_, bytes_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

PageBuffer::~PageBuffer() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace kimi_k3

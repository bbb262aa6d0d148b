// Read-only maps of files whose pages may turn out to be unreadable while they are in use.
#include "residency/guarded_map.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <system_error>

#include "base/error.h"

namespace kimi_k3 {

// What the handler may look at: nothing but lock-free atomics.
struct GuardedMap::Slot {
  static constexpr uint64_t kIntact = ~uint64_t{0};
  std::atomic<uintptr_t> begin{0};  // 0: free
  std::atomic<uintptr_t> end{0};
  std::atomic<uint64_t> bad_offset{kIntact};

  static std::span<Slot> All();
  static bool Patch(uintptr_t address);
  static void Handle(int signal_number, siginfo_t* info, void* context);
  static void InstallHandler();
};

// A signal handler has no argument to find its data by, so this state belongs to the process, as
// the handler itself does.
namespace {
struct sigaction previous_handler;
size_t page_bytes = 0;
std::mutex slots_mutex;
}  // namespace

std::span<GuardedMap::Slot> GuardedMap::Slot::All() {
  static std::array<Slot, 4096> slots;
  return slots;
}

// Puts a page of zeros where `address` is in one of our maps. True where it is.
bool GuardedMap::Slot::Patch(uintptr_t address) {
  for (Slot& slot : All()) {
    const uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= slot.end.load(std::memory_order_acquire)) {
      continue;
    }
    const uintptr_t page = address / page_bytes * page_bytes;
    // Known to be bad before anyone can read the zeros.
    uint64_t intact = kIntact;
    slot.bad_offset.compare_exchange_strong(intact, page - begin);
    // A page of zeros takes the place of the one that cannot be had and the access is repeated. The
    // bare system call is safe in a handler.
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the address came as a number
    void* at = reinterpret_cast<void*>(page);
    if (syscall(SYS_mmap, at, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                0) == -1) {
      return false;
    }
    return true;
  }
  return false;
}

void GuardedMap::Slot::Handle(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  if (info->si_code > 0 && Patch(reinterpret_cast<uintptr_t>(info->si_addr))) {
    errno = saved_errno;
    return;
  }
  if ((previous_handler.sa_flags & SA_SIGINFO) != 0) {
    previous_handler.sa_sigaction(signal_number, info, context);
  } else if (previous_handler.sa_handler != SIG_DFL && previous_handler.sa_handler != SIG_IGN) {
    previous_handler.sa_handler(signal_number);
  } else {
    // A repeated access ends the process as it would have; a signal that was sent is sent again.
    signal(SIGBUS, SIG_DFL);
    if (info->si_code <= 0) raise(SIGBUS);
  }
  errno = saved_errno;
}

void GuardedMap::Slot::InstallHandler() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    (void)All();
    struct sigaction action = {};
    action.sa_sigaction = &Slot::Handle;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous_handler);
  });
}

GuardedMap::GuardedMap(const std::filesystem::path& path, uint64_t expected_bytes)
    : path_(path),
      fd_(OpenForReading(path)),
      version_(fd_, path, expected_bytes),
      size_bytes_(expected_bytes) {
  if (expected_bytes == 0) return;
  Slot::InstallHandler();
  void* map = mmap(nullptr, expected_bytes, PROT_READ, MAP_SHARED, fd_.get(), 0);
  if (map == MAP_FAILED) {
    Fail(ErrorKind::kIo, "{}: cannot map {} bytes: {} (a limit on address space? try --io direct)",
         path_.string(), expected_bytes, std::generic_category().message(errno));
  }
  data_ = static_cast<const std::byte*>(map);
  // What is needed is asked for ahead; a fault is to fetch nothing else.
  madvise(map, expected_bytes, MADV_RANDOM);
  const std::scoped_lock lock(slots_mutex);
  for (Slot& slot : Slot::All()) {
    if (slot.begin.load(std::memory_order_relaxed) != 0) continue;
    const auto begin = reinterpret_cast<uintptr_t>(map);
    slot.bad_offset.store(Slot::kIntact, std::memory_order_relaxed);
    slot.end.store(begin + (expected_bytes + page_bytes - 1) / page_bytes * page_bytes,
                   std::memory_order_release);
    slot.begin.store(begin, std::memory_order_release);
    slot_ = &slot;
    return;
  }
  munmap(map, expected_bytes);
  Fail(ErrorKind::kIo, "{}: more than {} files are mapped at once", path_.string(),
       Slot::All().size());
}

GuardedMap::~GuardedMap() {
  if (data_ == nullptr) return;
  {
    const std::scoped_lock lock(slots_mutex);
    slot_->begin.store(0, std::memory_order_release);
  }
  munmap(const_cast<std::byte*>(data_), size_bytes_);
}

void GuardedMap::LetGo(uint64_t offset, uint64_t bytes) const {
  // A fault maps its neighbours too, as far as the page cache holds them in one piece, which for a
  // file written lately can be a huge page's size; those that nobody asked for must go as well, or
  // the process would grow. Where one of them is in use it comes back with a minor fault.
  constexpr uint64_t kLargestPieceBytes = uint64_t{2} << 20;
  const uint64_t begin = offset / kLargestPieceBytes * kLargestPieceBytes;
  const uint64_t end =
      (offset + bytes + kLargestPieceBytes - 1) / kLargestPieceBytes * kLargestPieceBytes;
  madvise(const_cast<std::byte*>(data_) + begin, std::min(end, size_bytes_) - begin, MADV_DONTNEED);
}

void GuardedMap::Forget(uint64_t offset, uint64_t bytes) const {
  const uint64_t begin = (offset + page_bytes - 1) / page_bytes * page_bytes;
  const uint64_t end = std::min(offset + bytes, size_bytes_) / page_bytes * page_bytes;
  if (begin >= end) return;
  posix_fadvise(fd_.get(), static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                POSIX_FADV_DONTNEED);
}

void GuardedMap::CheckIntact() const {
  if (data_ != nullptr) {
    const uint64_t bad = slot_->bad_offset.load(std::memory_order_acquire);
    if (bad != Slot::kIntact) {
      Fail(ErrorKind::kIo, "{}: cannot read at offset {}: the file was cut or the drive failed",
           path_.string(), bad);
    }
  }
  const uint64_t now = FileSizeBytes(fd_, path_);
  if (now < size_bytes_) {
    Fail(ErrorKind::kIo, "{}: was cut from {} to {} bytes while in use", path_.string(),
         size_bytes_, now);
  }
}

}  // namespace kimi_k3

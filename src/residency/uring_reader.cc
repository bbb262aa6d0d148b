// Reads at depth through io_uring.
#include "residency/uring_reader.h"

#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace kimi_k3 {
namespace {

// The ring of the kernel, freed with the object.
class Uring {
 public:
  explicit Uring(unsigned entries) : status_(io_uring_queue_init(entries, &ring_, 0)) {}
  ~Uring() {
    if (status_ == 0) io_uring_queue_exit(&ring_);
  }
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;
  int status() const { return status_; }
  io_uring* get() { return &ring_; }

 private:
  io_uring ring_ = {};
  int status_;
};

class UringReader : public Reader {
 public:
  UringReader(const ShardFiles& files, size_t depth, std::unique_ptr<Uring> ring, UniqueFd wake)
      : files_(&files), ring_(std::move(ring)), wake_(std::move(wake)), slots_(depth) {
    for (size_t i = 0; i < depth; ++i) free_.push_back(i);
    ArmWake();
  }

  size_t depth() const override { return slots_.size(); }

  void Submit(const ReadRequest& request) override {
    const size_t slot = free_.back();
    free_.pop_back();
    slots_[slot] = ReadProgress(request, files_->direct(request.shard));
    Start(slot);
  }

  void Collect(bool block, std::vector<ReadCompletion>& done) override {
    const size_t before = done.size();
    bool woken = false;
    for (;;) {
      io_uring_cqe* cqe = nullptr;
      while (io_uring_peek_cqe(ring_->get(), &cqe) == 0) {
        const uint64_t slot = cqe->user_data;
        const int result = cqe->res;
        io_uring_cqe_seen(ring_->get(), cqe);
        if (slot == kWakeTag) {
          woken = true;
          ArmWake();
        } else {
          Take(static_cast<size_t>(slot), result, done);
        }
      }
      if (!block || woken || done.size() > before) return;
      const int status = io_uring_wait_cqe(ring_->get(), &cqe);
      if (status < 0 && status != -EINTR && status != -EAGAIN) Refuse("wait for reads", status);
    }
  }

  void Wake() override {
    const uint64_t one = 1;
    // A full counter means that a wake is pending already.
    [[maybe_unused]] const ssize_t n = write(wake_.get(), &one, sizeof(one));
  }

 private:
  static constexpr uint64_t kWakeTag = ~uint64_t{0};

  [[noreturn]] static void Refuse(const char* what, int status) {
    Fail(ErrorKind::kIo, "io_uring: cannot {}: {}", what, std::generic_category().message(-status));
  }

  io_uring_sqe* NextEntry() {
    io_uring_sqe* entry = io_uring_get_sqe(ring_->get());
    if (entry == nullptr) throw std::logic_error("io_uring: more reads than its depth");
    return entry;
  }

  void Enter() {
    for (;;) {
      const int status = io_uring_submit(ring_->get());
      if (status >= 0) return;
      if (status == -EINTR || status == -EAGAIN || status == -EBUSY) continue;
      Refuse("submit a read", status);
    }
  }

  void Start(size_t slot) {
    const ReadProgress& progress = slots_[slot];
    io_uring_sqe* entry = NextEntry();
    io_uring_prep_read(entry, files_->fd(progress.request().shard), progress.destination(),
                       static_cast<unsigned>(progress.bytes()), progress.offset());
    entry->user_data = slot;
    Enter();
  }

  void ArmWake() {
    io_uring_sqe* entry = NextEntry();
    io_uring_prep_read(entry, wake_.get(), &wake_count_, sizeof(wake_count_), 0);
    entry->user_data = kWakeTag;
    Enter();
  }

  void Take(size_t slot, int result, std::vector<ReadCompletion>& done) {
    ReadProgress& progress = slots_[slot];
    if (progress.Take(result) == ReadProgress::Next::kAgain) {
      Start(slot);
      return;
    }
    const ReadRequest& request = progress.request();
    files_->Forget(request.shard, request.offset, request.bytes);
    done.push_back(progress.completion());
    free_.push_back(slot);
  }

  const ShardFiles* files_;
  uint64_t wake_count_ = 0;  // written by the kernel, so it must outlive the ring
  std::unique_ptr<Uring> ring_;
  UniqueFd wake_;
  std::vector<ReadProgress> slots_;
  std::vector<size_t> free_;
};

}  // namespace

std::unique_ptr<Reader> MakeUringReader(const ShardFiles& files, size_t depth,
                                        std::string* refusal) {
  auto ring = std::make_unique<Uring>(static_cast<unsigned>(depth + 2));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC));
  if (ring->status() != 0 || !wake.valid()) {
    const int error_number = ring->status() != 0 ? -ring->status() : errno;
    *refusal = std::generic_category().message(error_number);
    return nullptr;
  }
  return std::make_unique<UringReader>(files, depth, std::move(ring), std::move(wake));
}

}  // namespace kimi_k3

// Reads one file from end to end: its hash, its block sums, and numbers that no weight may be.
#include "fetch/file_check.h"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/aligned_buffer.h"
#include "base/bf16.h"
#include "base/error.h"
#include "base/file.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/shard_header.h"

namespace kimi_k3 {
namespace {

constexpr size_t kChunkBytes = size_t{4} << 20;
constexpr size_t kTailBytes = 8;  // of the chunk before, for a number that begins in it
constexpr uint64_t kLeaveCachedBytes = uint64_t{64} << 20;
constexpr uint8_t kNanScale = 255;

size_t ElementBytes(TensorSpan::Check check) {
  if (check == TensorSpan::Check::kF32) return 4;
  return check == TensorSpan::Check::kBf16 ? 2 : 1;
}

// Index of the first element that is not finite, or count.
template <typename Bits>
size_t FirstNotFinite(const std::byte* data, size_t count, Bits exponent) {
  constexpr size_t kRun = 4096;  // tested without a branch each
  for (size_t begin = 0; begin < count; begin += kRun) {
    const size_t end = std::min(count, begin + kRun);
    unsigned bad = 0;
    for (size_t i = begin; i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, data + i * sizeof(bits), sizeof(bits));
      bad |= static_cast<unsigned>((bits & exponent) == exponent);
    }
    if (bad == 0) continue;
    for (size_t i = begin; i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, data + i * sizeof(bits), sizeof(bits));
      if ((bits & exponent) == exponent) return i;
    }
  }
  return count;
}

class Checker {
 public:
  Checker(const FileCheckRequest& request, std::atomic<uint64_t>& bytes_read,
          const std::atomic<bool>& stop)
      : request_(request),
        bytes_read_(bytes_read),
        stop_(stop),
        file_(OpenRegularFile(request.path)),
        buffer_(kTailBytes + kChunkBytes) {
    for (const DigestKind kind : request.digests) {
      digests_.push_back(BeginDigest(kind, file_.bytes));
    }
    result_.bytes = file_.bytes;
    if (request.sums) result_.sums.emplace(file_.bytes, "");
    std::memset(buffer_.data(), 0, kTailBytes);
    posix_fadvise(file_.fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }

  FileCheckResult Run() {
    for (uint64_t at = 0; at < file_.bytes; at += kChunkBytes) {
      if (stop_.load()) Fail(ErrorKind::kInterrupted, "interrupted");
      const size_t size = std::min<uint64_t>(kChunkBytes, file_.bytes - at);
      const std::span<std::byte> chunk(buffer_.data() + kTailBytes, size);
      ReadExactly(file_.fd, request_.path, at, chunk);
      for (Digest& digest : digests_) digest.Update(chunk);
      SumBlocks(at, chunk);
      CheckNumbers(at, size);
      std::memmove(buffer_.data(), buffer_.data() + size, kTailBytes);
      bytes_read_ += size;
      if (file_.bytes > kLeaveCachedBytes) {
        posix_fadvise(file_.fd.get(), static_cast<off_t>(at), static_cast<off_t>(size),
                      POSIX_FADV_DONTNEED);
      }
    }
    for (Digest& digest : digests_) result_.digests.push_back(digest.Finish());
    return std::move(result_);
  }

 private:
  void SumBlocks(uint64_t at, std::span<const std::byte> chunk) {
    const BlockSums* shape = request_.expected != nullptr ? request_.expected
                             : result_.sums               ? &*result_.sums
                                                          : nullptr;
    if (shape == nullptr) return;
    // Blocks are powers of two: a chunk is whole blocks, or a part of one.
    const uint64_t block_bytes = shape->block_bytes();
    for (size_t from = 0; from < chunk.size(); from += block_bytes) {
      const size_t block = (at + from) / block_bytes;
      if (block >= shape->blocks()) return;
      const uint64_t sum =
          SumOfBlock(chunk.subspan(from, std::min<size_t>(block_bytes, chunk.size() - from)));
      if (result_.sums) result_.sums->Set(block, sum);
      if (request_.expected != nullptr && request_.expected->Has(block) &&
          request_.expected->sum(block) != sum) {
        result_.bad_blocks.push_back(block);
      }
    }
  }

  void CheckNumbers(uint64_t at, size_t size) {
    if (result_.first_bad_number) return;
    const uint64_t end = at + size;
    while (next_ < request_.tensors.size() && request_.tensors[next_].end <= at) ++next_;
    for (size_t i = next_; i < request_.tensors.size() && request_.tensors[i].begin < end; ++i) {
      CheckTensor(request_.tensors[i], at, end);
      if (result_.first_bad_number) return;
    }
  }

  void CheckTensor(const TensorSpan& tensor, uint64_t at, uint64_t end) {
    if (tensor.check == TensorSpan::Check::kNone) return;
    const size_t bytes = ElementBytes(tensor.check);
    // The first element that ends in this chunk; it may begin in the tail of the one before.
    const uint64_t first = tensor.begin >= at ? 0 : (at - tensor.begin) / bytes;
    const uint64_t begin = tensor.begin + first * bytes;
    const size_t count = (std::min(end, tensor.end) - begin) / bytes;
    const std::byte* data = begin < at ? buffer_.data() + kTailBytes - (at - begin)
                                       : buffer_.data() + kTailBytes + (begin - at);
    size_t bad = count;
    switch (tensor.check) {
      case TensorSpan::Check::kBf16:
        bad = FirstNotFinite<uint16_t>(data, count, uint16_t{0x7f80});
        break;
      case TensorSpan::Check::kF32:
        bad = FirstNotFinite<uint32_t>(data, count, uint32_t{0x7f800000});
        break;
      default: {
        const void* found = count == 0 ? nullptr : std::memchr(data, kNanScale, count);
        if (found != nullptr) {
          bad = static_cast<size_t>(static_cast<const std::byte*>(found) - data);
        }
      }
    }
    if (bad == count) return;
    result_.first_bad_number =
        fmt::format("tensor {}: {} {} is {} (offset {})", Printable(tensor.name),
                    tensor.check == TensorSpan::Check::kScales ? "scale" : "element", first + bad,
                    NameOf(tensor.check, data + bad * bytes), begin + bad * bytes);
  }

  static const char* NameOf(TensorSpan::Check check, const std::byte* data) {
    float value = 0;
    if (check == TensorSpan::Check::kScales) return "NaN";
    if (check == TensorSpan::Check::kF32) {
      std::memcpy(&value, data, sizeof(value));
    } else {
      uint16_t bits = 0;
      std::memcpy(&bits, data, sizeof(bits));
      value = Bf16ToFloat(bits);
    }
    return std::isnan(value) ? "NaN" : "infinite";
  }

  const FileCheckRequest& request_;
  std::atomic<uint64_t>& bytes_read_;
  const std::atomic<bool>& stop_;
  OpenFile file_;
  AlignedBuffer<std::byte> buffer_;
  std::vector<Digest> digests_;
  size_t next_ = 0;  // the first tensor that does not end before the chunk
  FileCheckResult result_;
};

}  // namespace

std::vector<TensorSpan> TensorSpans(const std::filesystem::path& shard) {
  std::vector<TensorSpan> spans;
  SafetensorsHeaderParser parser;
  VisitShardTensors(shard, parser, [&](const HeaderTensor& tensor) {
    TensorSpan span{std::string(tensor.name), tensor.begin, tensor.end, TensorSpan::Check::kNone};
    if (tensor.dtype == "BF16") span.check = TensorSpan::Check::kBf16;
    if (tensor.dtype == "F32") span.check = TensorSpan::Check::kF32;
    if (tensor.dtype == "U8" && tensor.name.ends_with(".weight_scale")) {
      span.check = TensorSpan::Check::kScales;
    }
    spans.push_back(std::move(span));
  });
  std::ranges::sort(spans, {}, &TensorSpan::begin);
  const uint64_t data = spans.empty() ? UINT64_MAX : spans.front().begin;
  spans.insert(spans.begin(), TensorSpan{"the header", 0, data, TensorSpan::Check::kNone});
  return spans;
}

FileCheckResult CheckFile(const FileCheckRequest& request, std::atomic<uint64_t>& bytes_read,
                          const std::atomic<bool>& stop) {
  return Checker(request, bytes_read, stop).Run();
}

std::string TensorsIn(const std::vector<TensorSpan>& tensors, uint64_t begin, uint64_t end) {
  std::vector<const TensorSpan*> hit;
  for (const TensorSpan& tensor : tensors) {
    if (tensor.begin < end && tensor.end > begin) hit.push_back(&tensor);
  }
  if (hit.empty()) return "no tensor";
  if (hit.size() == 1) {
    return hit.front() == &tensors.front() ? hit.front()->name
                                           : "tensor " + Printable(hit.front()->name);
  }
  const bool header = hit.front() == &tensors.front();
  return fmt::format("{}{} to {}, {} tensors", header ? "the header and tensors " : "tensors ",
                     Printable(hit[header ? 1 : 0]->name), Printable(hit.back()->name),
                     hit.size() - (header ? 1 : 0));
}

}  // namespace kimi_k3

// Makes an overlay of a checkpoint: file by file, so that what is done survives whatever happens.
#include "overlay/overlay_writer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/coded_bf16.h"
#include "base/error.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/overlay_record.h"
#include "fetch/digest.h"
#include "overlay/matrix_encoder.h"
#include "overlay/overlay_folder.h"
#include "overlay/overlay_plan.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{8} << 20;
// A matrix that takes more than this part of its bytes is left as it is: reading less would not pay
// for decoding.
constexpr double kMostOfBase = 0.95;

// A file under way, and the hash of what has been written.
class HashedFile {
 public:
  explicit HashedFile(const std::filesystem::path& path)
      : file_(path), digest_(DigestKind::kSha256) {}
  void Append(std::span<const std::byte> bytes) {
    file_.Append(bytes);
    digest_.Update(bytes);
    bytes_ += bytes.size();
  }
  // Makes the file appear.
  void Commit() { file_.Commit(); }
  std::string Sha256() { return digest_.Finish(); }
  uint64_t bytes() const { return bytes_; }

 private:
  AtomicFile file_;
  Digest digest_;
  uint64_t bytes_ = 0;
};

// A matrix that will be stored.
struct ChosenMatrix {
  const OverlayCandidate* candidate = nullptr;
  uint64_t row_bytes = 0;
  std::string name;
  uint64_t bytes() const { return candidate->base.rows * row_bytes; }
};

class OverlayMaker {
 public:
  OverlayMaker(const Checkpoint& checkpoint, const OverlayOptions& options)
      : checkpoint_(checkpoint),
        options_(options),
        units_(PlanOverlay(checkpoint, options.form, options.only, options.except)),
        folder_(options.output, {.trunk = std::string(OverlayFormName(options.form)),
                                 .only = options.only,
                                 .except = options.except,
                                 .complete = false,
                                 .files = {}}),
        pool_(options.threads) {}

  OverlayReport Make() {
    const std::vector<OverlayUnit> missing = TakeStock();
    if (!missing.empty() || !folder_.record().complete) {
      folder_.CheckSpace(ExpectedOverlayBytes(missing, options_.form));
      folder_.Begin();
      for (const OverlayUnit& unit : missing) WriteUnit(unit);
      folder_.Complete();
    }
    return Report();
  }

 private:
  // What is not there yet.
  std::vector<OverlayUnit> TakeStock() {
    std::vector<OverlayUnit> missing;
    progress_.files_total = units_.size();
    for (const OverlayUnit& unit : units_) {
      uint64_t bytes = 0;
      for (const OverlayCandidate& matrix : unit.matrices) bytes += matrix.base.range.bytes;
      progress_.bytes_total += bytes;
      folder_.CheckMadeFrom(checkpoint_, unit);
      if (folder_.Find(unit) == nullptr) {
        missing.push_back(unit);
        continue;
      }
      ++files_before_;
      ++progress_.files_done;
      progress_.bytes_done += bytes;
    }
    return missing;
  }

  void CheckStop() const {
    if (options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed)) {
      Fail(ErrorKind::kInterrupted, "interrupted");
    }
  }

  void Tell(uint64_t bytes_done) {
    progress_.bytes_done += bytes_done;
    if (options_.progress) options_.progress(progress_);
  }

  // Reads a matrix in pieces of whole rows.
  void ForEachPiece(const OverlayCandidate& matrix,
                    FunctionRef<void(size_t first_row, std::span<const std::byte>)> visit) {
    const TensorLocation& base = matrix.base;
    const uint64_t row_bytes = base.range.bytes / base.rows;
    const size_t rows_at_once = std::max<uint64_t>(1, kPieceBytes / row_bytes);
    const std::filesystem::path& path = checkpoint_.shards()[base.range.shard].path;
    const UniqueFd file = OpenForReading(path);
    for (size_t row = 0; row < base.rows; row += rows_at_once) {
      CheckStop();
      piece_.resize(std::min(rows_at_once, base.rows - row) * row_bytes);
      ReadExactly(file, path, base.range.offset + row * row_bytes, piece_);
      visit(row, piece_);
    }
  }

  uint64_t RowBytesFor(const OverlayCandidate& matrix) {
    if (options_.form != Dtype::kCodedBf16) {
      return QuantizedRowBytes(options_.form, matrix.base.columns);
    }
    CodedBf16Row row = {matrix.base.columns, 0};
    ForEachPiece(matrix, [&](size_t, std::span<const std::byte> rows) {
      row.escapes = std::max(row.escapes, MostEscapes(rows, row.columns, pool_));
    });
    return row.bytes();
  }

  std::vector<ChosenMatrix> Choose(const OverlayUnit& unit) {
    std::vector<ChosenMatrix> chosen;
    for (const OverlayCandidate& matrix : unit.matrices) {
      ChosenMatrix choice = {&matrix, RowBytesFor(matrix),
                             fmt::format("{}.{}", matrix.name, OverlayFormName(options_.form))};
      const auto base_bytes = static_cast<double>(matrix.base.range.bytes);
      if (static_cast<double>(choice.bytes()) > kMostOfBase * base_bytes) {
        Tell(matrix.base.range.bytes);
      } else {
        chosen.push_back(std::move(choice));
      }
    }
    return chosen;
  }

  static std::string HeaderOf(const std::vector<ChosenMatrix>& matrices) {
    std::string header = R"({"__metadata__":{"format":"kimi_k3 overlay"})";
    uint64_t offset = 0;
    for (const ChosenMatrix& matrix : matrices) {
      header += fmt::format(R"(,"{}":{{"dtype":"U8","shape":[{},{}],"data_offsets":[{},{}]}})",
                            matrix.name, matrix.candidate->base.rows, matrix.row_bytes, offset,
                            offset + matrix.bytes());
      offset += matrix.bytes();
    }
    header += "}";
    constexpr size_t kAlignment = 8;
    header.append((kAlignment - header.size() % kAlignment) % kAlignment, ' ');
    return header;
  }

  void WriteUnit(const OverlayUnit& unit) {
    const std::vector<ChosenMatrix> matrices = Choose(unit);
    if (!matrices.empty()) {
      HashedFile file(folder_.path() / unit.file_name);
      const std::string header = HeaderOf(matrices);
      const uint64_t length = header.size();
      file.Append(std::as_bytes(std::span(&length, 1)));
      file.Append(std::as_bytes(std::span(header)));
      OverlayFile entry = {unit.file_name, 0, {}, {}};
      for (const ChosenMatrix& matrix : matrices) {
        entry.matrices.push_back(WriteMatrix(matrix, file));
      }
      file.Commit();
      entry.bytes = file.bytes();
      entry.sha256 = file.Sha256();
      folder_.Add(std::move(entry));
    }
    ++progress_.files_done;
    Tell(0);
  }

  OverlayMatrix WriteMatrix(const ChosenMatrix& matrix, HashedFile& file) {
    const OverlayCandidate& candidate = *matrix.candidate;
    const TensorLocation& base = candidate.base;
    MatrixEncoder encoder(options_.form, base.dtype, base.columns, matrix.row_bytes);
    const uint64_t stored_row_bytes = base.range.bytes / base.rows;
    ForEachPiece(candidate, [&](size_t first_row, std::span<const std::byte> rows) {
      coded_.resize(rows.size() / stored_row_bytes * matrix.row_bytes);
      if (const auto bad = encoder.Encode(rows, coded_, pool_)) {
        Fail(ErrorKind::kCheckpoint, "{}: tensor {}: row {} cannot be stored: {} (kimi_k3 verify)",
             checkpoint_.shards()[base.range.shard].path.string(), candidate.name, first_row + *bad,
             options_.form == Dtype::kCodedBf16
                 ? "it does not come back as it was; the memory or the checkpoint is damaged"
                 : "it holds a NaN or an infinity; the weights are damaged");
      }
      file.Append(coded_);
      Tell(rows.size());
    });
    return {matrix.name, matrix.bytes(), MatrixFingerprint(checkpoint_, base), encoder.error()};
  }

  OverlayReport Report() const {
    OverlayReport report;
    report.fingerprint = folder_.record().Fingerprint();
    report.files_before = files_before_;
    std::map<Role, OverlayRoleReport> roles;
    for (const OverlayUnit& unit : units_) {
      const OverlayFile* file = folder_.Find(unit);
      if (file != nullptr) ++report.files;
      for (const OverlayCandidate& candidate : unit.matrices) {
        AddTo(roles[candidate.role], candidate, file);
      }
    }
    for (auto& [role, sums] : roles) {
      sums.role = role;
      if (sums.matrices > 0)
        sums.error = std::sqrt(sums.error / static_cast<double>(sums.matrices));
      report.matrices += sums.matrices;
      report.left += sums.left;
      report.base_bytes += sums.base_bytes;
      report.bytes += sums.bytes;
      report.roles.push_back(sums);
    }
    return report;
  }

  void AddTo(OverlayRoleReport& sums, const OverlayCandidate& candidate,
             const OverlayFile* file) const {
    const std::string name = fmt::format("{}.{}", candidate.name, OverlayFormName(options_.form));
    const OverlayMatrix* stored = nullptr;
    if (file != nullptr) {
      const auto found = std::ranges::find(file->matrices, name, &OverlayMatrix::name);
      if (found != file->matrices.end()) stored = &*found;
    }
    if (stored == nullptr) {
      ++sums.left;
      return;
    }
    ++sums.matrices;
    sums.base_bytes += candidate.base.range.bytes;
    sums.bytes += stored->bytes;
    sums.error += stored->error * stored->error;
  }

  const Checkpoint& checkpoint_;
  const OverlayOptions& options_;
  std::vector<OverlayUnit> units_;
  OverlayFolder folder_;
  ThreadPool pool_;
  OverlayProgress progress_;
  size_t files_before_ = 0;
  std::vector<std::byte> piece_;
  std::vector<std::byte> coded_;
};

}  // namespace

OverlayReport WriteOverlay(const Checkpoint& checkpoint, const OverlayOptions& options) {
  return OverlayMaker(checkpoint, options).Make();
}

}  // namespace kimi_k3

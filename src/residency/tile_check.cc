// What can be seen to be wrong with weights when they have been read.
#include "residency/tile_check.h"

#include <span>
#include <string>

#include "base/error.h"
#include "base/quantized_group.h"

namespace kimi_k3 {
namespace {

[[noreturn]] void TellOfDamage(const Checkpoint& checkpoint, const PassStep& step,
                               const std::string& what) {
  Fail(ErrorKind::kCheckpoint,
       "{}: tensor {}: {}; the overlay is damaged (kimi_k3 verify --overlay tells which files are)",
       checkpoint.shards()[step.location.range.shard].path.string(),
       checkpoint.TensorName(step.role, step.layer), what);
}

}  // namespace

void CheckTile(const Checkpoint& checkpoint, const PassStep& step, const Tile& tile) {
  const Dtype form = step.location.dtype;
  if (form == Dtype::kCodedBf16) {
    if (const auto row = kernels::FindDamagedRow(tile.weights)) {
      TellOfDamage(checkpoint, step,
                   fmt::format("row {} does not hold what it says", tile.first_row + *row));
    }
  } else if (form == Dtype::kQ8 || form == Dtype::kQ4) {
    const std::span groups(tile.weights.data, tile.weights.rows * step.row_bytes());
    if (HasBadGroupScale(groups, form == Dtype::kQ8 ? kQ8GroupBytes : kQ4GroupBytes)) {
      TellOfDamage(checkpoint, step,
                   fmt::format("a scale in rows {} to {} is no number", tile.first_row,
                               tile.first_row + tile.weights.rows - 1));
    }
  }
}

}  // namespace kimi_k3

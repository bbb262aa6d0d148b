// The plain weight stream: shards mapped read-only, nothing planned, nothing read ahead.
#include "residency/mapped_stream.h"

#include <deque>
#include <stdexcept>
#include <vector>

#include "residency/expert_view.h"
#include "residency/guarded_map.h"
#include "residency/tile_check.h"

namespace kimi_k3 {
namespace {

class MappedStream : public WeightStream {
 public:
  MappedStream(const Checkpoint& checkpoint, uint64_t tile_bytes)
      : checkpoint_(&checkpoint), schedule_(checkpoint, tile_bytes), walk_(schedule_) {
    for (const Shard& shard : checkpoint.shards()) maps_.emplace_back(shard.path, shard.bytes);
  }

  void BeginPass(bool with_head) override { walk_.Begin(with_head); }

  void ForEachRun(MatrixId matrix, FunctionRef<void(std::span<const Tile>)> visit) override {
    const PassStep& step = schedule_.steps()[walk_.ExpectMatrix(matrix)];
    for (size_t tile = 0; tile < step.tiles(); ++tile) {
      const ByteRange range = step.RangeOf(tile);
      const Tile view = step.View(tile, At(range));
      CheckTile(*checkpoint_, step, view);
      visit({&view, 1});
      maps_[range.shard].CheckIntact();
    }
    walk_.Advance();
  }

  void RequestExperts(size_t layer, std::span<const int32_t> experts) override {
    walk_.ExpectRequest(layer, experts, checkpoint_->config().moe.experts);
    requested_.assign(experts.begin(), experts.end());
  }

  void ForEachExpert(size_t layer, ExpertOrder /*order*/,
                     FunctionRef<void(int32_t, const ExpertWeights&)> visit) override {
    walk_.ExpectExperts(layer);
    for (const int32_t expert : requested_) {
      const auto index = static_cast<size_t>(expert);
      const ExpertLocation location = checkpoint_->Expert(layer, index);
      const ExpertWeights weights =
          ViewExpert(*checkpoint_, layer, index, location,
                     [this](const ByteRange& range) { return At(range); });
      visit(expert, weights);
      for (const ExpertMatrixLocation* m : {&location.gate, &location.up, &location.down}) {
        maps_[m->weights.shard].CheckIntact();
        maps_[m->scales.shard].CheckIntact();
      }
    }
    walk_.Advance();
  }

  void ReadEmbeddingRow(size_t token, std::span<float> out) override {
    const TensorLocation table = checkpoint_->Get(Role::kEmbedding);
    if (token >= table.rows || out.size() != table.columns) {
      throw std::logic_error("weight stream: an embedding row outside the table");
    }
    const uint64_t row_bytes = table.columns * DtypeBytes(table.dtype);
    const ByteRange row = {table.range.shard, table.range.offset + token * row_bytes, row_bytes};
    WidenRow(table.dtype, At(row), out);
    maps_[row.shard].CheckIntact();
  }

  std::vector<float> ReadVector(Role role, size_t layer) override {
    return checkpoint_->ReadVector(role, layer);
  }

  // The pages belong to the system, which takes them back at will.
  uint64_t resident_bytes() const override { return 0; }

 private:
  const std::byte* At(const ByteRange& range) const {
    return maps_[range.shard].data() + range.offset;
  }

  const Checkpoint* checkpoint_;
  PassSchedule schedule_;
  Walk walk_;
  std::deque<GuardedMap> maps_;  // by shard
  std::vector<int32_t> requested_;
};

}  // namespace

std::unique_ptr<WeightStream> MakeMappedStream(const Checkpoint& checkpoint, uint64_t tile_bytes) {
  return std::make_unique<MappedStream>(checkpoint, tile_bytes);
}

}  // namespace kimi_k3

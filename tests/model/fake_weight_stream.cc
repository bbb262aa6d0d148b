// A weight stream over a model in memory, as unhelpful as its contract allows.
#include "model/fake_weight_stream.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace kimi_k3 {
namespace {

[[noreturn]] void OutOfOrder(Role role, size_t layer) {
  throw std::logic_error("fake stream: " + std::string(RoleName(role)) + " of layer " +
                         std::to_string(layer) + " is not due");
}

constexpr size_t kMostTilesOfRun = 3;

// A copy of some rows that lies at an odd address.
class OddCopy {
 public:
  OddCopy(const TestTensor& tensor, size_t first, size_t count)
      : scales_(ScaleRange(tensor, first, count)) {
    const size_t row_bytes = kernels::RowBytes(tensor.type, tensor.columns);
    bytes_.resize(count * row_bytes + 1);
    std::memcpy(bytes_.data() + 1, tensor.data.data() + first * row_bytes, count * row_bytes);
    view_ = {.type = tensor.type,
             .rows = count,
             .columns = tensor.columns,
             .data = bytes_.data() + 1,
             .scales = scales_.empty() ? nullptr : scales_.data()};
  }
  const kernels::WeightView& view() const { return view_; }

 private:
  static std::vector<uint8_t> ScaleRange(const TestTensor& tensor, size_t first, size_t count) {
    if (tensor.scales.empty()) return {};
    const size_t per_row = tensor.columns / kernels::kMxfp4GroupColumns;
    const auto begin = tensor.scales.begin() + static_cast<ptrdiff_t>(first * per_row);
    return {begin, begin + static_cast<ptrdiff_t>(count * per_row)};
  }

  std::vector<std::byte> bytes_;
  std::vector<uint8_t> scales_;
  kernels::WeightView view_;
};

}  // namespace

FakeWeightStream::FakeWeightStream(const TestModel& model, const FakeStreamOptions& options)
    : model_(model), options_(options), random_(options.seed), fail_at_(options.fail_at) {
  for (size_t layer = 0; layer < model.config().layers; ++layer) {
    for (const TensorSpec& spec : TensorSpecs(model.config(), layer)) {
      if (spec.kind == TensorKind::kMatrix || spec.role == Role::kExpertGate) {
        steps_.push_back({spec.role, layer, spec.row_granule});
      }
    }
  }
  steps_.push_back({Role::kHead, 0, 1});
}

void FakeWeightStream::CountOperation(const char* what) {
  if (++operations_ == fail_at_) {
    Fail(ErrorKind::kIo, "fake stream: {} failed as operation {}", what, operations_);
  }
}

const FakeWeightStream::Step& FakeWeightStream::Due(Role role, size_t layer) const {
  if (!begun_ || next_ >= end_ || steps_[next_].role != role ||
      (role != Role::kHead && steps_[next_].layer != layer)) {
    OutOfOrder(role, layer);
  }
  return steps_[next_];
}

void FakeWeightStream::BeginPass(bool with_head) {
  CountOperation("BeginPass");
  begun_ = true;
  requested_ = false;
  next_ = 0;
  end_ = with_head ? steps_.size() : steps_.size() - 1;
}

void FakeWeightStream::BeginPassAt(MatrixId matrix) {
  const auto step = std::ranges::find_if(steps_, [&](const Step& candidate) {
    return candidate.role == matrix.role && candidate.layer == matrix.layer;
  });
  if (step == steps_.end()) OutOfOrder(matrix.role, matrix.layer);
  BeginPass(true);
  next_ = static_cast<size_t>(step - steps_.begin());
}

bool FakeWeightStream::PassIsOver() const { return begun_ && next_ == end_; }

void FakeWeightStream::ForEachRun(MatrixId matrix, FunctionRef<void(std::span<const Tile>)> visit) {
  CountOperation("ForEachRun");
  if (IsExpertRole(matrix.role)) OutOfOrder(matrix.role, matrix.layer);
  const Step& step = Due(matrix.role, matrix.layer);
  const TestTensor& tensor = model_.Get(step.role, step.layer);
  for (size_t first = 0; first < tensor.rows;) {
    std::deque<OddCopy> copies;
    std::vector<Tile> run;
    for (size_t left = 1 + random_() % kMostTilesOfRun; left > 0 && first < tensor.rows; --left) {
      CountOperation("a tile");
      size_t count = tensor.rows - first;
      if (options_.tile_granules != 0) {
        count = std::min(count, step.granule * (1 + random_() % options_.tile_granules));
      }
      copies.emplace_back(tensor, first, count);
      run.push_back({.first_row = first, .weights = copies.back().view()});
      first += count;
    }
    visit(run);
  }
  ++next_;
}

void FakeWeightStream::RequestExperts(size_t layer, std::span<const int32_t> experts) {
  CountOperation("RequestExperts");
  if (!begun_ || next_ == 0 || requested_ || steps_[next_ - 1].role != Role::kRouter ||
      steps_[next_ - 1].layer != layer) {
    throw std::logic_error("fake stream: experts are to be requested once, after the router");
  }
  for (size_t i = 0; i < experts.size(); ++i) {
    if (experts[i] < 0 || static_cast<size_t>(experts[i]) >= model_.config().moe.experts ||
        (i > 0 && experts[i] <= experts[i - 1])) {
      throw std::logic_error("fake stream: experts must be ascending, distinct and in range");
    }
  }
  requests_.assign(experts.begin(), experts.end());
  requested_ = true;
}

void FakeWeightStream::ForEachExpert(size_t layer, ExpertOrder order,
                                     FunctionRef<void(int32_t, const ExpertWeights&)> visit) {
  CountOperation("ForEachExpert");
  Due(Role::kExpertGate, layer);
  if (!requested_) throw std::logic_error("fake stream: no experts were requested");
  latest_order_ = order;
  latest_visits_ = requests_;
  if (order == ExpertOrder::kArrival && options_.shuffle_arrivals) {
    std::ranges::shuffle(latest_visits_, random_);
  }
  for (const int32_t id : latest_visits_) {
    CountOperation("an expert");
    const auto expert = static_cast<size_t>(id);
    const auto copy = [&](Role role) {
      const TestTensor& tensor = model_.Get(role, layer, expert);
      return OddCopy(tensor, 0, tensor.rows);
    };
    const OddCopy gate = copy(Role::kExpertGate);
    const OddCopy up = copy(Role::kExpertUp);
    const OddCopy down = copy(Role::kExpertDown);
    visit(id, {.gate = gate.view(), .up = up.view(), .down = down.view()});
  }
  requested_ = false;
  ++next_;
}

void FakeWeightStream::ReadEmbeddingRow(size_t token, std::span<float> out) {
  CountOperation("ReadEmbeddingRow");
  const TestTensor& embedding = model_.Get(Role::kEmbedding);
  if (token >= embedding.rows || out.size() != embedding.columns) {
    throw std::logic_error("fake stream: no such embedding row");
  }
  std::copy_n(embedding.Row(token), out.size(), out.begin());
}

std::vector<float> FakeWeightStream::ReadVector(Role role, size_t layer) {
  CountOperation("ReadVector");
  return model_.Get(role, layer).values;
}

}  // namespace kimi_k3

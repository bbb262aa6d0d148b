// Which matrices of a checkpoint an overlay is to replace, file by file.
#include "overlay/overlay_plan.h"

#include <fnmatch.h>

#include <optional>
#include <span>
#include <utility>

#include "base/coded_bf16.h"
#include "base/error.h"
#include "base/quantized_group.h"
#include "checkpoint/overlay_record.h"
#include "checkpoint/problem_list.h"

namespace kimi_k3 {
namespace {

constexpr std::string_view kHeadFile = "head.safetensors";
constexpr std::string_view kLayerPrefix = "layer-";

bool CanStore(Dtype form, const TensorLocation& matrix) {
  if (form == Dtype::kCodedBf16) {
    return matrix.dtype == Dtype::kBf16 && matrix.columns <= CodedBf16Row::kMostColumns;
  }
  return matrix.columns % kQuantizedGroupColumns == 0;
}

// Patterns, and which of them have fitted something.
class NamePatterns {
 public:
  NamePatterns(std::string flag, const std::vector<std::string>& patterns)
      : flag_(std::move(flag)), patterns_(patterns), used_(patterns.size(), false) {}

  bool Fit(const std::string& name) {
    bool fits = false;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      if (fnmatch(patterns_[i].c_str(), name.c_str(), 0) != 0) continue;
      used_[i] = true;
      fits = true;
    }
    return fits;
  }

  void CheckAllUsed(std::string_view form, const std::string& example) const {
    for (size_t i = 0; i < patterns_.size(); ++i) {
      if (used_[i]) continue;
      Fail(ErrorKind::kUsage,
           "{} \"{}\": fits the name of no matrix that can be stored as {}; names are such as {} "
           "(kimi_k3 inspect --tensors lists them), * stands for any text",
           flag_, Printable(patterns_[i]), form, example);
    }
  }

 private:
  std::string flag_;
  std::span<const std::string> patterns_;
  std::vector<bool> used_;
};

class OverlayPlanner {
 public:
  OverlayPlanner(const Checkpoint& checkpoint, Dtype form, const std::vector<std::string>& only,
                 const std::vector<std::string>& except)
      : checkpoint_(checkpoint),
        form_(form),
        all_(only.empty()),
        only_("--only", only),
        except_("--except", except) {}

  std::vector<OverlayUnit> Plan() {
    const ModelConfig& config = checkpoint_.config();
    for (size_t layer = config.first_layer(); layer < config.end_layer(); ++layer) {
      AddUnit(fmt::format("{}{:05}.safetensors", kLayerPrefix, layer), layer);
    }
    AddUnit(std::string(kHeadFile), std::nullopt);
    const std::string_view name = OverlayFormName(form_);
    only_.CheckAllUsed(name, example_);
    except_.CheckAllUsed(name, example_);
    if (units_.empty()) {
      Fail(ErrorKind::kUsage, "{}: no matrix is left that could be stored as {}",
           checkpoint_.model_dir().string(), name);
    }
    return std::move(units_);
  }

 private:
  void AddUnit(std::string file_name, std::optional<size_t> layer) {
    OverlayUnit unit = {std::move(file_name), {}};
    for (const TensorSpec& spec : TensorSpecs(checkpoint_.config(), layer)) {
      if (spec.kind != TensorKind::kMatrix && spec.kind != TensorKind::kHead) continue;
      OverlayCandidate candidate = {spec.role, layer.value_or(0),
                                    checkpoint_.TensorName(spec.role, layer.value_or(0)),
                                    checkpoint_.GetInBase(spec.role, layer.value_or(0))};
      if (CanStore(form_, candidate.base) && Wanted(candidate)) {
        unit.matrices.push_back(std::move(candidate));
      }
    }
    if (!unit.matrices.empty()) units_.push_back(std::move(unit));
  }

  bool Wanted(const OverlayCandidate& candidate) {
    if (example_.empty()) example_ = candidate.name;
    const bool usual = candidate.role != Role::kRouter || form_ == Dtype::kCodedBf16;
    const bool taken = only_.Fit(candidate.name) || (all_ && usual);
    return !except_.Fit(candidate.name) && taken;
  }

  const Checkpoint& checkpoint_;
  Dtype form_;
  bool all_;
  NamePatterns only_;
  NamePatterns except_;
  std::string example_;
  std::vector<OverlayUnit> units_;
};

}  // namespace

std::vector<OverlayUnit> PlanOverlay(const Checkpoint& checkpoint, Dtype form,
                                     const std::vector<std::string>& only,
                                     const std::vector<std::string>& except) {
  return OverlayPlanner(checkpoint, form, only, except).Plan();
}

uint64_t ExpectedOverlayBytes(const std::vector<OverlayUnit>& units, Dtype form) {
  uint64_t bytes = 0;
  for (const OverlayUnit& unit : units) {
    for (const OverlayCandidate& matrix : unit.matrices) {
      bytes += form == Dtype::kCodedBf16
                   ? matrix.base.range.bytes / 4 * 3
                   : matrix.base.rows * QuantizedRowBytes(form, matrix.base.columns);
    }
  }
  return bytes;
}

bool IsOverlayFileName(std::string_view name) {
  return name == kOverlayRecordName || name == kHeadFile ||
         (name.starts_with(kLayerPrefix) && name.ends_with(".safetensors"));
}

}  // namespace kimi_k3

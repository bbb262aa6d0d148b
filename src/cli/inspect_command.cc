// The inspect command: what a checkpoint holds, tensor by tensor where that is asked for.
#include "cli/inspect_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/tensor_listing.h"
#include "checkpoint/tensor_values.h"
#include "cli/byte_picture.h"
#include "cli/flag_group.h"
#include "cli/inspect_report.h"
#include "cli/interrupt.h"
#include "cli/model_flags.h"
#include "cli/output.h"
#include "cli/result_file.h"
#include "engine/engine_plan.h"

namespace kimi_k3 {
namespace {

constexpr size_t kTextBytes = 64 * 1024;

// How the bytes of a tensor stand for numbers; nothing for dtypes that are not read.
std::optional<NumberForm> FormOf(const ListedTensor& tensor) {
  const bool expert = tensor.meaning && tensor.meaning->spec->kind == TensorKind::kExpert;
  if (tensor.dtype == DtypeName(Dtype::kF32)) return NumberForm::kF32;
  if (tensor.dtype == DtypeName(Dtype::kBf16)) return NumberForm::kBf16;
  if (tensor.dtype != DtypeName(Dtype::kU8)) return std::nullopt;
  if (!expert) return NumberForm::kByte;
  return tensor.meaning->scales ? NumberForm::kE8m0 : NumberForm::kE2m1;
}

// Lists the tensors whose names match.
class Lister {
 public:
  Lister(const InspectOptions& options, const TensorListing& listing, Output& output)
      : options_(options), listing_(listing), output_(output), pool_(UsableCores()) {}

  void Run() {
    if (options_.json) text_ = "[";
    listing_.Visit([this](const ListedTensor& tensor) {
      if (Matches(tensor.name)) Add(tensor);
    });
    if (found_ == 0) {
      output_.ClearStatus();
      Fail(ErrorKind::kUsage, "--tensors: no tensor has a name like {}",
           fmt::join(options_.patterns, " or "));
    }
    if (options_.json) text_ += "\n]\n";
    Flush(0);
    output_.ClearStatus();
    output_.Note(fmt::format("{} tensor{}, {}", Grouped(found_), found_ == 1 ? "" : "s",
                             FormatByteSize(bytes_)));
  }

 private:
  bool Matches(std::string_view name) {
    name_ = name;
    return std::ranges::any_of(options_.patterns, [this](const std::string& pattern) {
      return fnmatch(pattern.c_str(), name_.c_str(), 0) == 0;
    });
  }

  void Add(const ListedTensor& tensor) {
    InterruptGuard::Check();
    ++found_;
    bytes_ += tensor.bytes;
    std::optional<ValueSummary> values;
    if (options_.values) values = Values(tensor);
    if (options_.json) {
      AddJson(tensor, values);
    } else {
      AddLine(tensor, values);
    }
    Flush(kTextBytes);
  }

  std::optional<ValueSummary> Values(const ListedTensor& tensor) {
    const auto form = FormOf(tensor);
    if (!form || !tensor.offset) return std::nullopt;
    if (output_.WantsStatus()) {
      output_.Status(fmt::format("reading {}, {} so far", Printable(tensor.name),
                                 FormatByteSize(bytes_ - tensor.bytes)));
    }
    StoredNumbers numbers{tensor.path, *tensor.offset, tensor.bytes, *form, {}, 0};
    if (*form == NumberForm::kE2m1) {
      const Checkpoint& checkpoint = listing_.checkpoint();
      if (!listing_.missing().empty()) return std::nullopt;  // its scales may be elsewhere
      const ExpertLocation expert =
          checkpoint.Expert(tensor.meaning->layer, tensor.meaning->expert);
      const Role role = tensor.meaning->spec->role;
      const ByteRange& scales = role == Role::kExpertGate ? expert.gate.scales
                                : role == Role::kExpertUp ? expert.up.scales
                                                          : expert.down.scales;
      numbers.scale_path = checkpoint.shards()[scales.shard].path;
      numbers.scale_offset = scales.offset;
    }
    return SummarizeValues(numbers, pool_);
  }

  void AddLine(const ListedTensor& tensor, const std::optional<ValueSummary>& values) {
    text_ += fmt::format("{}  {}  [{}]  {}  {}\n", Printable(tensor.name), Printable(tensor.dtype),
                         fmt::join(tensor.shape, ", "), tensor.file,
                         tensor.offset ? fmt::to_string(*tensor.offset) : "not there");
    if (!options_.values) return;
    if (!values) {
      text_ += "    values: not there, or of a dtype that is not read\n";
      return;
    }
    text_ += fmt::format(
        "    min {:.6g}  max {:.6g}  mean {:.6g}  deviation {:.6g}  zeros {}  NaN {}  inf {}\n",
        values->minimum, values->maximum, values->mean, values->deviation, values->zeros,
        values->nans, values->infinities);
  }

  void AddJson(const ListedTensor& tensor, const std::optional<ValueSummary>& values) {
    nlohmann::ordered_json json = {{"name", Printable(tensor.name)},
                                   {"dtype", Printable(tensor.dtype)},
                                   {"shape", tensor.shape},
                                   {"bytes", tensor.bytes},
                                   {"file", tensor.file}};
    json["offset"] = tensor.offset ? nlohmann::ordered_json(*tensor.offset) : nullptr;
    if (values) {
      // JSON has no NaN: what does not exist is null.
      const auto number = [](double value) {
        return std::isfinite(value) ? nlohmann::ordered_json(value) : nullptr;
      };
      json["values"] = {{"count", values->count},
                        {"min", number(values->minimum)},
                        {"max", number(values->maximum)},
                        {"mean", number(values->mean)},
                        {"deviation", number(values->deviation)},
                        {"zeros", values->zeros},
                        {"nan", values->nans},
                        {"inf", values->infinities}};
    }
    text_ += fmt::format("{}\n{}", found_ == 1 ? "" : ",", json.dump());
  }

  void Flush(size_t at_least) {
    if (text_.size() < at_least) return;
    output_.Text(text_);
    text_.clear();
  }

  const InspectOptions& options_;
  const TensorListing& listing_;
  Output& output_;
  ThreadPool pool_;
  std::string name_;
  std::string text_;
  uint64_t found_ = 0;
  uint64_t bytes_ = 0;
};

void AddOptions(CLI::App& command, InspectOptions& options) {
  FlagGroup group(command, "Inspect");
  AddFolders(group, options.folders);
  group.Text("--overlay", "DIR", options.overlay,
             "What this overlay puts in place of the checkpoint's matrices, and what a token reads "
             "with it");
  group.Texts("--tensors", "PATTERN", options.patterns,
              "List the tensors whose names match, such as '*.layers.3.*norm*' (may be repeated)");
  group.Switch("--values", options.values,
               "Read the listed tensors: extremes, mean, deviation, zeros, NaN, infinities");
  group.Switch("--json", options.json, "Write JSON");
  group.Text("--svg", "FILE", options.svg_file, "Draw where the bytes are");
  group.Switch("-q,--quiet", options.quiet, "Nothing on standard error but errors and warnings");
}

void CheckOptions(const InspectOptions& options) {
  if (options.overlay && !options.patterns.empty()) {
    Fail(ErrorKind::kUsage,
         "--overlay is of the report, --tensors lists the checkpoint's own tensors: give one");
  }
  if (options.values && options.patterns.empty()) {
    Fail(ErrorKind::kUsage,
         "--values reads the tensors that --tensors lists: give a pattern too "
         "('*' is all of them)");
  }
  if (!options.svg_file) return;
  if (options.svg_file->empty()) Fail(ErrorKind::kUsage, "--svg: the name is empty");
  KeepModelWhole("--svg", *options.svg_file, options.folders);
  CheckResultFile("--svg", *options.svg_file, 0);
}

std::optional<Checkpoint> WithOverlay(const InspectOptions& options) {
  if (!options.overlay) return std::nullopt;
  Checkpoint checkpoint = Checkpoint::Open(options.folders);
  checkpoint.UseOverlay(*options.overlay);
  return checkpoint;
}

}  // namespace

void RunInspect(const InspectOptions& options) {
  CheckOptions(options);
  const InterruptGuard interrupt;
  Output output(options.quiet);
  const TensorListing listing(options.folders);
  for (const std::string& warning : listing.checkpoint().warnings()) output.Warning(warning);
  if (!options.patterns.empty()) Lister(options, listing, output).Run();
  if (!options.patterns.empty() && !options.svg_file) return;
  const std::optional<Checkpoint> with_overlay = WithOverlay(options);
  const InspectReport report = MakeInspectReport(listing, with_overlay ? &*with_overlay : nullptr);
  if (options.patterns.empty()) {
    output.Text(options.json ? ReportToJson(report).dump(2, ' ', false,
                                                         nlohmann::json::error_handler_t::replace) +
                                   "\n"
                             : FormatReport(report));
  }
  if (!options.svg_file) return;
  AtomicFile file(*options.svg_file);
  file.Append(BytePicture(report));
  file.Commit();
  output.Note(fmt::format("{}: written", *options.svg_file));
}

void AddInspectCommand(CLI::App& app) {
  CLI::App& command = AddCommand(
      app, "inspect", "What a checkpoint holds: model, tensors, bytes, and where they are");
  const auto options = std::make_shared<InspectOptions>();
  AddOptions(command, *options);
  OnCommand(command, [options] { RunInspect(*options); });
}

}  // namespace kimi_k3

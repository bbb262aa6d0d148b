// Writes checkpoints of random weights in the published format.
#include "checkpoint/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <system_error>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/file.h"
#include "checkpoint/model_config.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/shard_names.h"
#include "checkpoint/strict_json.h"
#include "checkpoint/synth_tensors.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr size_t kTextBytes = size_t{1} << 20;
constexpr std::array kTokenizerFiles = {"tiktoken.model", "tokenizer_config.json",
                                        "special_tokens_map.json", "chat_template.jinja",
                                        "tokenizer.json"};

// Consecutive units that share a file.
struct ShardPlan {
  std::string name;
  size_t first_unit = 0;
  size_t end_unit = 0;
  uint64_t bytes = 0;
};

std::string ShardName(size_t index, size_t count) {
  if (count == 1) return std::string(kSingleName);
  return fmt::format("model-{:05}-of-{:06}.safetensors", index + 1, count);
}

// Cuts the units into `count` runs of about equal bytes; 0: one run a unit.
std::vector<ShardPlan> PlanShards(const SynthTensors& tensors, size_t count) {
  const size_t units = tensors.units();
  if (count == 0) count = units;
  if (count > units) {
    Fail(ErrorKind::kUsage,
         "--shards: {} is more than the {} parts that this model can be cut into", count, units);
  }
  std::vector<uint64_t> bytes(units);
  uint64_t left = 0;
  for (size_t unit = 0; unit < units; ++unit) left += bytes[unit] = tensors.UnitBytes(unit);
  std::vector<ShardPlan> plan;
  size_t unit = 0;
  for (size_t shard = 0; shard < count; ++shard) {
    ShardPlan part{ShardName(shard, count), unit, unit, 0};
    const size_t shards_after = count - shard - 1;
    const uint64_t share = left / (shards_after + 1);
    while (unit < units - shards_after &&
           (part.bytes == 0 || shards_after == 0 || part.bytes + bytes[unit] / 2 <= share)) {
      part.bytes += bytes[unit++];
    }
    part.end_unit = unit;
    left -= part.bytes;
    plan.push_back(std::move(part));
  }
  return plan;
}

// Gathers text and writes it in large pieces.
class TextWriter {
 public:
  explicit TextWriter(AtomicFile& file) : file_(file) {}
  std::string& text() { return text_; }
  void Flush(size_t at_least) {
    if (text_.size() < at_least) return;
    file_.Append(text_);
    text_.clear();
  }

 private:
  AtomicFile& file_;
  std::string text_;
};

class Synthesizer {
 public:
  explicit Synthesizer(const SynthOptions& options)
      : options_(options),
        tensors_(ParseModelConfig(options.config_json, "config.json"),
                 ParseStrictJson(options.config_json, "config.json")),
        plan_(PlanShards(tensors_, options.shards)),
        noise_(options.seed) {
    for (const ShardPlan& shard : plan_) progress_.bytes_total += shard.bytes;
    progress_.shards_total = plan_.size();
  }

  SynthReport Run() {
    PrepareFolder();
    WriteText("config.json", options_.config_json);
    WriteText("generation_config.json", GenerationConfig());
    CopyTokenizer();
    for (const ShardPlan& shard : plan_) WriteShard(shard);
    if (plan_.size() > 1) WriteIndex();
    return {count_, progress_.bytes_total, plan_.size()};
  }

 private:
  void PrepareFolder() {
    std::error_code error;
    fs::create_directories(options_.output, error);
    if (error) {
      Fail(ErrorKind::kIo, "{}: cannot make the folder: {}", options_.output.string(),
           error.message());
    }
    std::vector<fs::path> old = OldFiles();
    if (!old.empty() && !options_.force) {
      Fail(ErrorKind::kUsage, "{}: already holds a checkpoint ({}); --force replaces it",
           options_.output.string(), old.front().filename().string());
    }
    if (options_.force) {
      for (fs::path& path : Leftovers()) old.push_back(std::move(path));
    }
    // The index goes first, so that what is left never looks whole.
    for (const fs::path& path : old) {
      if (!fs::remove(path, error) && error) {
        Fail(ErrorKind::kIo, "{}: cannot remove: {}", path.string(), error.message());
      }
    }
    CheckSpace();
  }

  // Files of a checkpoint in the folder, the index first.
  std::vector<fs::path> OldFiles() const {
    std::vector<fs::path> old;
    for (const std::string_view name : {kIndexName, std::string_view("config.json")}) {
      std::error_code error;
      if (fs::exists(options_.output / name, error)) old.push_back(options_.output / name);
    }
    for (const std::string& name : ListSafetensors(options_.output)) {
      if (name == kSingleName || ParseShardNumber(name)) old.push_back(options_.output / name);
    }
    return old;
  }

  // What an interrupted writer of a checkpoint left in the folder: NAME.NUMBER.partial.
  std::vector<fs::path> Leftovers() const {
    std::vector<fs::path> left;
    std::error_code error;
    for (fs::directory_iterator it(options_.output, error), end; !error && it != end;
         it.increment(error)) {
      const auto target = AtomicFile::TargetOf(it->path().filename().string());
      if (!target) continue;
      const std::string& name = *target;
      const bool ours = name == kIndexName || name == kConfigName || name == kSingleName ||
                        name == "generation_config.json" || ParseShardNumber(name) ||
                        std::ranges::find(kTokenizerFiles, name) != kTokenizerFiles.end();
      if (ours) left.push_back(it->path());
    }
    return left;
  }

  void CheckSpace() const {
    // Names, headers and index of a tensor take less than this.
    constexpr uint64_t kBytesATensor = 400;
    uint64_t tensors = 0;
    for (size_t unit = 0; unit < tensors_.units(); ++unit) {
      tensors_.Visit(unit, [&](const SynthTensor& /*tensor*/) { ++tensors; });
    }
    const uint64_t needed = tensors * kBytesATensor + (options_.sparse ? 0 : progress_.bytes_total);
    std::error_code error;
    const fs::space_info space = fs::space(options_.output, error);
    if (!error && space.available < needed) {
      Fail(ErrorKind::kIo, "{}: needs {}, but the disk has {} left", options_.output.string(),
           FormatByteSize(needed), FormatByteSize(space.available));
    }
  }

  void WriteText(std::string_view name, std::string_view text) const {
    AtomicFile file(options_.output / name);
    file.Append(text);
    file.Commit();
  }

  std::string GenerationConfig() const {
    const ModelConfig config = ParseModelConfig(options_.config_json, "config.json");
    nlohmann::json values = {{"do_sample", true}, {"temperature", 1.0}, {"top_p", 0.95}};
    if (config.bos_token_id) values["bos_token_id"] = *config.bos_token_id;
    if (config.eos_token_id) values["eos_token_id"] = *config.eos_token_id;
    if (config.pad_token_id) values["pad_token_id"] = *config.pad_token_id;
    return values.dump(2) + "\n";
  }

  void CopyTokenizer() const {
    if (options_.tokenizer.empty()) return;
    constexpr uint64_t kLargest = uint64_t{256} << 20;
    std::error_code error;
    if (!fs::exists(options_.tokenizer / kTokenizerFiles[0], error)) {
      Fail(ErrorKind::kUsage, "--tokenizer: {} holds no {}", options_.tokenizer.string(),
           kTokenizerFiles[0]);
    }
    for (const char* name : kTokenizerFiles) {
      const fs::path from = options_.tokenizer / name;
      if (fs::exists(from, error)) WriteText(name, ReadWholeFile(from, kLargest));
    }
  }

  // Gives the header of a shard in pieces to `sink`.
  template <typename Sink>
  void EmitHeader(const ShardPlan& shard, const Sink& sink) const {
    sink(R"({"__metadata__":{"format":"pt")");
    if (options_.sparse) sink(fmt::format(R"(,"{}":"{}")", kMadeByKey, kMadeOfHoles));
    sink("}");
    uint64_t offset = 0;
    for (size_t unit = shard.first_unit; unit < shard.end_unit; ++unit) {
      tensors_.Visit(unit, [&](const SynthTensor& tensor) {
        sink(fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                         tensor.name, DtypeName(tensor.dtype), fmt::join(tensor.shape, ","), offset,
                         offset + tensor.bytes));
        offset += tensor.bytes;
      });
    }
    sink("}");
  }

  // Writes length and header and gives the offset of the data.
  uint64_t WriteHeader(const ShardPlan& shard, AtomicFile& file) const {
    constexpr uint64_t kAlignment = 8;
    uint64_t length = 0;
    EmitHeader(shard, [&](std::string_view text) { length += text.size(); });
    const uint64_t padded = (length + kAlignment - 1) / kAlignment * kAlignment;
    file.Append(std::as_bytes(std::span(&padded, 1)));
    TextWriter writer(file);
    EmitHeader(shard, [&](std::string_view text) {
      writer.text() += text;
      writer.Flush(kTextBytes);
    });
    writer.text().append(padded - length, ' ');
    writer.Flush(0);
    return sizeof(padded) + padded;
  }

  void WriteShard(const ShardPlan& shard) {
    AtomicFile file(options_.output / shard.name);
    const uint64_t data_offset = WriteHeader(shard, file);
    if (options_.sparse) file.Truncate(data_offset + shard.bytes);
    piece_.clear();
    for (size_t unit = shard.first_unit; unit < shard.end_unit; ++unit) {
      tensors_.Visit(unit, [&](const SynthTensor& tensor) {
        ++count_;
        if (!options_.sparse) WriteTensor(tensor, file);
      });
      if (options_.sparse) Report(tensors_.UnitBytes(unit));
    }
    file.Append(piece_);
    Report(piece_.size());
    file.Commit();
    ++progress_.shards_done;
    Report(0);
  }

  // Appends to the piece that is gathered, and writes it out whenever it is full.
  void WriteTensor(const SynthTensor& tensor, AtomicFile& file) {
    static_assert(kPieceBytes % SynthNoise::kStepBytes == 0);
    noise_.Begin(tensor.name, tensor.fill);
    uint64_t left = tensor.bytes;
    while (left > 0) {
      const size_t bytes = std::min<uint64_t>(left, kPieceBytes);
      const size_t at = piece_.size();
      piece_.resize(at + bytes);
      noise_.Next(std::span(piece_).subspan(at));
      left -= bytes;
      if (piece_.size() < kPieceBytes) continue;
      file.Append(piece_);
      Report(piece_.size());
      piece_.clear();
    }
  }

  void Report(uint64_t bytes) {
    progress_.bytes_done += bytes;
    if (options_.progress) options_.progress(progress_);
  }

  void WriteIndex() {
    AtomicFile file(options_.output / kIndexName);
    TextWriter writer(file);
    writer.text() = fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n",
                                progress_.bytes_total);
    writer.text() += "  \"weight_map\": {";
    bool first = true;
    for (const ShardPlan& shard : plan_) {
      for (size_t unit = shard.first_unit; unit < shard.end_unit; ++unit) {
        tensors_.Visit(unit, [&](const SynthTensor& tensor) {
          writer.text() +=
              fmt::format("{}\n    \"{}\": \"{}\"", first ? "" : ",", tensor.name, shard.name);
          first = false;
          writer.Flush(kTextBytes);
        });
      }
    }
    writer.text() += "\n  }\n}\n";
    writer.Flush(0);
    file.Commit();
  }

  const SynthOptions& options_;
  SynthTensors tensors_;
  std::vector<ShardPlan> plan_;
  SynthNoise noise_;
  SynthProgress progress_;
  uint64_t count_ = 0;
  std::vector<std::byte> piece_;
};

}  // namespace

static_assert(std::endian::native == std::endian::little, "weights are written as they are stored");

SynthReport WriteSynthCheckpoint(const SynthOptions& options) { return Synthesizer(options).Run(); }

}  // namespace kimi_k3

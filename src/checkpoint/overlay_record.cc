// overlay.json: reading it as what a stranger may have written, and writing it.
#include "checkpoint/overlay_record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "base/coded_bf16.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fnv_hash.h"
#include "base/quantized_group.h"
#include "checkpoint/model_folders.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/shard_names.h"
#include "checkpoint/strict_json.h"
#include "checkpoint/untrusted_file.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kOverlayFormat = "kimi_k3 overlay 1";
constexpr uint64_t kLongestRecordBytes = uint64_t{64} << 20;
constexpr size_t kMatrixSampleBytes = 4096;
constexpr size_t kSha256Digits = 64;

constexpr std::array<std::pair<std::string_view, Dtype>, 3> kForms = {
    {{"q8", Dtype::kQ8}, {"q4", Dtype::kQ4}, {"lossless", Dtype::kCodedBf16}}};

bool IsLowerHex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Reads the fields of a record; every refusal names the file.
class RecordReader {
 public:
  explicit RecordReader(std::string source) : source_(std::move(source)) {}

  OverlayRecord Read(const json& root) const {
    if (!root.is_object() || !root.contains("format") || root["format"] != kOverlayFormat) {
      Refuse("is not an overlay of this version of kimi_k3 (\"format\" must be \"{}\")",
             kOverlayFormat);
    }
    OverlayRecord record;
    record.trunk = Text(root, "trunk");
    if (!OverlayFormNamed(record.trunk)) {
      Refuse("\"trunk\" is \"{}\"; known are q8, q4 and lossless", Printable(record.trunk));
    }
    record.only = Texts(root, "only");
    record.except = Texts(root, "except");
    record.complete = Field(root, "complete", &json::is_boolean).get<bool>();
    for (const json& entry : Field(root, "files", &json::is_array)) {
      record.files.push_back(ReadFile(entry));
    }
    for (size_t i = 1; i < record.files.size(); ++i) {
      if (record.files[i - 1].name >= record.files[i].name) {
        Refuse("\"files\" are not in the order of their names");
      }
    }
    return record;
  }

 private:
  template <typename... Args>
  [[noreturn]] void Refuse(fmt::format_string<Args...> format, Args&&... args) const {
    Fail(ErrorKind::kCheckpoint, "{}: {}; remove the overlay and make it anew (kimi_k3 quantize)",
         source_, fmt::format(format, std::forward<Args>(args)...));
  }

  const json& Field(const json& object, const char* name, bool (json::*is)() const) const {
    const auto found = object.is_object() ? object.find(name) : object.end();
    if (!object.is_object() || found == object.end() || !((*found).*is)()) {
      Refuse("\"{}\" is missing or of another type", name);
    }
    return *found;
  }

  std::string Text(const json& object, const char* name) const {
    return Field(object, name, &json::is_string).get<std::string>();
  }

  std::vector<std::string> Texts(const json& object, const char* name) const {
    std::vector<std::string> texts;
    for (const json& entry : Field(object, name, &json::is_array)) {
      if (!entry.is_string()) Refuse("\"{}\" holds what is no text", name);
      texts.push_back(entry.get<std::string>());
    }
    return texts;
  }

  OverlayFile ReadFile(const json& entry) const {
    OverlayFile file;
    file.name = Text(entry, "name");
    if (!IsPlainFileName(file.name)) {
      Refuse("names the file \"{}\"; files must lie in the overlay's own folder under a plain name",
             Printable(file.name));
    }
    file.bytes = Field(entry, "bytes", &json::is_number_unsigned).get<uint64_t>();
    file.sha256 = Text(entry, "sha256");
    if (file.sha256.size() != kSha256Digits || !IsLowerHex(file.sha256)) {
      Refuse("the hash of {} is no SHA-256", Printable(file.name));
    }
    for (const json& matrix : Field(entry, "matrices", &json::is_array)) {
      file.matrices.push_back(ReadMatrix(matrix));
    }
    return file;
  }

  OverlayMatrix ReadMatrix(const json& entry) const {
    OverlayMatrix matrix;
    matrix.name = Text(entry, "name");
    matrix.bytes = Field(entry, "bytes", &json::is_number_unsigned).get<uint64_t>();
    const std::string base = Text(entry, "base");
    const auto [end, failure] =
        std::from_chars(base.data(), base.data() + base.size(), matrix.base_fingerprint, 16);
    if (base.size() != 16 || failure != std::errc() || end != base.data() + base.size()) {
      Refuse("\"base\" of {} is not 16 hexadecimal digits", Printable(matrix.name));
    }
    matrix.error = Field(entry, "error", &json::is_number).get<double>();
    if (!std::isfinite(matrix.error) || matrix.error < 0) {
      Refuse("\"error\" of {} is negative", Printable(matrix.name));
    }
    return matrix;
  }

  std::string source_;
};

nlohmann::ordered_json FileToJson(const OverlayFile& file) {
  nlohmann::ordered_json matrices = nlohmann::ordered_json::array();
  for (const OverlayMatrix& matrix : file.matrices) {
    matrices.push_back({{"name", matrix.name},
                        {"bytes", matrix.bytes},
                        {"base", fmt::format("{:016x}", matrix.base_fingerprint)},
                        {"error", matrix.error}});
  }
  return {{"name", file.name},
          {"bytes", file.bytes},
          {"sha256", file.sha256},
          {"matrices", std::move(matrices)}};
}

}  // namespace

std::optional<Dtype> OverlayFormNamed(std::string_view name) {
  for (const auto& [known, form] : kForms) {
    if (known == name) return form;
  }
  return std::nullopt;
}

std::string_view OverlayFormName(Dtype form) {
  for (const auto& [name, known] : kForms) {
    if (known == form) return name;
  }
  return {};
}

size_t QuantizedGroupBytes(Dtype form) {
  return form == Dtype::kQ8 ? kQ8GroupBytes : kQ4GroupBytes;
}

uint64_t QuantizedRowBytes(Dtype form, uint64_t columns) {
  return columns / kQuantizedGroupColumns * QuantizedGroupBytes(form);
}

bool OverlayRowFits(Dtype form, uint64_t columns, uint64_t row_bytes) {
  if (form == Dtype::kCodedBf16) return CodedBf16Row::Of(columns, row_bytes).has_value();
  return columns % kQuantizedGroupColumns == 0 && row_bytes == QuantizedRowBytes(form, columns);
}

std::optional<OverlayRecord> OverlayRecord::Load(const fs::path& folder) {
  if (!HasEntry(folder, kOverlayRecordName)) return std::nullopt;
  const fs::path path = folder / kOverlayRecordName;
  const std::string text = ReadTextFile(path, kLongestRecordBytes);
  json root;
  try {
    root = ParseStrictJson(text, path.string());
  } catch (const Error& error) {
    Fail(error.kind(), "{}; remove this overlay and make it anew (kimi_k3 quantize)", error.what());
  }
  return RecordReader(path.string()).Read(root);
}

void OverlayRecord::Save(const fs::path& folder) const {
  nlohmann::ordered_json root = {{"format", kOverlayFormat},
                                 {"trunk", trunk},
                                 {"only", only},
                                 {"except", except},
                                 {"complete", complete},
                                 {"files", nlohmann::ordered_json::array()}};
  for (const OverlayFile& file : files) root["files"].push_back(FileToJson(file));
  AtomicFile file(folder / kOverlayRecordName);
  file.Append(root.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  file.Commit();
}

std::string OverlayRecord::Fingerprint() const {
  FnvHash hash;
  for (const OverlayFile& file : files) {
    hash.Add(file.name);
    hash.Add(file.sha256);
  }
  return fmt::format("{:08x}", hash.value() & 0xffffffffU);
}

uint64_t MatrixFingerprint(const Checkpoint& checkpoint, const TensorLocation& matrix) {
  std::array<std::byte, kMatrixSampleBytes> sample;
  const ByteRange& range = matrix.range;
  const uint64_t size = std::min<uint64_t>(range.bytes, sample.size());
  const fs::path& path = checkpoint.shards()[range.shard].path;
  ReadExactly(OpenForReading(path), path, range.offset + (range.bytes - size) / 2,
              std::span(sample).first(size));
  FnvHash hash;
  hash.Add(fmt::format("{} {} {};", DtypeName(matrix.dtype), matrix.rows, matrix.columns));
  hash.Add(std::span(sample).first(size));
  return hash.value();
}

}  // namespace kimi_k3

// The JSON header of one safetensors file, every number of it checked.
#include "checkpoint/safetensors_header.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/checked_math.h"
#include "checkpoint/location_table.h"

namespace kimi_k3 {
namespace {

namespace ondemand = simdjson::ondemand;

// Bits of one element of the dtypes that the format knows; nothing for others.
std::optional<uint64_t> DtypeBits(std::string_view dtype) {
  static constexpr std::array<std::pair<std::string_view, uint64_t>, 19> kKnown = {
      {{"BF16", 16},
       {"U8", 8},
       {"F32", 32},
       {"F16", 16},
       {"F64", 64},
       {"I8", 8},
       {"I16", 16},
       {"I32", 32},
       {"I64", 64},
       {"U16", 16},
       {"U32", 32},
       {"U64", 64},
       {"BOOL", 8},
       {"F8_E4M3", 8},
       {"F8_E5M2", 8},
       {"F8_E8M0", 8},
       {"C64", 64},
       {"F4", 4},
       {"F6_E2M3", 6}}};
  for (const auto& [name, bits] : kKnown) {
    if (name == dtype) return bits;
  }
  return std::nullopt;
}

// Bytes of a tensor, rounded up; nothing where a product overflows, even one hidden by a zero.
std::optional<uint64_t> TensorBytes(std::span<const uint64_t> shape, uint64_t bits) {
  uint64_t product = bits;
  bool empty = false;
  for (const uint64_t size : shape) {
    empty = empty || size == 0;
    const auto next = CheckedMul(product, std::max<uint64_t>(size, 1));
    if (!next) return std::nullopt;
    product = *next;
  }
  if (empty) return 0;
  return product / 8 + (product % 8 != 0 ? 1 : 0);
}

// Where a visited tensor lies, for the checks that need all of them.
struct Extent {
  uint64_t begin;
  uint64_t end;
  std::string_view name;
};

// What a header says of one tensor, before it is checked.
struct Entry {
  std::string_view name;
  std::optional<std::string_view> dtype;
  std::array<uint64_t, kTensorRankLimit> shape{};
  size_t rank = 0;
  bool has_shape = false;
  std::array<uint64_t, 2> offsets{};
  bool has_offsets = false;
};

// Reads one text.
class Walker {
 public:
  Walker(uint64_t data_offset, uint64_t data_bytes, std::string_view source, ProblemList& problems)
      : data_offset_(data_offset), data_bytes_(data_bytes), source_(source), problems_(problems) {}

  // False where the text was not read to its end, or the file was cut short.
  bool Read(ondemand::parser& parser, simdjson::padded_string_view text,
            FunctionRef<void(const HeaderTensor&)> visit) {
    ondemand::document document;
    ondemand::object root;
    if (Failed(parser.iterate(text).get(document)) || Failed(document.get_object().get(root))) {
      return false;
    }
    for (auto result : root) {
      ondemand::field field;
      std::string_view name;
      if (Failed(std::move(result).get(field)) || Failed(field.unescaped_key().get(name)))
        return false;
      if (name == "__metadata__") {
        if (!ReadMetadata(field.value())) return false;
        continue;
      }
      Entry entry;
      entry.name = name;
      if (!ReadEntry(field.value(), entry)) return false;
      Check(entry, visit);
    }
    // Past the last token there is no location.
    if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
      problems_.Add("{}: the header has text after its closing brace", source_);
    }
    CheckNames();
    return CheckPlaces();
  }

  bool made_of_holes() const { return made_of_holes_; }

 private:
  bool Failed(simdjson::error_code error) {
    if (error == simdjson::SUCCESS) return false;
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();  // not the file's fault
    problems_.Add("{}: the header is not valid JSON: {}; the file is damaged: fetch it again",
                  source_, simdjson::error_message(error));
    return true;
  }

  template <typename... Args>
  bool Refuse(const Entry& entry, fmt::format_string<Args...> format, Args&&... args) {
    problems_.Add("{}: tensor {}: {}", source_, Printable(entry.name),
                  fmt::format(format, std::forward<Args>(args)...));
    return false;
  }

  // Strings by string, as the format demands; anything else could hide a second meaning.
  bool ReadMetadata(ondemand::value value) {
    if (std::exchange(has_metadata_, true)) {
      problems_.Add("{}: the header has __metadata__ twice", source_);
    }
    ondemand::object object;
    if (value.get_object().get(object) != simdjson::SUCCESS) {
      problems_.Add("{}: __metadata__ of the header is not an object", source_);
      return false;
    }
    for (auto result : object) {
      ondemand::field field;
      std::string_view key;
      std::string_view text;
      if (Failed(std::move(result).get(field)) || Failed(field.unescaped_key().get(key))) {
        return false;
      }
      if (field.value().get_string().get(text) != simdjson::SUCCESS) {
        problems_.Add("{}: __metadata__ of the header holds something other than strings", source_);
        return false;
      }
      made_of_holes_ = made_of_holes_ || (key == kMadeByKey && text == kMadeOfHoles);
    }
    return true;
  }

  bool ReadEntry(ondemand::value value, Entry& entry) {
    ondemand::object object;
    if (value.get_object().get(object) != simdjson::SUCCESS) {
      return Refuse(entry, "is not described by an object");
    }
    for (auto result : object) {
      ondemand::field field;
      std::string_view key;
      if (Failed(std::move(result).get(field)) || Failed(field.unescaped_key().get(key))) {
        return false;
      }
      if (!ReadField(key, field.value(), entry)) return false;
    }
    return true;
  }

  bool ReadField(std::string_view key, ondemand::value value, Entry& entry) {
    if (key == "dtype") {
      std::string_view dtype;
      if (entry.dtype) return Refuse(entry, "has its dtype twice");
      if (value.get_string().get(dtype) != simdjson::SUCCESS) {
        return Refuse(entry, "its dtype is not a string");
      }
      entry.dtype = dtype;
      return true;
    }
    if (key == "shape") {
      if (std::exchange(entry.has_shape, true)) return Refuse(entry, "has its shape twice");
      return ReadNumbers("shape", value, entry, entry.shape, entry.rank);
    }
    if (key == "data_offsets") {
      if (std::exchange(entry.has_offsets, true)) {
        return Refuse(entry, "has its data_offsets twice");
      }
      size_t count = 0;
      if (!ReadNumbers("data_offsets", value, entry, entry.offsets, count)) return false;
      return count == 2 || Refuse(entry, "its data_offsets are {} numbers, not two", count);
    }
    return Refuse(entry, "has an unknown field \"{}\"", Printable(key, 60));
  }

  bool ReadNumbers(std::string_view what, ondemand::value value, const Entry& entry,
                   std::span<uint64_t> out, size_t& count) {
    ondemand::array array;
    if (value.get_array().get(array) != simdjson::SUCCESS) {
      return Refuse(entry, "its {} is not a list", what);
    }
    for (auto element : array) {
      if (count == out.size()) {
        return Refuse(entry, "its {} has more than {} numbers", what, out.size());
      }
      if (element.get_uint64().get(out[count]) != simdjson::SUCCESS) {
        return Refuse(entry, "its {} holds something other than whole numbers from 0 to 2^64 - 1",
                      what);
      }
      ++count;
    }
    return true;
  }

  // Whether the range has the size that shape and dtype demand; unknown dtypes have no size.
  bool SizeFits(const Entry& entry, std::span<const uint64_t> shape) {
    const auto bits = DtypeBits(*entry.dtype);
    const auto bytes = TensorBytes(shape, bits.value_or(1));
    if (!bytes) return Refuse(entry, "the product of its shape {} overflows", ShapeText(shape));
    const uint64_t range = entry.offsets[1] - entry.offsets[0];
    if (!bits || *bytes == range) return true;
    return Refuse(entry, "{} {} needs {} bytes, but its data_offsets span {}", *entry.dtype,
                  ShapeText(shape), *bytes, range);
  }

  void Check(const Entry& entry, FunctionRef<void(const HeaderTensor&)> visit) {
    if (!entry.dtype || !entry.has_shape || !entry.has_offsets) {
      Refuse(entry, "lacks its {}",
             !entry.dtype ? "dtype" : (!entry.has_shape ? "shape" : "data_offsets"));
      all_sound_ = false;
      return;
    }
    const auto [begin, end] = entry.offsets;
    if (begin > end) {
      RefuseOffsets({begin, end, entry.name});
      all_sound_ = false;
      return;
    }
    const std::span<const uint64_t> shape(entry.shape.data(), entry.rank);
    extents_.push_back({begin, end, entry.name});
    if (!SizeFits(entry, shape)) {
      all_sound_ = false;
    } else if (end <= data_bytes_) {
      visit({entry.name, *entry.dtype, shape, begin, end});
    }
  }

  void RefuseOffsets(const Extent& extent) {
    problems_.Add(
        "{}: tensor {}: its data_offsets [{}, {}] do not lie in order within the {} bytes of data",
        source_, Printable(extent.name), extent.begin, extent.end, data_bytes_);
  }

  void CheckNames() {
    std::vector<std::pair<size_t, size_t>> hashes;
    hashes.reserve(extents_.size());
    for (size_t i = 0; i < extents_.size(); ++i) {
      hashes.emplace_back(std::hash<std::string_view>{}(extents_[i].name), i);
    }
    std::sort(hashes.begin(), hashes.end());
    for (size_t i = 1; i < hashes.size(); ++i) {
      // Equal names have equal hashes and so stand side by side, but for a collision between them.
      for (size_t j = i; j > 0 && hashes[j - 1].first == hashes[i].first; --j) {
        const std::string_view name = extents_[hashes[i].second].name;
        if (name == extents_[hashes[j - 1].second].name) {
          problems_.Add("{}: tensor {}: its name is repeated in the header", source_,
                        Printable(name));
          break;
        }
      }
    }
  }

  // The tensors must tile the data: every byte belongs to exactly one. False where they tile more
  // than there is: of a file that was cut short a single line says so.
  bool CheckPlaces() {
    const auto by_place = [](const Extent& a, const Extent& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    };
    if (!std::is_sorted(extents_.begin(), extents_.end(), by_place)) {
      std::sort(extents_.begin(), extents_.end(), by_place);
    }
    const auto described = TiledBytes();
    if (described && *described != data_bytes_) {
      RefuseSize(data_offset_ + *described);
      return *described < data_bytes_;
    }
    for (const Extent& extent : extents_) {
      if (extent.end > data_bytes_) RefuseOffsets(extent);
    }
    std::erase_if(extents_, [this](const Extent& extent) {
      return extent.begin == extent.end || extent.end > data_bytes_;
    });
    CheckCover();
    return true;
  }

  // The bytes of data that the header describes; nothing unless its tensors are right taken alone
  // and lie end to end. REQUIRES: extents_ in order.
  std::optional<uint64_t> TiledBytes() const {
    if (!all_sound_) return std::nullopt;
    uint64_t covered = 0;
    for (const Extent& extent : extents_) {
      if (extent.begin == extent.end && extent.begin <= covered) continue;
      if (extent.begin != covered) return std::nullopt;
      covered = extent.end;
    }
    if (covered >= LocationTable::kOffsetLimit - data_offset_) return std::nullopt;
    return covered;
  }

  void RefuseSize(uint64_t described) {
    const uint64_t bytes = data_offset_ + data_bytes_;
    if (bytes < described) {
      problems_.AddAlways(
          "{}: has {} bytes, its header describes {}: cut short by {}; fetch this file again "
          "(kimi_k3 pull leaves those that are whole)",
          source_, GroupedDigits(bytes), GroupedDigits(described),
          GroupedDigits(described - bytes));
    } else {
      problems_.AddAlways(
          "{}: has {} bytes, its header describes {}: too long by {}; fetch this file again",
          source_, GroupedDigits(bytes), GroupedDigits(described),
          GroupedDigits(bytes - described));
    }
  }

  // REQUIRES: extents_ in order, none of them empty.
  void CheckCover() {
    uint64_t covered = 0;
    std::string_view last = "the header";
    for (const Extent& extent : extents_) {
      if (extent.begin < covered) {
        problems_.Add("{}: tensors {} and {} overlap by {} bytes", source_, Printable(last),
                      Printable(extent.name), std::min(covered, extent.end) - extent.begin);
      } else if (extent.begin > covered) {
        problems_.Add("{}: {} bytes between {} and tensor {} belong to no tensor", source_,
                      extent.begin - covered, Printable(last), Printable(extent.name));
      }
      if (extent.end > covered) {
        covered = extent.end;
        last = extent.name;
      }
    }
    if (covered < data_bytes_) {
      problems_.Add("{}: {} bytes at the end of the file belong to no tensor", source_,
                    data_bytes_ - covered);
    }
  }

  uint64_t data_offset_;  // in the file
  uint64_t data_bytes_;
  std::string_view source_;
  ProblemList& problems_;
  bool has_metadata_ = false;
  bool made_of_holes_ = false;
  bool all_sound_ = true;  // each tensor, taken alone, but for lying inside the data
  std::vector<Extent> extents_;
};

// The mistakes of writers that a JSON parser would report in riddles.
const char* OddEnds(std::string_view text) {
  if (text.empty()) return "is empty";
  if (text.starts_with("\xef\xbb\xbf")) return "begins with a byte order mark instead of {";
  if (text.front() != '{') return "does not begin with {";
  if (text.back() == '\0') return "is padded with NUL bytes; only white space may pad it";
  if (text.find_last_not_of(" \t\r\n") == std::string_view::npos) return "is empty";
  return nullptr;
}

}  // namespace

std::string ShapeText(std::span<const uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

struct SafetensorsHeaderParser::State {
  ondemand::parser parser{kHeaderBytesLimit + simdjson::SIMDJSON_PADDING};
  std::unique_ptr<char[]> buffer;
  size_t capacity = 0;
  size_t bytes = 0;
  bool made_of_holes = false;
};

SafetensorsHeaderParser::SafetensorsHeaderParser() : state_(std::make_unique<State>()) {}
SafetensorsHeaderParser::~SafetensorsHeaderParser() = default;

std::span<char> SafetensorsHeaderParser::Buffer(size_t bytes) {
  const size_t needed = bytes + simdjson::SIMDJSON_PADDING;
  if (needed > state_->capacity) {
    state_->buffer.reset();
    state_->buffer = std::make_unique_for_overwrite<char[]>(needed);
    state_->capacity = needed;
  }
  std::memset(state_->buffer.get() + bytes, 0, simdjson::SIMDJSON_PADDING);
  state_->bytes = bytes;
  return {state_->buffer.get(), bytes};
}

bool SafetensorsHeaderParser::Parse(uint64_t data_bytes, std::string_view source,
                                    ProblemList& problems,
                                    FunctionRef<void(const HeaderTensor&)> visit) {
  const std::string_view text(state_->buffer.get(), state_->bytes);
  state_->made_of_holes = false;
  if (const char* odd = OddEnds(text)) {
    problems.Add("{}: the header {}", source, odd);
    return false;
  }
  Walker walker(kLengthFieldBytes + text.size(), data_bytes, source, problems);
  const bool whole =
      walker.Read(state_->parser,
                  simdjson::padded_string_view(text.data(), text.size(), state_->capacity), visit);
  state_->made_of_holes = walker.made_of_holes();
  return whole;
}

bool SafetensorsHeaderParser::made_of_holes() const { return state_->made_of_holes; }

void SafetensorsHeaderParser::Release() { state_ = std::make_unique<State>(); }

}  // namespace kimi_k3

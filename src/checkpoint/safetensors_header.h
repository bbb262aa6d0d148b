// The JSON header of one safetensors file, every number of it checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "checkpoint/problem_list.h"

namespace kimi_k3 {

// Room for a repack of half a million tensors into one file (about 100 MB of header), twice over.
inline constexpr uint64_t kHeaderBytesLimit = uint64_t{256} << 20;
inline constexpr size_t kLengthFieldBytes = 8;
inline constexpr size_t kTensorRankLimit = 8;
// An entry of __metadata__ that tells that the file is made of holes on purpose.
inline constexpr std::string_view kMadeByKey = "made_by";
inline constexpr std::string_view kMadeOfHoles = "kimi_k3 synth --sparse";

// One entry of a header; the views are valid during the visit alone.
struct HeaderTensor {
  std::string_view name;
  std::string_view dtype;  // as written; not necessarily a known one
  std::span<const uint64_t> shape;
  uint64_t begin = 0;  // bytes after the header; begin <= end <= data_bytes
  uint64_t end = 0;
};

// Parses headers one after another, keeping its buffers. Not thread-safe.
class SafetensorsHeaderParser {
 public:
  SafetensorsHeaderParser();
  ~SafetensorsHeaderParser();
  SafetensorsHeaderParser(const SafetensorsHeaderParser&) = delete;
  SafetensorsHeaderParser& operator=(const SafetensorsHeaderParser&) = delete;

  // A buffer of `bytes` to fill with the JSON text before Parse; valid until the next call. What it
  // held is lost.
  std::span<char> Buffer(size_t bytes);

  // Parses the text in Buffer and visits each tensor in file order. data_bytes: size of the file
  // after the header. What is wrong is added to `problems`, each line starting with `source` (the
  // file's name): bad JSON, a repeated name, offsets that are not whole numbers in order inside the
  // data, a shape whose product overflows or, for a known dtype, does not equal the range, and
  // tensors that overlap, leave a hole or leave bytes at the end. Where all is right but the size
  // of the file, a single line says so. Visited are the tensors that are right taken alone. False
  // where tensors may be missing from the visits for a reason that is told already: the file was
  // cut short, or an error of syntax or type made the rest of the text unreadable.
  bool Parse(uint64_t data_bytes, std::string_view source, ProblemList& problems,
             FunctionRef<void(const HeaderTensor&)> visit);

  // Whether the header that was parsed last says kMadeOfHoles.
  bool made_of_holes() const;

  // Frees the buffers.
  void Release();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "[7168, 1536]", for messages.
std::string ShapeText(std::span<const uint64_t> shape);

}  // namespace kimi_k3

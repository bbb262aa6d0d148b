// Vocabularies and data that the text tests share.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {

// The vocabulary in the repository: bytes, 500 merges, 32 special ids.
inline std::filesystem::path SmallFolder() {
  return std::filesystem::path(KIMI_K3_SOURCE_DIR) / "tests/data/text/small";
}

inline const Tokenizer& SmallTokenizer() {
  static const Tokenizer tokenizer = Tokenizer::Load(SmallFolder());
  return tokenizer;
}

// The published vocabulary and its test data, beside the repository where they exist.
inline std::filesystem::path SharedFolder() {
  return std::filesystem::path(KIMI_K3_SOURCE_DIR) / "../shared/data/tokenizer";
}

inline const Tokenizer& RealTokenizer() {
  static const Tokenizer tokenizer = Tokenizer::Load(SharedFolder());
  return tokenizer;
}

// Skips the test where the published vocabulary is absent.
#define SKIP_WITHOUT_SHARED_DATA()                                                         \
  if (!std::filesystem::exists(::kimi_k3::SharedFolder() / "tiktoken.model")) {            \
    GTEST_SKIP() << "needs the published tokenizer data at " << ::kimi_k3::SharedFolder(); \
  }                                                                                        \
  static_assert(true)

inline std::string ReadText(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline nlohmann::ordered_json ReadSharedJson(const std::string& name) {
  return nlohmann::ordered_json::parse(ReadText(SharedFolder() / name));
}

inline std::string Repeat(std::string_view text, size_t count) {
  std::string out;
  out.reserve(text.size() * count);
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

// The Error that the statement throws; fails the test where it throws none.
template <typename Function>
Error ErrorOf(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return Error(ErrorKind::kRun, "none");
}

}  // namespace kimi_k3

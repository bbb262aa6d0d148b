// What PyTorch computed from the trained model of models/tiny (tests/data/tiny), and that model
// opened as an engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "kimi_k3/generation.h"

namespace kimi_k3 {

// What an engine may be off, relative L2 of the logits.
constexpr double kTinyTolerance = 1e-5;

inline std::filesystem::path TinyModelFolder() {
  return std::filesystem::path(KIMI_K3_SOURCE_DIR) / "models/tiny";
}

inline std::string TinyDataFile(const std::string& name) {
  return ReadWholeFile(std::filesystem::path(KIMI_K3_SOURCE_DIR) / "tests/data/tiny" / name,
                       uint64_t{1} << 24);
}

inline EngineOptions TinyOptions(size_t context = 1024) {
  EngineOptions options;
  options.model_dir = TinyModelFolder();
  options.context = context;
  options.threads = 1;
  options.memory_bytes = uint64_t{1} << 30;
  options.all_prompt_logits = true;
  return options;
}

// The beginning of a held-out chapter.
struct TinyExcerpt {
  std::string name;
  std::vector<TokenId> ids;
  std::vector<size_t> logit_positions;
  std::vector<float> logits;          // [logit_positions, vocabulary]
  std::vector<TokenId> greatest_ids;  // at each position
  double bits_per_byte = 0;
};

// The whole of that chapter, read in windows.
struct TinyChapter {
  std::string name, text;
  size_t ids = 0, window = 0, bytes = 0;
  double bits_per_byte = 0;
};

struct TinyGreedy {
  std::string name;
  std::vector<TokenId> prompt_ids, ids;
};

// A verse asked for and given.
struct TinyQuestion {
  std::string question, text;
  bool thinking = false;
  std::string thought;
  std::vector<TokenId> prompt_ids, answer_ids;  // to <|end_of_msg|> and with it
};

struct TinyVerse {
  std::string reference, text;
  bool word_for_word = false;
};

struct TinyReference {
  size_t vocabulary = 0;
  std::vector<TinyExcerpt> excerpts;
  std::vector<TinyChapter> chapters;
  std::vector<TinyGreedy> greedy;
  std::vector<TinyQuestion> questions;
  std::vector<TinyVerse> verses;
};

inline std::vector<float> TinyFloats(const std::string& file) {
  const std::string bytes = TinyDataFile(file);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

inline TinyReference LoadTinyReference() {
  const auto json = nlohmann::json::parse(TinyDataFile("reference.json"));
  TinyReference reference;
  reference.vocabulary = json.at("vocabulary_size");
  for (const auto& one : json.at("excerpts")) {
    reference.excerpts.push_back({.name = one.at("name"),
                                  .ids = one.at("ids"),
                                  .logit_positions = one.at("logit_positions"),
                                  .logits = TinyFloats(one.at("logits_file")),
                                  .greatest_ids = one.at("greatest_ids"),
                                  .bits_per_byte = one.at("bits_per_byte")});
  }
  for (const auto& one : json.at("chapters")) {
    reference.chapters.push_back({.name = one.at("name"),
                                  .text = TinyDataFile(one.at("text_file")),
                                  .ids = one.at("ids"),
                                  .window = one.at("window"),
                                  .bytes = one.at("bytes"),
                                  .bits_per_byte = one.at("bits_per_byte")});
  }
  for (const auto& one : json.at("greedy")) {
    reference.greedy.push_back(
        {.name = one.at("name"), .prompt_ids = one.at("prompt_ids"), .ids = one.at("ids")});
  }
  for (const auto& one : json.at("questions")) {
    const bool thinking = !one.at("thinking_effort").is_null();
    reference.questions.push_back(
        {.question = one.at("question"),
         .text = one.at("text"),
         .thinking = thinking,
         .thought = thinking ? one.at("thought").get<std::string>() : std::string(),
         .prompt_ids = one.at("prompt_ids"),
         .answer_ids = one.at("answer_ids")});
  }
  for (const auto& one : json.at("verses")) {
    reference.verses.push_back({.reference = one.at("reference"),
                                .text = one.at("text"),
                                .word_for_word = one.at("word_for_word")});
  }
  return reference;
}

// Nats of `token` under these logits.
inline double Nats(std::span<const float> logits, TokenId token) {
  double greatest = static_cast<double>(logits[0]);
  for (const float logit : logits) greatest = std::max(greatest, static_cast<double>(logit));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - greatest);
  return greatest + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(token)]);
}

inline TokenId Greatest(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// ||found - expected|| / ||expected||; not a number counts as infinitely far.
inline double Distance(std::span<const float> found, std::span<const float> expected) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double wanted = static_cast<double>(expected[i]);
    difference += std::pow(static_cast<double>(found[i]) - wanted, 2);
    norm += wanted * wanted;
  }
  const double distance = std::sqrt(difference / norm);
  return std::isnan(distance) ? HUGE_VAL : distance;
}

// The logits of all `ids` from an empty state, given row by row.
inline void ForEachRow(Engine& engine, std::span<const TokenId> ids,
                       const std::function<void(size_t, std::span<const float>)>& use) {
  Sequence sequence = engine.NewSequence();
  Generate(engine, sequence, ids, {.max_tokens = 0, .on_prompt_logits = use},
           [](TokenId) { return true; });
}

// The distance of the logits of the first `count` ids of the excerpt from PyTorch's.
inline double DistanceFromReference(Engine& engine, const TinyExcerpt& excerpt, size_t count) {
  std::vector<float> found;
  size_t next = 0;
  ForEachRow(engine, std::span(excerpt.ids).first(count),
             [&](size_t row, std::span<const float> logits) {
               if (next == excerpt.logit_positions.size()) return;
               if (row != excerpt.logit_positions[next]) return;
               found.insert(found.end(), logits.begin(), logits.end());
               ++next;
             });
  return found.empty() ? HUGE_VAL : Distance(found, std::span(excerpt.logits).first(found.size()));
}

}  // namespace kimi_k3

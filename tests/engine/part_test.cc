// A part of a model is the model that consists of that part; where files lie makes no difference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "engine/golden_engine.h"
#include "kimi_k3/generation.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

constexpr uint64_t kMost = uint64_t{1} << 26;

class Folder {
 public:
  explicit Folder(const std::string& parent = testing::TempDir()) {
    std::string name = parent + "/kimi_k3_part_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct Answer {
  std::vector<float> prompt_logits;
  std::vector<TokenId> tokens;
  bool operator==(const Answer&) const = default;
};

Answer Ask(EngineOptions options) {
  options.all_prompt_logits = true;
  Engine engine = Engine::Open(options);
  Sequence sequence = engine.NewSequence();
  Answer answer;
  GenerationOptions generation;
  generation.max_tokens = 6;
  generation.ignore_eos = true;
  generation.on_prompt_logits = [&](size_t, std::span<const float> row) {
    answer.prompt_logits.insert(answer.prompt_logits.end(), row.begin(), row.end());
  };
  const std::vector<TokenId> prompt = {5, 17, 3, 3, 60, 11, 29, 8, 44, 2};
  answer.tokens =
      Generate(engine, sequence, prompt, generation, [](TokenId) { return true; }).tokens;
  return answer;
}

EngineOptions PartOptions(const fs::path& dir, const std::string& part) {
  EngineOptions options = GoldenOptions("k3");
  options.model_dir = dir;
  options.shard = part;
  return options;
}

// A tensor of a safetensors file.
struct StoredTensor {
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string data;
};
using StoredTensors = std::map<std::string, StoredTensor>;

StoredTensors ReadTensors(const fs::path& dir) {
  StoredTensors tensors;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string file = ReadWholeFile(entry.path(), kMost);
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof(length));
    const json header = json::parse(file.substr(8, length));
    for (const auto& [name, tensor] : header.items()) {
      if (name == "__metadata__") continue;
      const uint64_t begin = tensor["data_offsets"][0];
      const uint64_t end = tensor["data_offsets"][1];
      tensors[name] = {tensor["dtype"], tensor["shape"],
                       file.substr(8 + length + begin, end - begin)};
    }
  }
  return tensors;
}

void WriteModel(const fs::path& dir, const json& config, const StoredTensors& tensors) {
  std::ofstream(dir / "config.json") << config.dump();
  json header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
    data += tensor.data;
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  std::ofstream file(dir / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << text << data;
}

struct Part {
  size_t first_layer, last_layer, first_expert, last_expert;
  bool residuals = true;  // false: the part comes to no block boundary
};

// The number after `mark` in a name, which is replaced by one `less`; nothing where there is none.
std::optional<size_t> Renumber(std::string& name, const std::string& mark, size_t less) {
  const size_t at = name.find(mark);
  if (at == std::string::npos) return std::nullopt;
  const size_t begin = at + mark.size();
  const size_t end = name.find('.', begin);
  const size_t number = std::stoul(name.substr(begin, end - begin));
  if (number >= less) name.replace(begin, end - begin, std::to_string(number - less));
  return number;
}

json ConfigOfPart(json config, const Part& part) {
  json& text = config.contains("text_config") ? config["text_config"] : config;
  text["num_hidden_layers"] = part.last_layer - part.first_layer + 1;
  const size_t group = text["num_experts"].get<size_t>() / text["num_expert_group"].get<size_t>();
  const size_t experts = part.last_expert - part.first_expert + 1;
  if (text["num_expert_group"] != 1) text["num_expert_group"] = experts / group;
  text["num_experts"] = experts;
  const size_t dense = text["first_k_dense_replace"];
  text["first_k_dense_replace"] = dense - std::min(dense, part.first_layer);
  if (!part.residuals) text.erase("attn_res_block_size");
  for (const char* list : {"kda_layers", "full_attn_layers"}) {
    json kept = json::array();
    for (const size_t one_based : text["linear_attn_config"][list]) {
      const size_t layer = one_based - 1;
      if (layer < part.first_layer || layer > part.last_layer) continue;
      kept.push_back(one_based - part.first_layer);
    }
    text["linear_attn_config"][list] = kept;
  }
  return config;
}

// Writes a model of its own that consists of the layers and experts of the part.
void WriteStandAlone(const std::string& golden, const Part& part, const fs::path& dir) {
  const fs::path from = GoldenFolder(golden) / "checkpoint";
  StoredTensors kept;
  for (const auto& [stored_name, stored] : ReadTensors(from)) {
    std::string name = stored_name;
    StoredTensor tensor = stored;
    if (name.starts_with("vision_tower.") || name.starts_with("mm_projector.")) continue;
    if (!part.residuals && name.find("_res_") != std::string::npos) continue;
    const auto layer = Renumber(name, "model.layers.", part.first_layer);
    if (layer && (*layer < part.first_layer || *layer > part.last_layer)) continue;
    const auto expert = Renumber(name, ".experts.", part.first_expert);
    if (expert && (*expert < part.first_expert || *expert > part.last_expert)) continue;
    if (name.find("block_sparse_moe.gate.") != std::string::npos) {
      const size_t row_bytes = tensor.data.size() / tensor.shape[0];
      tensor.shape[0] = part.last_expert - part.first_expert + 1;
      tensor.data = tensor.data.substr(part.first_expert * row_bytes, tensor.shape[0] * row_bytes);
    }
    kept[name] = tensor;
  }
  const json config = json::parse(ReadWholeFile(from / "config.json", kMost));
  WriteModel(dir, ConfigOfPart(config, part), kept);
}

std::string Text(const Part& part) {
  return fmt::format("layers={}-{},experts={}-{}", part.first_layer, part.last_layer,
                     part.first_expert, part.last_expert);
}

void ExpectSameAsStandAlone(const std::string& golden, const Part& part) {
  SCOPED_TRACE(golden + ": " + Text(part));
  const Folder folder;
  WriteStandAlone(golden, part, folder.path());
  const Answer expected = Ask(PartOptions(folder.path(), ""));
  const fs::path whole = GoldenFolder(golden) / "checkpoint";
  EXPECT_TRUE(Ask(PartOptions(whole, Text(part))) == expected);
}

TEST(Part, IsTheModelThatConsistsOfIt) {
  // Blocks of three layers: what begins at a boundary has the same blocks when it stands alone.
  for (const Part& part : {Part{0, 6, 0, 7},
                           {0, 2, 0, 7},
                           {0, 0, 0, 7},
                           {3, 6, 0, 7},
                           {3, 3, 0, 7},
                           {6, 6, 0, 7},
                           {0, 6, 0, 4},
                           {0, 6, 3, 7},
                           {3, 5, 2, 4},
                           {0, 1, 5, 7}}) {
    ExpectSameAsStandAlone("k3", part);
  }
}

TEST(Part, WithoutABlockBoundaryHasNoResiduals) {
  for (const Part& part : {Part{1, 2, 0, 7, false}, {2, 2, 1, 6, false}, {4, 5, 0, 7, false}}) {
    ExpectSameAsStandAlone("k3", part);
  }
}

TEST(Part, OfAModelWithoutResidualsMayBeginAnywhere) {
  for (const Part& part : {Part{1, 3, 0, 11}, {0, 1, 0, 11}, {2, 2, 0, 11}, {4, 4, 0, 11}}) {
    ExpectSameAsStandAlone("kimi-linear", part);
  }
}

TEST(Part, OfExpertsInGroupsMayBeWholeGroups) {
  // Four groups of three experts, two of which are kept.
  for (const Part& part : {Part{0, 4, 0, 8}, {0, 4, 3, 8}, {1, 3, 3, 11}}) {
    ExpectSameAsStandAlone("kimi-linear", part);
  }
}

TEST(Part, ThatIsEverythingIsTheModel) {
  const fs::path dir = GoldenFolder("k3") / "checkpoint";
  const Answer whole = Ask(PartOptions(dir, ""));
  EXPECT_TRUE(Ask(PartOptions(dir, "layers=0-6,experts=0-7")) == whole);
  EXPECT_FALSE(Ask(PartOptions(dir, "layers=0-5")) == whole);
  EXPECT_FALSE(Ask(PartOptions(dir, "experts=0-5")) == whole);
  EXPECT_FALSE(Ask(PartOptions(dir, "layers=1-6")) == whole);
}

TEST(Part, NeedsOnlyItsShardsAndIsTheSameForEveryWayOfReading) {
  const fs::path whole = GoldenFolder("k3") / "checkpoint";
  const struct {
    const char* part;
    std::vector<const char*> unneeded;
  } cases[] = {{"layers=6-6", {"1", "2"}},
               {"layers=3-4", {"1"}},
               {"layers=1-1", {"2"}},
               {"layers=0-1,experts=0-4", {"2"}}};
  for (const auto& c : cases) {
    const Folder folder;
    fs::copy(whole, folder.path());
    for (const char* number : c.unneeded) {
      ASSERT_TRUE(
          fs::remove(folder.path() / fmt::format("model-0000{}-of-000003.safetensors", number)));
    }
    const Answer expected = Ask(PartOptions(whole, c.part));
    for (const char* io : {"auto", "direct", "buffered", "mmap"}) {
      for (const std::optional<size_t> prefetch : {std::optional<size_t>(), {0}, {1}}) {
        EngineOptions options = PartOptions(folder.path(), c.part);
        options.io = io;
        options.prefetch_layers = prefetch;
        options.threads = prefetch ? 2 : 1;
        options.prompt_chunk = prefetch ? 3 : 0;
        EXPECT_TRUE(Ask(options) == expected) << c.part << " " << io;
      }
    }
    EXPECT_THROW(Ask(PartOptions(folder.path(), "")), Error);
  }
}

TEST(Part, IsToldOf) {
  const fs::path dir = GoldenFolder("k3") / "checkpoint";
  Engine engine = Engine::Open(PartOptions(dir, "layers=2-4,experts=1-5"));
  EXPECT_EQ(engine.part(), "layers 2-4 of 7, experts 1-5 of 8");
  EXPECT_THAT(engine.Description(),
              testing::AllOf(HasSubstr("not the model's"), HasSubstr(engine.part())));
  EXPECT_EQ(engine.layers(), 3U);
  std::vector<size_t> seen;
  engine.SetProgress([&](const PassProgress& pass) {
    seen.push_back(pass.layer);
    EXPECT_EQ(pass.layers, 3U);
  });
  Sequence sequence = engine.NewSequence();
  std::vector<float> logits(engine.vocabulary());
  const PassRow row = {.sequence = &sequence, .token = 1, .wants_logits = true};
  engine.Forward({&row, 1}, logits);
  EXPECT_EQ(seen, (std::vector<size_t>{1, 2, 3}));
  EXPECT_EQ(Engine::Open(PartOptions(dir, "")).part(), "");
}

TEST(Part, PlansOnlyForWhatItRuns) {
  const fs::path dir = GoldenFolder("k3") / "checkpoint";
  EngineOptions options = PartOptions(dir, "");
  options.memory_bytes = uint64_t{1} << 30;
  const auto read_by = [&](const std::string& part) {
    options.shard = part;
    Engine engine = Engine::Open(options);
    Sequence sequence = engine.NewSequence();
    std::vector<float> logits(engine.vocabulary());
    const PassRow row = {.sequence = &sequence, .token = 1, .wants_logits = true};
    engine.Forward({&row, 1}, logits);
    return engine.counters();
  };
  const EngineCounters whole = read_by("");
  const EngineCounters part = read_by("layers=1-2");
  EXPECT_LT(part.trunk_bytes, whole.trunk_bytes / 2);
  EXPECT_EQ(part.expert_misses, 6U);  // two layers, three experts each
  EXPECT_EQ(whole.expert_misses, 18U);
}

TEST(Part, WhatCannotRunIsRefused) {
  const fs::path dir = GoldenFolder("k3") / "checkpoint";
  for (const char* part : {"layers=0-7", "experts=0-1", "experts=0-8", "layers", "layers=5-4"}) {
    try {
      Engine::Open(PartOptions(dir, part));
      FAIL() << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("--shard"));
    }
  }
}

TEST(Folders, WhereFilesLieMakesNoDifference) {
  const fs::path whole = GoldenFolder("k3") / "checkpoint";
  const Folder a;
  const Folder b(fs::is_directory("/dev/shm") ? "/dev/shm" : testing::TempDir());
  const auto place = [&](const char* name, const Folder& folder) {
    fs::copy(whole / name, folder.path() / name);
  };
  place("config.json", b);
  place("model.safetensors.index.json", a);
  place("model-00001-of-000003.safetensors", a);
  place("model-00002-of-000003.safetensors", b);
  fs::create_symlink(whole / "model-00003-of-000003.safetensors",
                     b.path() / "model-00003-of-000003.safetensors");
  std::set<dev_t> devices;
  for (const fs::path& path : {a.path(), b.path(), whole}) {
    struct stat info = {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    devices.insert(info.st_dev);
  }
  const Answer expected = Ask(PartOptions(whole, ""));
  for (const bool swapped : {false, true}) {
    EngineOptions options = PartOptions(swapped ? b.path() : a.path(), "");
    options.more_model_dirs = {swapped ? a.path() : b.path()};
    for (const char* io : {"auto", "buffered", "mmap"}) {
      options.io = io;
      EXPECT_TRUE(Ask(options) == expected) << io;
    }
    const std::string description = Engine::Open(options).Description();
    if (devices.size() > 1) {
      EXPECT_THAT(description, HasSubstr(fmt::format("{} drives", devices.size())));
    }
  }
}

TEST(Folders, TheTokenizerComesFromTheFirstThatHasOne) {
  const fs::path tokenizer = fs::path(KIMI_K3_SOURCE_DIR) / "tests/data/text/small";
  const Folder a;
  fs::copy(GoldenFolder("k3") / "checkpoint", a.path());
  EngineOptions options = PartOptions(a.path(), "");
  EXPECT_FALSE(Engine::Open(options).has_tokenizer());
  options.more_model_dirs = {GoldenFolder("unaligned") / "checkpoint", tokenizer};
  try {
    EXPECT_TRUE(Engine::Open(options).has_tokenizer());
  } catch (const Error& error) {
    // Found, and refused for this model of 199 tokens: it is the one of the third folder.
    EXPECT_THAT(error.what(), HasSubstr(tokenizer.string()));
  }
}

}  // namespace
}  // namespace kimi_k3

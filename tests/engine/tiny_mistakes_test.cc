// Copies of the trained model in which one thing has been changed, as if an engine had it wrong:
// the comparison with PyTorch's logits must not accept one of them.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "engine/tiny_reference.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kIds = 64;
constexpr double kCaught = 100 * kTinyTolerance;

// A copy of the model that may be changed.
class Copy {
 public:
  Copy() {
    std::string name = testing::TempDir() + "/kimi_k3_tiny_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    folder_ = name;
    for (const auto& entry : fs::directory_iterator(TinyModelFolder())) {
      const std::string extension = entry.path().extension();
      if (extension == ".json" || extension == ".safetensors" || extension == ".model") {
        fs::copy(entry.path(), folder_);
      }
    }
  }
  ~Copy() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  const fs::path& folder() const { return folder_; }

  void ChangeConfig(const std::function<void(json&)>& change) const {
    const fs::path path = folder_ / "config.json";
    json config = json::parse(ReadWholeFile(path, uint64_t{1} << 20));
    const json before = config;
    change(config.at("text_config"));
    ASSERT_NE(config, before);
    std::ofstream(path) << config;
  }

  // Calls change on the bytes of each tensor whose name ends so; counts them.
  size_t ChangeTensors(const std::string& ending,
                       const std::function<void(std::string& bytes)>& change) const {
    size_t changed = 0;
    ForEachShard([&](const json& header, size_t data, std::string& file) {
      for (const auto& [name, entry] : header.items()) {
        if (!name.ends_with(ending)) continue;
        const auto [begin, end] = Place(entry, data);
        std::string bytes = file.substr(begin, end - begin);
        change(bytes);
        file.replace(begin, end - begin, bytes);
        ++changed;
      }
    });
    return changed;
  }

  // Exchanges each tensor whose name ends in `first` with the one that ends in `second` instead.
  size_t ExchangeTensors(const std::string& first, const std::string& second) const {
    size_t changed = 0;
    ForEachShard([&](const json& header, size_t data, std::string& file) {
      for (const auto& [name, entry] : header.items()) {
        if (!name.ends_with(first)) continue;
        const std::string other = name.substr(0, name.size() - first.size()) + second;
        const auto [begin, end] = Place(entry, data);
        const size_t other_begin = Place(header.at(other), data).first;
        std::swap_ranges(file.begin() + static_cast<ptrdiff_t>(begin),
                         file.begin() + static_cast<ptrdiff_t>(end),
                         file.begin() + static_cast<ptrdiff_t>(other_begin));
        ++changed;
      }
    });
    return changed;
  }

 private:
  static std::pair<size_t, size_t> Place(const json& entry, size_t data) {
    const auto offsets = entry.at("data_offsets").get<std::vector<size_t>>();
    return {data + offsets.at(0), data + offsets.at(1)};
  }

  void ForEachShard(
      const std::function<void(const json& header, size_t data, std::string& file)>& change) const {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() != ".safetensors") continue;
      std::string file = ReadWholeFile(entry.path(), uint64_t{1} << 26);
      uint64_t header_bytes = 0;
      std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
      json header = json::parse(file.substr(sizeof(header_bytes), header_bytes));
      header.erase("__metadata__");
      change(header, sizeof(header_bytes) + header_bytes, file);
      std::ofstream(entry.path(), std::ios::binary) << file;
    }
  }

  fs::path folder_;
};

class TinyMistakes : public testing::Test {
 protected:
  double DistanceOf(const Copy& copy) const {
    EngineOptions options = TinyOptions(kIds + 1);
    options.model_dir = copy.folder();
    Engine engine = Engine::Open(options);
    return DistanceFromReference(engine, reference_.excerpts.front(), kIds);
  }

  const TinyReference reference_ = LoadTinyReference();
};

// Reverses the order of values of `size` bytes in each group of `count`.
void ReverseEach(std::string& bytes, size_t count, size_t size) {
  const std::string before = bytes;
  for (size_t i = 0; i < bytes.size() / size; ++i) {
    const size_t other = i / count * count + (count - 1 - i % count);
    bytes.replace(i * size, size, before, other * size, size);
  }
}

TEST_F(TinyMistakes, AnUnchangedCopyPasses) {
  const Copy copy;
  EXPECT_LE(DistanceOf(copy), kTinyTolerance);
}

TEST_F(TinyMistakes, EveryChangedFieldOfTheConfigIsCaught) {
  struct Field {
    std::string name;
    json value;
  };
  // Each with a value near the right one, or that of another field.
  const std::vector<Field> fields = {{"rms_norm_eps", 1e-6},
                                     {"attn_res_block_size", 4},
                                     {"num_experts_per_token", 5},
                                     {"activation_situ_beta", 25.0},
                                     {"activation_situ_linear_beta", 4.0},
                                     {"hidden_act", "silu"},
                                     {"moe_router_activation_func", "softmax"}};
  for (const Field& field : fields) {
    const Copy copy;
    copy.ChangeConfig([&](json& config) { config.at(field.name) = field.value; });
    EXPECT_GT(DistanceOf(copy), kCaught) << field.name;
  }
  const Copy copy;
  copy.ChangeConfig(
      [](json& config) { config.at("linear_attn_config").at("gate_lower_bound") = -4.0; });
  EXPECT_GT(DistanceOf(copy), kCaught) << "gate_lower_bound";
}

TEST_F(TinyMistakes, ALostSelectionBiasIsCaught) {
  const Copy copy;
  EXPECT_EQ(copy.ChangeTensors("e_score_correction_bias",
                               [](std::string& bytes) { bytes.assign(bytes.size(), '\0'); }),
            8U);
  EXPECT_GT(DistanceOf(copy), kCaught);
}

TEST_F(TinyMistakes, AReversedConvolutionIsCaught) {
  const Copy copy;
  EXPECT_EQ(copy.ChangeTensors("_conv1d.weight",
                               [](std::string& bytes) { ReverseEach(bytes, 4, sizeof(float)); }),
            18U);
  EXPECT_GT(DistanceOf(copy), kCaught);
}

TEST_F(TinyMistakes, DecayRatesOfTheWrongHeadsAreCaught) {
  const Copy copy;
  EXPECT_EQ(
      copy.ChangeTensors("A_log", [](std::string& bytes) { ReverseEach(bytes, 4, sizeof(float)); }),
      6U);
  EXPECT_GT(DistanceOf(copy), kCaught);
}

TEST_F(TinyMistakes, ALostDecayBiasIsCaught) {
  const Copy copy;
  EXPECT_EQ(
      copy.ChangeTensors("dt_bias", [](std::string& bytes) { bytes.assign(bytes.size(), '\0'); }),
      6U);
  EXPECT_GT(DistanceOf(copy), kCaught);
}

TEST_F(TinyMistakes, ExchangedGateAndUpOfTheExpertsAreCaught) {
  const Copy copy;
  for (const char* part : {"weight_packed", "weight_scale"}) {
    EXPECT_EQ(copy.ExchangeTensors(std::string("w1.") + part, std::string("w3.") + part), 8U * 32U);
  }
  EXPECT_GT(DistanceOf(copy), kCaught);
}

TEST_F(TinyMistakes, TheHighNibbleReadFirstIsCaught) {
  const Copy copy;
  EXPECT_EQ(copy.ChangeTensors("weight_packed",
                               [](std::string& bytes) {
                                 for (char& byte : bytes) {
                                   const auto b = static_cast<unsigned char>(byte);
                                   byte = static_cast<char>(((b << 4) | (b >> 4)) & 0xFF);
                                 }
                               }),
            8U * 32U * 3U);
  EXPECT_GT(DistanceOf(copy), kCaught);
}

TEST_F(TinyMistakes, ExpertScalesHalvedAreCaught) {
  const Copy copy;
  EXPECT_EQ(copy.ChangeTensors("weight_scale",
                               [](std::string& bytes) {
                                 for (char& byte : bytes) --byte;
                               }),
            8U * 32U * 3U);
  EXPECT_GT(DistanceOf(copy), kCaught);
}

TEST_F(TinyMistakes, ALostOutputGateIsCaught) {
  const Copy copy;
  EXPECT_EQ(copy.ChangeTensors("self_attn.g_proj.weight",
                               [](std::string& bytes) { bytes.assign(bytes.size(), '\0'); }),
            9U);
  EXPECT_GT(DistanceOf(copy), kCaught);
}

}  // namespace
}  // namespace kimi_k3

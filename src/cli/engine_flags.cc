// The flags that say how a model is opened: shared by every command that runs one.
#include "cli/engine_flags.h"

#include "base/byte_size.h"
#include "base/error.h"
#include "cli/model_flags.h"
#include "residency/stream_options.h"

namespace kimi_k3 {
namespace {

constexpr uint64_t kMostExperts = 65536;
constexpr uint64_t kMostThreads = 1024;
constexpr uint64_t kMostPromptChunk = 65536;
constexpr uint64_t kMostPrefetchLayers = 10000;
constexpr uint64_t kLeastPlainSize = 1'000'000;

}  // namespace

uint64_t ReadSizeFlag(const std::string& flag, const std::string& text) {
  try {
    const uint64_t bytes = ParseByteSize(text);
    // Nobody means eight bytes.
    const bool plain = text.find_first_not_of("0123456789") == std::string::npos;
    if (plain && bytes > 0 && bytes < kLeastPlainSize) {
      Fail(ErrorKind::kUsage, "{} would be {} bytes; did you mean {}G?", text, bytes, text);
    }
    return bytes;
  } catch (const Error& error) {
    Fail(error.kind(), "{}: {}", flag, error.what());
  }
}

void AddApproximationFlags(FlagGroup& group, EngineOptions& engine) {
  group.Choice<KvCacheType>("--kv-cache-quant",
                            {{"none", KvCacheType::kF32},
                             {"bf16", KvCacheType::kBf16},
                             {"q8", KvCacheType::kQ8},
                             {"q4", KvCacheType::kQ4}},
                            engine.kv_cache, "Type of the latent cache: none is f32 (default)");
  group.Choice<StateType>("--state-type", {{"f32", StateType::kF32}, {"bf16", StateType::kBf16}},
                          engine.state_type,
                          "Type of the recurrent state: f32 (default), or bf16 in half the memory");
  group
      .Count("--experts-per-token", "K", engine.experts_per_token,
             "Experts that each token goes to, fewer than the model chooses: faster, not exact", 1,
             kMostExperts)
      .Default("");
  AddOverlayFlag(group, engine);
}

void AddEngineFlags(CLI::App& app, EngineOptions& engine) {
  FlagGroup group(app, "Model and machine");
  AddModelFlags(group, engine);
  group
      .Count("-c,--context", "N", engine.context, "Positions that prompt and answer have room for",
             1)
      .Default("2048");
  group.Value(
      "--memory", "SIZE",
      "Most memory to use, such as 8G; without it what the machine has to spare",
      [&engine](const std::string& text) { engine.memory_bytes = ReadSizeFlag("--memory", text); });
  group
      .Value("--io", "WAY", "How weights are read: auto, direct, buffered or mmap",
             [&engine](const std::string& text) {
               ParseIoMode(text);
               engine.io = text;
             })
      .Default(engine.io);
  group.Value("--prefetch", "LAYERS",
              "Read at most this many layers ahead; without it as far as there is room",
              [&engine](const std::string& text) {
                engine.prefetch_layers = ParseCount("--prefetch", text, 0, kMostPrefetchLayers);
              });
  group.Value("--expert-cache", "SIZE",
              "Memory for experts that stay; without it what the plan leaves",
              [&engine](const std::string& text) {
                engine.expert_cache_bytes = ReadSizeFlag("--expert-cache", text);
              });
  group.Count("-t,--threads", "N", engine.threads, "Threads that compute; 0: one a physical core",
              0, kMostThreads);
  group.Count("--prompt-chunk", "N", engine.prompt_chunk,
              "Prompt positions computed in one pass over the weights; 0: as many as pay", 0,
              kMostPromptChunk);
  AddApproximationFlags(group, engine);
  group
      .Value("--isa", "NAME", "Instruction set: auto, avx512, avx2 or neon",
             [&engine](const std::string& text) { engine.isa = text; })
      .Default(engine.isa);
}

}  // namespace kimi_k3

// The flags that say how a model is opened.
#include "cli/engine_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

EngineOptions Parsed(const std::string& line) {
  EngineOptions engine;
  CLI::App app;
  AddEngineFlags(app, engine);
  app.parse(line);
  return engine;
}

std::string Refusal(const std::string& line) {
  try {
    Parsed(line);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
}

TEST(EngineFlags, EachSetsItsOwnOption) {
  const EngineOptions engine = Parsed(
      "-m model -c 100 --memory 8G --io mmap --prefetch 3 --expert-cache 2G -t 2 --prompt-chunk 5 "
      "--kv-cache-quant q4 --state-type bf16 --experts-per-token 4 --isa avx2");
  EXPECT_EQ(engine.experts_per_token, 4U);
  EXPECT_EQ(engine.model_dir, "model");
  EXPECT_EQ(engine.context, 100U);
  EXPECT_EQ(engine.memory_bytes, ReadSizeFlag("--memory", "8G"));
  EXPECT_EQ(engine.io, "mmap");
  EXPECT_EQ(engine.prefetch_layers, 3U);
  EXPECT_EQ(engine.expert_cache_bytes, ReadSizeFlag("--expert-cache", "2G"));
  EXPECT_EQ(engine.threads, 2U);
  EXPECT_EQ(engine.prompt_chunk, 5U);
  EXPECT_EQ(engine.kv_cache, KvCacheType::kQ4);
  EXPECT_EQ(engine.state_type, StateType::kBf16);
  EXPECT_EQ(engine.isa, "avx2");
}

TEST(EngineFlags, RefuseValuesByTheNameOfTheFlag) {
  EXPECT_THAT(Refusal("-c 0"), HasSubstr("-c"));
  EXPECT_THAT(Refusal("--memory lots"), HasSubstr("--memory"));
  EXPECT_THAT(Refusal("--io magic"), HasSubstr("magic"));
  EXPECT_THAT(Refusal("-t 2000"), HasSubstr("-t"));
  EXPECT_THAT(Refusal("--prompt-chunk 100000"), HasSubstr("--prompt-chunk"));
  EXPECT_THAT(Refusal("--kv-cache-quant q5"), HasSubstr("q5"));
  EXPECT_THAT(Refusal("--state-type q8"), HasSubstr("q8"));
}

TEST(EngineFlags, AskWhetherAFewBytesAreMeantAsGigabytes) {
  EXPECT_THAT(Refusal("--memory 8"), HasSubstr("did you mean 8G?"));
  EXPECT_EQ(ReadSizeFlag("--memory", "2000000"), 2'000'000U);
  EXPECT_EQ(ReadSizeFlag("--memory", "0"), 0U);
}

}  // namespace
}  // namespace kimi_k3

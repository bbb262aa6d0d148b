// Sessions: what is loaded goes on to the bit; whatever is not the same model's is refused.
#include "kimi_k3/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "engine/golden_engine.h"
#include "engine/temporary_folder.h"
#include "kimi_k3/error.h"
#include "kimi_k3/generation.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

// Feeds the tokens in one pass; returns the last row's logits.
std::vector<float> Feed(Engine& engine, Sequence& sequence, std::span<const TokenId> tokens) {
  std::vector<PassRow> rows;
  for (size_t i = 0; i < tokens.size(); ++i) {
    rows.push_back(
        {.sequence = &sequence, .token = tokens[i], .wants_logits = i + 1 == tokens.size()});
  }
  std::vector<float> logits(engine.vocabulary());
  engine.Forward(rows, logits);
  return logits;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void ExpectError(ErrorKind kind, const std::string& words, const std::function<void()>& run) {
  try {
    run();
    ADD_FAILURE() << "no error where one was expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
}

// A session of the k3 case after seven tokens, in `path`.
void SaveSeven(const std::filesystem::path& path, const EngineOptions& options,
               std::string_view note = "note") {
  Engine engine = Engine::Open(options);
  Sequence sequence = engine.NewSequence();
  Feed(engine, sequence, std::vector<TokenId>{5, 6, 7, 8, 9, 10, 11});
  const uint64_t bytes = SaveSession(engine, sequence, path, note);
  EXPECT_EQ(bytes, std::filesystem::file_size(path));
}

struct SessionCase {
  const char* model;
  KvCacheType cache;
  size_t tokens;
  StateType state = StateType::kF32;
};

class SessionGeometry : public testing::TestWithParam<SessionCase> {};

TEST_P(SessionGeometry, WhatIsLoadedGoesOnToTheBit) {
  const auto [name, cache, tokens, state_type] = GetParam();
  const TemporaryFolder folder;
  EngineOptions options = GoldenOptions(name);
  options.kv_cache = cache;
  options.state_type = state_type;
  options.sessions = true;
  const std::vector<TokenId> text = GoldenIds(name, "prompt_ids");
  ASSERT_GT(text.size(), tokens + 2);
  const auto rest = std::span(text).subspan(tokens);
  std::vector<float> uninterrupted;
  {
    Engine engine = Engine::Open(options);
    Sequence sequence = engine.NewSequence();
    if (tokens > 0) Feed(engine, sequence, std::span(text).first(tokens));
    SaveSession(engine, sequence, folder.path() / "session", "a note\n\xf0\x9f\x98\x80");
    uninterrupted = Feed(engine, sequence, rest);
  }
  options.context = text.size();  // another capacity than it was saved with
  Engine engine = Engine::Open(options);
  Sequence sequence = engine.NewSequence();
  Feed(engine, sequence, std::vector<TokenId>{1, 2, 3});  // is replaced
  EXPECT_EQ(LoadSession(engine, sequence, folder.path() / "session"), "a note\n\xf0\x9f\x98\x80");
  EXPECT_TRUE(std::ranges::equal(sequence.tokens(), std::span(text).first(tokens)));
  EXPECT_TRUE(SameBits(Feed(engine, sequence, rest), uninterrupted));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, SessionGeometry,
    testing::Values(
        SessionCase{"k3", KvCacheType::kF32, 9}, SessionCase{"k3", KvCacheType::kBf16, 9},
        SessionCase{"k3", KvCacheType::kF32, 0}, SessionCase{"all-mla", KvCacheType::kBf16, 5},
        SessionCase{"kimi-linear", KvCacheType::kF32, 1}, SessionCase{"k3", KvCacheType::kQ8, 9},
        SessionCase{"all-mla", KvCacheType::kQ4, 5}, SessionCase{"odd-shapes", KvCacheType::kQ4, 4},
        SessionCase{"odd-shapes", KvCacheType::kBf16, 4},
        SessionCase{"k3", KvCacheType::kF32, 9, StateType::kBf16},
        SessionCase{"kimi-linear", KvCacheType::kQ8, 2, StateType::kBf16},
        SessionCase{"odd-shapes", KvCacheType::kF32, 4, StateType::kBf16}));

TEST(Session, TellsWhatItHoldsWithoutAModel) {
  const TemporaryFolder folder;
  SaveSeven(folder.path() / "s", GoldenOptions("k3", 33));
  const SessionInfo info = ReadSessionInfo(folder.path() / "s");
  EXPECT_EQ(info.note, "note");
  EXPECT_EQ(info.context, 33U);
  EXPECT_EQ(info.kv_cache, KvCacheType::kF32);
  EXPECT_EQ(info.state_type, StateType::kF32);
  EXPECT_EQ(info.part, "");
  EXPECT_THAT(info.model, HasSubstr("7 layers"));
  EXPECT_THAT(info.tokens, testing::ElementsAre(5, 6, 7, 8, 9, 10, 11));
}

TEST(Session, TakesNoteOfAnySize) {
  const TemporaryFolder folder;
  Engine engine = Engine::Open(GoldenOptions("k3"));
  Sequence sequence = engine.NewSequence();
  for (const size_t size : {size_t{0}, size_t{1} << 20, (size_t{1} << 21) + 3}) {
    std::string note(size, 'x');
    for (size_t i = 0; i < size; i += 7) note[i] = static_cast<char>(i);
    SaveSession(engine, sequence, folder.path() / "s", note);
    EXPECT_TRUE(LoadSession(engine, sequence, folder.path() / "s") == note) << size;
    EXPECT_TRUE(ReadSessionInfo(folder.path() / "s").note == note) << size;
  }
  ExpectError(ErrorKind::kRun, "longer", [&] {
    SaveSession(engine, sequence, folder.path() / "s", std::string(kMostSessionNoteBytes + 1, 'x'));
  });
}

TEST(Session, LiesAnywhereTheModelDoes) {
  const TemporaryFolder folder;
  std::filesystem::copy(GoldenFolder("k3") / "checkpoint", folder.path() / "moved",
                        std::filesystem::copy_options::recursive);
  SaveSeven(folder.path() / "s", GoldenOptions("k3"));
  EngineOptions moved = GoldenOptions("k3");
  moved.model_dir = folder.path() / "moved";
  Engine engine = Engine::Open(moved);
  Sequence sequence = engine.NewSequence();
  EXPECT_EQ(LoadSession(engine, sequence, folder.path() / "s"), "note");
}

TEST(Session, OfAnotherModelPartCacheOrStateIsRefusedInWords) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "s";
  const auto load = [&](const EngineOptions& options) {
    return [&path, options] {
      Engine engine = Engine::Open(options);
      Sequence sequence = engine.NewSequence();
      LoadSession(engine, sequence, path);
    };
  };
  SaveSeven(path, GoldenOptions("k3"));
  ExpectError(ErrorKind::kCheckpoint, "another model", load(GoldenOptions("kimi-linear")));
  EngineOptions other = GoldenOptions("k3");
  other.kv_cache = KvCacheType::kBf16;
  ExpectError(ErrorKind::kCheckpoint, "--kv-cache-quant none", load(other));
  other.kv_cache = KvCacheType::kQ8;
  SaveSeven(path, other);
  EXPECT_EQ(ReadSessionInfo(path).kv_cache, KvCacheType::kQ8);
  ExpectError(ErrorKind::kCheckpoint, "give --kv-cache-quant q8, as its latent cache is of type q8, not f32",
              load(GoldenOptions("k3")));
  other.kv_cache = KvCacheType::kQ4;
  ExpectError(ErrorKind::kCheckpoint, "give --kv-cache-quant q8, as its latent cache is of type q8, not q4", load(other));
  other = GoldenOptions("k3");
  other.state_type = StateType::kBf16;
  SaveSeven(path, other);
  EXPECT_EQ(ReadSessionInfo(path).state_type, StateType::kBf16);
  ExpectError(ErrorKind::kCheckpoint, "give --state-type bf16, as its recurrent state is of type bf16, not f32",
              load(GoldenOptions("k3")));
  SaveSeven(path, GoldenOptions("k3"));
  ExpectError(ErrorKind::kCheckpoint, "give --state-type f32", load(other));
  other = GoldenOptions("k3");
  other.experts_per_token = 1;
  ExpectError(ErrorKind::kCheckpoint, "give no --experts-per-token 1", load(other));
  other.kv_cache = KvCacheType::kQ4;
  SaveSeven(path, other);
  ExpectError(ErrorKind::kCheckpoint, "not f32; and --experts-per-token 1",
              load(GoldenOptions("k3")));
  SaveSeven(path, GoldenOptions("k3"));
  other = GoldenOptions("k3");
  other.shard = "layers=0-2";
  ExpectError(ErrorKind::kCheckpoint, "--shard", load(other));
  ExpectError(ErrorKind::kUsage, "7 tokens", load(GoldenOptions("k3", 6)));
  EXPECT_NO_THROW(load(GoldenOptions("k3", 7))());
}

// The same sizes, other numbers: one byte of a matrix that the fingerprint looks at.
TEST(Session, OfTheSameGeometryWithOtherWeightsIsRefused) {
  const TemporaryFolder folder;
  SaveSeven(folder.path() / "s", GoldenOptions("k3"));
  const auto copy = folder.path() / "copy";
  std::filesystem::copy(GoldenFolder("k3") / "checkpoint", copy,
                        std::filesystem::copy_options::recursive);
  for (const auto& entry : std::filesystem::directory_iterator(copy)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::string bytes = ReadWholeFile(entry.path(), uint64_t{1} << 30);
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof(header));
    for (size_t i = header + 8; i < bytes.size(); i += 64) bytes[i] ^= 1;
    std::ofstream(entry.path(), std::ios::binary) << bytes;
  }
  EngineOptions options = GoldenOptions("k3");
  options.model_dir = copy;
  Engine engine = Engine::Open(options);
  Sequence sequence = engine.NewSequence();
  ExpectError(ErrorKind::kCheckpoint, "another model",
              [&] { LoadSession(engine, sequence, folder.path() / "s"); });
}

TEST(Session, ASequenceWhoseStateWasLostIsNotSaved) {
  const TemporaryFolder folder;
  Engine engine = Engine::Open(GoldenOptions("k3"));
  Sequence sequence = engine.NewSequence();
  engine.Interrupt();
  EXPECT_THROW(Feed(engine, sequence, std::vector<TokenId>{1}), Error);
  engine.ClearInterrupt();
  ExpectError(ErrorKind::kRun, "lost",
              [&] { SaveSession(engine, sequence, folder.path() / "s", ""); });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Session, AFailedLoadLeavesAnEmptySequenceThatWorks) {
  const TemporaryFolder folder;
  SaveSeven(folder.path() / "s", GoldenOptions("k3"));
  std::filesystem::resize_file(folder.path() / "s",
                               std::filesystem::file_size(folder.path() / "s") - 1);
  Engine engine = Engine::Open(GoldenOptions("k3"));
  Sequence sequence = engine.NewSequence();
  Feed(engine, sequence, std::vector<TokenId>{1, 2});
  ExpectError(ErrorKind::kIo, "damaged",
              [&] { LoadSession(engine, sequence, folder.path() / "s"); });
  EXPECT_TRUE(sequence.intact());
  EXPECT_TRUE(sequence.tokens().empty());
  Sequence fresh = engine.NewSequence();
  EXPECT_TRUE(SameBits(Feed(engine, sequence, std::vector<TokenId>{3, 4}),
                       Feed(engine, fresh, std::vector<TokenId>{3, 4})));
}

TEST(Session, ThePlanKeepsRoomForIt) {
  EngineOptions options = GoldenOptions("k3");
  const std::string without = Engine::Open(options).PlanTable();
  options.sessions = true;
  EXPECT_THAT(Engine::Open(options).PlanTable(), HasSubstr("session buffers"));
  EXPECT_THAT(without, testing::Not(HasSubstr("session")));
}

}  // namespace
}  // namespace kimi_k3

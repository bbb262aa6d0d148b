// States on disk: the same bits as in memory, every byte counted, nothing left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "engine/engine_plan.h"
#include "engine/golden_engine.h"
#include "engine/state_file.h"
#include "engine/state_layout.h"
#include "engine/temporary_folder.h"
#include "residency/reader.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

// Files may be no longer than this while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes) : old_action_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = old_limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_action_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_limit_ = {};
  void (*old_action_)(int);
};

class StatesOnDisk : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (StateFile::LiesInMemory(folder_.path())) GTEST_SKIP() << "no drive for temporary files";
  }

  EngineOptions Options(std::optional<size_t> in_memory) const {
    EngineOptions options = GoldenOptions(GetParam(), 64, 8);
    options.sequences = 5;
    if (!in_memory) return options;
    options.state_dir = folder_.path();
    options.sequences_in_memory = in_memory;
    return options;
  }

  // A prompt in unequal pieces for each of so many sequences, then rows of one each, then the first
  // is begun anew; all logits of all passes.
  static std::vector<float> Logits(const EngineOptions& options, size_t count) {
    Engine engine = Engine::Open(options);
    const std::vector<TokenId> prompt = GoldenIds(GetParam(), "prompt_ids");
    std::vector<Sequence> sequences;
    for (size_t i = 0; i < count; ++i) sequences.push_back(engine.NewSequence());
    std::vector<float> all;
    const auto pass = [&](const std::vector<PassRow>& rows) {
      const auto wanted = std::ranges::count_if(rows, &PassRow::wants_logits);
      std::vector<float> logits(static_cast<size_t>(wanted) * engine.vocabulary());
      engine.Forward(rows, logits);
      all.insert(all.end(), logits.begin(), logits.end());
    };
    for (size_t at = 0; at < 6; at += 2) {
      std::vector<PassRow> rows;
      for (size_t i = 0; i < count && rows.size() + 2 <= engine.max_rows(); ++i) {
        const size_t pieces = 1 + (i + at) % 2;
        for (size_t r = 0; r < pieces; ++r) {
          rows.push_back({.sequence = &sequences[i],
                          .token = prompt[(at + i + r) % prompt.size()],
                          .wants_logits = r + 1 == pieces});
        }
      }
      pass(rows);
    }
    sequences[0].Reset();
    for (size_t step = 0; step < 3; ++step) {
      std::vector<PassRow> rows;
      for (size_t i = 0; i < count; i += 1 + step % 2) {
        rows.push_back({.sequence = &sequences[i], .token = prompt[step], .wants_logits = true});
      }
      pass(rows);
    }
    return all;
  }

  bool FolderIsEmpty() const { return std::filesystem::is_empty(folder_.path()); }

  TemporaryFolder folder_;
};

TEST_P(StatesOnDisk, EveryBitIsAsInMemoryHoweverManyLiveThere) {
  for (const size_t count : {size_t{1}, size_t{3}, size_t{5}}) {
    const std::vector<float> expected = Logits(Options({}), count);
    for (const size_t in_memory : {size_t{0}, size_t{1}, size_t{2}, size_t{4}, size_t{5}}) {
      EXPECT_EQ(Logits(Options(in_memory), count), expected) << count << " " << in_memory;
    }
  }
  EXPECT_TRUE(FolderIsEmpty());
}

TEST_P(StatesOnDisk, OfEveryTypeAreAsInMemory) {
  for (const KvCacheType type : {KvCacheType::kBf16, KvCacheType::kQ8, KvCacheType::kQ4}) {
    EngineOptions in_memory = Options({});
    EngineOptions on_disk = Options(1);
    in_memory.kv_cache = on_disk.kv_cache = type;
    in_memory.state_type = on_disk.state_type =
        type == KvCacheType::kQ8 ? StateType::kBf16 : StateType::kF32;
    EXPECT_EQ(Logits(on_disk, 3), Logits(in_memory, 3));
  }
}

TEST_P(StatesOnDisk, EachLayerIsReadAndWrittenOnceInAPassAndCounted) {
  const EngineOptions options = Options(1);
  Engine engine = Engine::Open(options);
  EXPECT_EQ(engine.sequences_on_disk(), 4U);
  const Checkpoint checkpoint = OpenCheckpoint(options);
  const ModelConfig& config = checkpoint.config();
  const StateLayout layout = MakeStateLayout(config, options);
  EXPECT_EQ(engine.state_dir_bytes(), 4 * layout.sequence_bytes());
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < 3; ++i) sequences.push_back(engine.NewSequence());
  std::vector<PassRow> rows;
  for (Sequence& sequence : sequences) rows.push_back({.sequence = &sequence, .token = 1});
  uint64_t read = 0;
  uint64_t written = 0;
  for (size_t pass = 0; pass < 3; ++pass) {
    engine.Forward(rows, {});
    // The first lives in memory.
    for (size_t l = config.first_layer(); l < config.end_layer(); ++l) {
      read += 2 * layout.Before(l, pass).bytes;
      written += 2 * layout.After(l, pass, 1).bytes;
    }
    EXPECT_EQ(engine.counters().state_bytes_read, read);
    EXPECT_EQ(engine.counters().state_bytes_written, written);
    EXPECT_LE(read, (pass + 1) * 2 * layout.most_read_bytes());
    EXPECT_LE(written, (pass + 1) * 2 * layout.most_written_bytes());
  }
  engine.Forward(std::span(rows).first(1), {});
  EXPECT_EQ(engine.counters().state_bytes_written, written);
}

TEST_P(StatesOnDisk, PlacesOfSequencesThatAreGoneAreTakenAgain) {
  Engine engine = Engine::Open(Options(0));
  for (int round = 0; round < 3; ++round) {
    std::vector<Sequence> sequences;
    for (size_t i = 0; i < 5; ++i) sequences.push_back(engine.NewSequence());
    EXPECT_THROW(engine.NewSequence(), Error);
  }
}

TEST_P(StatesOnDisk, ADriveWithoutRoomIsToldOfBeforeAnythingIsComputed) {
  const FileSizeLimit limit(10000);
  try {
    Engine::Open(Options(2));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), HasSubstr(folder_.path().string()));
    EXPECT_THAT(error.what(), HasSubstr("no room for the states of 3 texts"));
    EXPECT_THAT(error.what(), HasSubstr("--state-dir"));
  }
  EXPECT_TRUE(FolderIsEmpty());
}

TEST_P(StatesOnDisk, ADriveThatIsTooSmallIsNotFilledAndItsRoomIsTold) {
  const std::optional<uint64_t> room = StateFile::RoomIn(folder_.path());
  ASSERT_TRUE(room);
  EXPECT_GT(*room, 0U);
  try {
    const StateFile file(folder_.path(), *room + (uint64_t{1} << 40), "the states");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), HasSubstr("the states, which take "));
    EXPECT_THAT(error.what(), testing::Not(HasSubstr(" 0 bytes are free")));
  }
  EXPECT_THROW(StateFile::RoomIn(folder_.path() / "none"), Error);
}

TEST_P(StatesOnDisk, AWriteThatFailsEndsThePassAndTheTextCanBeBegunAnew) {
  Engine engine = Engine::Open(Options(0));
  Sequence sequence = engine.NewSequence();
  const std::vector<PassRow> rows = {{.sequence = &sequence, .token = 1, .wants_logits = true}};
  std::vector<float> logits(engine.vocabulary());
  engine.Forward(rows, logits);
  const std::vector<float> first = logits;
  {
    const FileSizeLimit limit(kBlockBytes);
    try {
      engine.Forward(rows, logits);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_THAT(error.what(), HasSubstr("states cannot be written"));
    }
  }
  EXPECT_FALSE(sequence.intact());
  sequence.Reset();
  engine.Forward(rows, logits);
  EXPECT_EQ(logits, first);
}

TEST_P(StatesOnDisk, AnInterruptedPassLeavesNothingOnItsWay) {
  Engine engine = Engine::Open(Options(0));
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < 4; ++i) sequences.push_back(engine.NewSequence());
  std::vector<PassRow> rows;
  for (Sequence& sequence : sequences) rows.push_back({.sequence = &sequence, .token = 1});
  for (size_t layer = 1; layer < engine.layers(); ++layer) {
    engine.SetProgress([&](const PassProgress& progress) {
      if (progress.layer == layer) engine.Interrupt();
    });
    EXPECT_THROW(engine.Forward(rows, {}), Error);
    EXPECT_FALSE(sequences[1].intact());
    engine.ClearInterrupt();
    for (Sequence& sequence : sequences) sequence.Reset();
  }
}

TEST_P(StatesOnDisk, AFolderThatIsNoneAndWhatCannotGoTogetherAreRefused) {
  EngineOptions options = Options(0);
  options.state_dir = folder_.path() / "none";
  EXPECT_THROW(Engine::Open(options), Error);
  options = Options(0);
  options.tentative_rows = 2;
  EXPECT_THROW(Engine::Open(options), Error);
  options = Options(0);
  options.sessions = true;
  EXPECT_THROW(Engine::Open(options), Error);
}

TEST_P(StatesOnDisk, ThePlanKeepsAsManyInMemoryAsItHasRoomFor) {
  EngineOptions options = Options(0);
  options.context = 1 << 16;
  options.sequences = 20;
  options.sequences_in_memory.reset();
  const Checkpoint checkpoint = OpenCheckpoint(options);
  options = ResolveOptions(options, checkpoint.config());
  const auto plan = [&](uint64_t memory_bytes) {
    options.memory_bytes = memory_bytes;
    return MakeMemoryPlan(checkpoint, MakePlanRequest(checkpoint, options, 1 << 20));
  };
  const PlanRequest request = MakePlanRequest(checkpoint, options, 1 << 20);
  const MemoryPlan roomy = plan(uint64_t{1} << 40);
  EXPECT_EQ(roomy.sequences_in_memory, 20U);
  if (request.sequence_bytes <= request.moved_sequence_bytes) return;  // nothing is gained on disk
  const MemoryPlan least = plan(roomy.smallest_bytes);
  EXPECT_EQ(least.sequences_in_memory, 0U);
  EXPECT_LE(least.total_bytes, least.budget_bytes);
  size_t before = 0;
  for (uint64_t extra = 0; extra <= 24; extra += 4) {
    const MemoryPlan some = plan(roomy.smallest_bytes + extra * request.sequence_bytes);
    EXPECT_GE(some.sequences_in_memory, before);
    EXPECT_LE(some.total_bytes, some.budget_bytes);
    before = some.sequences_in_memory;
  }
  EXPECT_GT(before, 0U);
}

INSTANTIATE_TEST_SUITE_P(Cases, StatesOnDisk,
                         testing::Values("k3", "kimi-linear", "odd-shapes", "all-mla"),
                         [](const auto& test_case) {
                           std::string name = test_case.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace kimi_k3

// Tests of the weight stream under a budget: the same bytes whatever it has and however it reads.
#include "residency/planned_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <thread>
#include <tuple>

#include "base/error.h"
#include "residency/fault_injecting_reader.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

using testing::HasSubstr;

// A way of reading, with a name for tests.
struct Way {
  const char* name;
  IoMode mode;
  bool refuse_io_uring;
  bool drop_behind;
  bool several_drives = false;  // each shard counts as a drive of its own
};
constexpr Way kWays[] = {{"auto", IoMode::kAuto, false, false},
                         {"direct", IoMode::kDirect, false, false},
                         {"direct_threads", IoMode::kDirect, true, false},
                         {"buffered", IoMode::kBuffered, false, false},
                         {"buffered_drop", IoMode::kBuffered, false, true},
                         {"mmap", IoMode::kMmap, false, false},
                         {"mmap_drop", IoMode::kMmap, false, true},
                         {"drives", IoMode::kAuto, false, false, true},
                         {"drives_threads", IoMode::kBuffered, false, true, true},
                         {"mmap_drives", IoMode::kMmap, false, false, true}};

IoOptions OptionsOf(const Way& way) {
  IoOptions options;
  options.mode = way.mode;
  options.hooks.refuse_io_uring = way.refuse_io_uring;
  options.drop_behind = way.drop_behind;
  if (way.several_drives) {
    options.hooks.device_of = [](const std::filesystem::path& path) {
      return std::hash<std::string>()(path.filename().string());
    };
  }
  return options;
}

// How much memory, with a name for tests. pinned_of: out of four matrices.
struct Amount {
  const char* name;
  uint64_t tile_bytes;
  uint64_t ring_extra_blocks;  // beyond what the largest tile needs
  size_t passing_slots;
  size_t cached_slots;
  size_t pinned_of_four;
  std::optional<size_t> prefetch_layers;
};
constexpr Amount kAmounts[] = {{"least", 2000, 0, 1, 0, 0, 0},
                               {"small", 3000, 6, 2, 0, 1, 1},
                               {"few_slots_for_a_cache", 6000, 11, 1, 7, 2, std::nullopt},
                               {"large", 1 << 20, 1000, 16, 40, 2, 2},
                               {"everything", 1 << 20, 100, 4, 100000, 4, std::nullopt}};

StreamShape ShapeOf(const Checkpoint& checkpoint, const Amount& amount) {
  StreamShape shape;
  shape.tile_bytes = amount.tile_bytes;
  const PassSchedule schedule(checkpoint, amount.tile_bytes);
  shape.ring_bytes =
      BlockCeil(schedule.largest_tile_bytes()) + (2 + amount.ring_extra_blocks) * kBlockBytes;
  shape.passing_slots = amount.passing_slots;
  shape.cached_slots = amount.cached_slots;
  for (size_t i = 0; i < schedule.steps().size(); ++i) {
    shape.pinned.push_back(i % 4 < amount.pinned_of_four);
  }
  return shape;
}

class PlannedStreamTest : public testing::TestWithParam<std::tuple<const char*, Way, Amount>> {};

TEST_P(PlannedStreamTest, ShowsTheBytesOfTheFiles) {
  const auto& [name, way, amount] = GetParam();
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint(name));
  const auto stream = MakePlannedStream(checkpoint, ShapeOf(checkpoint, amount), OptionsOf(way));
  for (size_t pass = 0; pass < 3; ++pass) {
    const bool head = pass != 1;
    const ExpertChoice choice = SomeExperts(checkpoint, pass / 2);
    const ExpertOrder order = pass == 1 ? ExpertOrder::kAscending : ExpertOrder::kArrival;
    EXPECT_EQ(Difference(RunPass(*stream, checkpoint, head, choice, order),
                         ExpectedPass(checkpoint, head, choice)),
              "");
    std::vector<float> row(checkpoint.config().hidden);
    stream->ReadEmbeddingRow(pass, row);
    EXPECT_EQ(row, ExpectedEmbeddingRow(checkpoint, pass));
  }
  EXPECT_EQ(Difference(
                RunPass(*stream, checkpoint, true, AllExperts(checkpoint), ExpertOrder::kAscending),
                ExpectedPass(checkpoint, true, AllExperts(checkpoint))),
            "");
}

INSTANTIATE_TEST_SUITE_P(Golden, PlannedStreamTest,
                         testing::Combine(testing::Values("k3", "kimi-linear", "unaligned",
                                                          "many-experts"),
                                          testing::ValuesIn(kWays), testing::ValuesIn(kAmounts)),
                         [](const auto& instance) {
                           return TestName(std::get<0>(instance.param)) + "_" +
                                  std::get<1>(instance.param).name + "_" +
                                  std::get<2>(instance.param).name;
                         });

class PlannedStreamOnK3Test : public testing::TestWithParam<Way> {
 protected:
  IoOptions options() const { return OptionsOf(GetParam()); }
  std::unique_ptr<PlannedStream> Make(const Amount& amount, const IoOptions& options) const {
    return MakePlannedStream(checkpoint_, ShapeOf(checkpoint_, amount), options);
  }
  std::string ErrorOfPass(WeightStream& stream, ErrorKind kind) const {
    try {
      RunPass(stream, checkpoint_, true, AllExperts(checkpoint_));
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
  }

  const ScratchFolder scratch_;
  const Checkpoint checkpoint_ = Checkpoint::Open(CopyOfGolden("k3", scratch_));
};

INSTANTIATE_TEST_SUITE_P(Ways, PlannedStreamOnK3Test, testing::ValuesIn(kWays),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(PlannedStreamOnK3Test, ReadsNothingTwiceWhereEverythingFits) {
  const auto stream = Make(kAmounts[4], options());
  RunPass(*stream, checkpoint_, true, AllExperts(checkpoint_));
  const StreamStats first = stream->ReadStats();
  for (int i = 0; i < 3; ++i) RunPass(*stream, checkpoint_, true, AllExperts(checkpoint_));
  const StreamStats last = stream->ReadStats();
  EXPECT_EQ(last.bytes(), first.bytes());
  EXPECT_EQ(last.read_calls, first.read_calls);
  EXPECT_EQ(last.expert_misses, first.expert_misses);
  EXPECT_EQ(last.expert_hits, 3 * first.expert_misses);
}

TEST_P(PlannedStreamOnK3Test, CountsWhatItRead) {
  const PassSchedule schedule(checkpoint_);
  const Amount nothing_kept = {"", 1 << 20, 100, 2, 0, 0, 0};
  const auto stream = Make(nothing_kept, options());
  const StreamStats before = stream->ReadStats();
  EXPECT_EQ(before.expert_misses, 0U);
  const size_t passes = 3;
  for (size_t i = 0; i < passes; ++i) {
    RunPass(*stream, checkpoint_, true, SomeExperts(checkpoint_, 0));
  }
  const StreamStats stats = stream->ReadStats();
  // Whole blocks: each read adds at most two, and a file ends in less than a block.
  const uint64_t padding = stats.read_calls * 2 * kBlockBytes;
  EXPECT_GE(stats.trunk_bytes, passes * schedule.trunk_bytes());
  EXPECT_GE(stats.head_bytes, passes * schedule.head_bytes());
  EXPECT_GE(stats.expert_bytes, stats.expert_misses * schedule.expert_bytes());
  EXPECT_LE(stats.bytes(), passes * (schedule.trunk_bytes() + schedule.head_bytes()) +
                               stats.expert_misses * schedule.expert_bytes() + padding);
  EXPECT_EQ(stats.embedding_bytes, 0U);
  std::vector<float> row(checkpoint_.config().hidden);
  stream->ReadEmbeddingRow(1, row);
  EXPECT_GT(stream->ReadStats().embedding_bytes, 0U);
  EXPECT_GT(stats.reads_busy_seconds, 0.0);
  EXPECT_GE(stats.depth_seconds, stats.reads_busy_seconds);
}

TEST_P(PlannedStreamOnK3Test, NeverReadsAHeadThatDoesNotCome) {
  const auto stream = Make(kAmounts[3], options());
  for (int i = 0; i < 3; ++i) RunPass(*stream, checkpoint_, false, AllExperts(checkpoint_));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(stream->ReadStats().head_bytes, 0U);
}

TEST_P(PlannedStreamOnK3Test, StartsAfreshAfterAPassThatWasGivenUp) {
  const auto want = ExpectedPass(checkpoint_, true, SomeExperts(checkpoint_, 1));
  for (const Amount& amount : kAmounts) {
    const auto stream = Make(amount, options());
    for (size_t layers = 0; layers < checkpoint_.config().layers; ++layers) {
      size_t layers_left = layers;
      const ExpertChoice choice = [&](size_t layer) {
        if (layers_left-- == 0) throw std::runtime_error("given up");
        return AllExperts(checkpoint_)(layer);
      };
      try {
        RunPass(*stream, checkpoint_, true, choice);
      } catch (const std::runtime_error&) {
      }
      if (layers % 3 != 0) continue;
      EXPECT_EQ(Difference(RunPass(*stream, checkpoint_, true, SomeExperts(checkpoint_, 1)), want),
                "");
    }
  }
}

TEST_P(PlannedStreamOnK3Test, AVisitorThatThrowsLeavesThePassGivenUp) {
  const auto stream = Make(kAmounts[1], options());
  const PassSchedule schedule(checkpoint_);
  const MatrixId first = {schedule.steps()[0].role, 0};
  stream->BeginPass(true);
  EXPECT_THROW(
      stream->ForEachTile(first, [](const Tile&) { throw std::runtime_error("given up"); }),
      std::runtime_error);
  EXPECT_THROW(stream->ForEachTile(first, [](const Tile&) {}), std::logic_error);
  EXPECT_EQ(ErrorOfPass(*stream, ErrorKind::kIo), "");
}

TEST_P(PlannedStreamOnK3Test, FailsCleanlyWhicheverReadFails) {
  const auto want = ExpectedPass(checkpoint_, true, AllExperts(checkpoint_));
  for (const int error_number : {EIO, 0}) {
    for (const Amount& amount : {kAmounts[1], kAmounts[2], kAmounts[4]}) {
      bool hit = true;
      for (uint64_t n = 0; hit; n = n + 1 + n / 6) {
        auto plan = std::make_shared<FaultPlan>();
        plan->error_number = error_number;
        plan->spoil = GetParam().mode != IoMode::kMmap;
        plan->fault = [n](uint64_t read) {
          return read == n ? FaultPlan::Fault::kError : FaultPlan::Fault::kNone;
        };
        IoOptions io = options();
        io.hooks.wrap_reader = [plan](std::unique_ptr<Reader> reader) {
          return std::make_unique<FaultInjectingReader>(std::move(reader), plan);
        };
        const auto stream = Make(amount, io);
        size_t errors = 0;
        for (int pass = 0; pass < 3; ++pass) {
          hit = plan->reads > n;
          try {
            // A pass that ends well has seen the right bytes, and what failed is read again.
            EXPECT_EQ(
                Difference(RunPass(*stream, checkpoint_, true, AllExperts(checkpoint_)), want), "")
                << n;
          } catch (const Error& error) {
            ++errors;
            EXPECT_EQ(error.kind(), ErrorKind::kIo);
            EXPECT_THAT(error.what(), HasSubstr(".safetensors"));
          }
        }
        // A read that fails before the last pass begins is seen by the end of it.
        EXPECT_LE(errors, 1U) << n;
        if (hit) {
          EXPECT_EQ(errors, 1U) << n;
        }
      }
    }
  }
}

TEST_P(PlannedStreamOnK3Test, TakesCompletionsInAnyOrderAndLate) {
  auto plan = std::make_shared<FaultPlan>();
  plan->reverse = true;
  plan->delay = std::chrono::microseconds(200);
  IoOptions io = options();
  io.hooks.wrap_reader = [plan](std::unique_ptr<Reader> reader) {
    return std::make_unique<FaultInjectingReader>(std::move(reader), plan);
  };
  const auto stream = Make(kAmounts[3], io);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Difference(RunPass(*stream, checkpoint_, true, AllExperts(checkpoint_)),
                         ExpectedPass(checkpoint_, true, AllExperts(checkpoint_))),
              "");
  }
}

TEST_P(PlannedStreamOnK3Test, AWaitEndsSoonAfterTheStopFlag) {
  auto plan = std::make_shared<FaultPlan>();
  plan->fault = [](uint64_t read) {
    return read >= 5 ? FaultPlan::Fault::kHang : FaultPlan::Fault::kNone;
  };
  std::atomic<bool> stop = false;
  IoOptions io = options();
  io.stop = &stop;
  io.hooks.wrap_reader = [plan](std::unique_ptr<Reader> reader) {
    return std::make_unique<FaultInjectingReader>(std::move(reader), plan);
  };
  const auto stream = Make(kAmounts[1], io);
  std::thread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop = true;
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(ErrorOfPass(*stream, ErrorKind::kInterrupted), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  user.join();
  EXPECT_NE(ErrorOfPass(*stream, ErrorKind::kInterrupted), "");
  plan->released = true;
  stop = false;
  EXPECT_EQ(ErrorOfPass(*stream, ErrorKind::kInterrupted), "");
  // The read came only after the flag, however fast anything else was.
  EXPECT_GT(stream->ReadStats().compute_waited_seconds, 0.0);
}

TEST(PlannedStream, ADriveThatIsStuckHoldsUpNoOther) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  StreamShape shape = ShapeOf(checkpoint, kAmounts[0]);
  const PassSchedule schedule(checkpoint, shape.tile_bytes);
  shape.ring_bytes = uint64_t{64} << 20;
  uint64_t elsewhere = 0;  // bytes of the walk that are not in the first shard
  for (const PassStep& step : schedule.steps()) {
    if (step.kind == StepKind::kMatrix && step.location.range.shard != 0) {
      elsewhere += step.location.range.bytes;
    }
  }
  ASSERT_EQ(schedule.steps()[0].location.range.shard, 0U);
  auto plan = std::make_shared<FaultPlan>();
  plan->stuck = [](uint32_t shard) { return shard == 0; };
  for (const Way& way : kWays) {
    if (!way.several_drives) continue;
    plan->released = false;
    IoOptions io = OptionsOf(way);
    io.hooks.wrap_reader = [plan](std::unique_ptr<Reader> reader) {
      return std::make_unique<FaultInjectingReader>(std::move(reader), plan);
    };
    const auto stream = MakePlannedStream(checkpoint, shape, io);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (stream->ReadStats().trunk_bytes < elsewhere &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_GE(stream->ReadStats().trunk_bytes, elsewhere) << way.name;
    plan->released = true;
    EXPECT_EQ(Difference(RunPass(*stream, checkpoint, true, AllExperts(checkpoint)),
                         ExpectedPass(checkpoint, true, AllExperts(checkpoint))),
              "");
  }
}

TEST_P(PlannedStreamOnK3Test, TilesThatHaveArrivedComeTogetherAndLeaveMostOfTheRing) {
  StreamShape shape = ShapeOf(checkpoint_, kAmounts[0]);
  shape.tile_bytes = 300;
  const PassSchedule schedule(checkpoint_, shape.tile_bytes);
  uint64_t tiles_bytes = 0;  // of all but the head
  uint64_t arriving_bytes = 0;
  for (const PassStep& step : schedule.steps()) {
    if (step.kind != StepKind::kMatrix) continue;
    for (size_t tile = 0; tile < step.tiles(); ++tile) {
      const ByteRange blocks = BlocksOf(step.RangeOf(tile));
      tiles_bytes += blocks.bytes;
      arriving_bytes +=
          std::min(blocks.offset + blocks.bytes, checkpoint_.shards()[blocks.shard].bytes) -
          blocks.offset;
    }
  }
  // All of the walk finds room in a ring of that size.
  for (const uint64_t ring_bytes : {shape.ring_bytes, tiles_bytes}) {
    shape.ring_bytes = ring_bytes;
    const auto stream = MakePlannedStream(checkpoint_, shape, options());
    const PassStep& step = schedule.steps()[0];
    ASSERT_GT(step.tiles(), 2U);
    if (ring_bytes == tiles_bytes) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (stream->ReadStats().trunk_bytes < arriving_bytes &&
             std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    stream->BeginPass(false);
    size_t row = 0;
    std::vector<size_t> runs;
    stream->ForEachRun({step.role, step.layer}, [&](std::span<const Tile> run) {
      uint64_t bytes = 0;
      for (const Tile& tile : run) {
        EXPECT_EQ(tile.first_row, row);
        row += tile.weights.rows;
        bytes += tile.weights.rows * step.row_bytes();
      }
      EXPECT_TRUE(run.size() == 1 || bytes <= ring_bytes / 4);
      runs.push_back(run.size());
    });
    EXPECT_EQ(row, step.location.rows);
    EXPECT_EQ(*std::ranges::max_element(runs) > 1, ring_bytes == tiles_bytes);
  }
}

TEST_P(PlannedStreamOnK3Test, RefusesAShardThatIsCutInMidRun) {
  const auto stream = Make(kAmounts[1], options());
  ASSERT_EQ(ErrorOfPass(*stream, ErrorKind::kIo), "");
  const Shard& shard = checkpoint_.shards()[0];
  std::filesystem::resize_file(shard.path, shard.bytes / 2);
  // What was read ahead before the cut may still serve one pass in part, never wrongly.
  EXPECT_THAT(ErrorOfPass(*stream, ErrorKind::kIo), HasSubstr(shard.path.string()));
  std::filesystem::resize_file(shard.path, 0);
  EXPECT_THAT(ErrorOfPass(*stream, ErrorKind::kIo), HasSubstr(shard.path.string()));
}

TEST_P(PlannedStreamOnK3Test, RefusesAShardThatIsWrittenToInMidRun) {
  const auto stream = Make(kAmounts[1], options());
  ASSERT_EQ(ErrorOfPass(*stream, ErrorKind::kIo), "");
  const Shard& shard = checkpoint_.shards()[1];
  {
    std::fstream file(shard.path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(shard.bytes / 2));
    file.put('x');
  }
  const std::string error = ErrorOfPass(*stream, ErrorKind::kIo);
  EXPECT_THAT(error, HasSubstr(shard.path.string()));
  EXPECT_THAT(error, HasSubstr("written to"));
}

TEST_P(PlannedStreamOnK3Test, RefusesAShardThatIsExtendedInMidRun) {
  const auto stream = Make(kAmounts[1], options());
  ASSERT_EQ(ErrorOfPass(*stream, ErrorKind::kIo), "");
  const Shard& shard = checkpoint_.shards()[1];
  std::filesystem::resize_file(shard.path, shard.bytes + 1);
  const std::string error = ErrorOfPass(*stream, ErrorKind::kIo);
  EXPECT_THAT(error, HasSubstr(shard.path.string()));
  EXPECT_THAT(error, HasSubstr("extended"));
}

TEST_P(PlannedStreamOnK3Test, StaysReadableWhenShardsAreDeletedInMidRun) {
  const auto want = ExpectedPass(checkpoint_, true, AllExperts(checkpoint_));
  const auto stream = Make(kAmounts[1], options());
  for (const Shard& shard : checkpoint_.shards()) std::filesystem::remove(shard.path);
  EXPECT_EQ(Difference(RunPass(*stream, checkpoint_, true, AllExperts(checkpoint_)), want), "");
}

TEST_P(PlannedStreamOnK3Test, RefusesAShardThatChangedItsLengthBeforeTheStart) {
  const Shard& shard = checkpoint_.shards()[1];
  std::filesystem::resize_file(shard.path, shard.bytes + 1);
  EXPECT_THROW(Make(kAmounts[1], options()), Error);
}

TEST_P(PlannedStreamOnK3Test, RefusesAScaleThatStandsForNan) {
  size_t layer = 0;
  while (checkpoint_.config().IsDense(layer)) ++layer;
  const ByteRange scales = checkpoint_.Expert(layer, 1).up.scales;
  std::fstream file(checkpoint_.shards()[scales.shard].path,
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(scales.offset));
  file.put('\xff');
  file.close();
  const auto stream = Make(kAmounts[1], options());
  EXPECT_THAT(ErrorOfPass(*stream, ErrorKind::kCheckpoint),
              HasSubstr(checkpoint_.TensorName(Role::kExpertUp, layer, 1)));
}

TEST_P(PlannedStreamOnK3Test, CanBeDestroyedAtAnyMoment) {
  for (int i = 0; i < 20; ++i) {
    const auto stream = Make(kAmounts[static_cast<size_t>(i) % std::size(kAmounts)], options());
    if (i % 2 == 0) stream->BeginPass(true);
  }
}

TEST_P(PlannedStreamOnK3Test, SaysWhatItTook) {
  const auto stream = Make(kAmounts[1], options());
  const std::string& words = stream->io_description();
  const std::string name = GetParam().name;
  if (name == "direct_threads") {
    EXPECT_THAT(words, HasSubstr("io_uring refused"));
  }
  if (name.starts_with("buffered")) {
    EXPECT_THAT(words, HasSubstr("buffered reads by"));
  }
  if (name.starts_with("mmap")) {
    EXPECT_THAT(words, HasSubstr("mapped"));
  }
  EXPECT_FALSE(words.empty());
}

TEST(PlannedStream, KeepsWithinWhatItSaysItKeeps) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  for (const Amount& amount : kAmounts) {
    const StreamShape shape = ShapeOf(checkpoint, amount);
    const auto stream = MakePlannedStream(checkpoint, shape, {});
    EXPECT_EQ(stream->resident_bytes(),
              StreamResidentBytes(checkpoint, PassSchedule(checkpoint, shape.tile_bytes), shape));
  }
}

TEST(PlannedStream, RefusesARingThatIsTooSmall) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  StreamShape shape = ShapeOf(checkpoint, kAmounts[3]);
  shape.ring_bytes = kBlockBytes;
  EXPECT_THROW(MakePlannedStream(checkpoint, shape, {}), std::logic_error);
}

}  // namespace
}  // namespace kimi_k3

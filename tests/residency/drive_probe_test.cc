// Tests of the drive probe.
#include "residency/drive_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "base/error.h"
#include "residency/fault_injecting_reader.h"
#include "residency/stream_test_support.h"

namespace kimi_k3 {
namespace {

TEST(DriveProbe, ReadsForAsLongAsItWasTold) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  for (const IoMode mode : {IoMode::kAuto, IoMode::kDirect, IoMode::kBuffered, IoMode::kMmap}) {
    IoOptions io;
    io.mode = mode;
    const DriveSpeed speed = MeasureDrive(checkpoint, io, 10000, std::chrono::milliseconds(30));
    EXPECT_GT(speed.bytes, 0U);
    EXPECT_GE(speed.seconds, 0.03);
    EXPECT_NEAR(speed.bytes_per_second, static_cast<double>(speed.bytes) / speed.seconds, 1.0);
    EXPECT_FALSE(speed.description.empty());
  }
}

TEST(DriveProbe, ReadsAllDrivesAndCombinesTheirSpeeds) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  IoOptions io;
  io.hooks.device_of = [](const std::filesystem::path& path) {
    return path.filename() == "model-00002-of-000003.safetensors" ? 2 : 1;
  };
  // The first drive is stuck for longer than the probe is to last.
  auto plan = std::make_shared<FaultPlan>();
  plan->stuck = [](uint32_t shard) { return shard != 1; };
  io.hooks.wrap_reader = [plan](std::unique_ptr<Reader> reader) {
    return std::make_unique<FaultInjectingReader>(std::move(reader), plan);
  };
  std::thread release([plan] {
    // The probe's time runs from before its first read.
    while (plan->reads == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    plan->released = true;
  });
  const DriveSpeed speed = MeasureDrive(checkpoint, io, 10000, std::chrono::milliseconds(50));
  release.join();
  EXPECT_GE(speed.seconds, 0.1);
  EXPECT_GT(speed.bytes, 0U);
  EXPECT_GT(speed.in_turns_bytes_per_second, 0.0);
  EXPECT_GT(speed.bytes_per_second, speed.in_turns_bytes_per_second);
  EXPECT_LT(speed.bytes_per_second, 2 * speed.in_turns_bytes_per_second + 1);
}

TEST(DriveProbe, ReportsADriveThatFails) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint("k3"));
  auto plan = std::make_shared<FaultPlan>();
  plan->fault = [](uint64_t read) {
    return read == 3 ? FaultPlan::Fault::kError : FaultPlan::Fault::kNone;
  };
  IoOptions io;
  io.hooks.wrap_reader = [plan](std::unique_ptr<Reader> reader) {
    return std::make_unique<FaultInjectingReader>(std::move(reader), plan);
  };
  EXPECT_THROW(MeasureDrive(checkpoint, io, 10000, std::chrono::milliseconds(200)), Error);
}

}  // namespace
}  // namespace kimi_k3

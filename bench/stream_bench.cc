// Passes over a checkpoint through a planned stream, with nothing of the model but its products:
// what reading and multiplying cost together, and which of them waits.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/process_meter.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "kernels/matmul.h"
#include "residency/drive_probe.h"
#include "residency/pass_schedule.h"
#include "residency/planned_stream.h"

namespace kimi_k3 {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  std::filesystem::path model_dir;
  double tile_mib = 1;
  double ring_mib = 16;
  size_t slots = 16;
  size_t threads = 0;
  size_t depth = 0;
  size_t passes = 3;
  std::string io = "auto";
  bool no_multiply = false;
  bool refuse_io_uring = false;
};

uint64_t Mebibytes(double count) { return static_cast<uint64_t>(count * 1048576.0); }

class Bench {
 public:
  Bench(const Checkpoint& checkpoint, const BenchOptions& options)
      : checkpoint_(checkpoint),
        options_(options),
        pool_(options.threads == 0 ? UsableCores() : options.threads),
        schedule_(checkpoint, Mebibytes(options.tile_mib)) {
    const ModelConfig& config = checkpoint.config();
    size_t widest = std::max(config.hidden, config.vocabulary);
    for (const PassStep& step : schedule_.steps()) {
      widest = std::max({widest, step.location.rows, step.location.columns});
    }
    x_.assign(std::max({widest, config.moe.expert_intermediate, config.expert_width()}), 1.0F);
    y_.resize(x_.size());
  }

  void Run() {
    const IoOptions io = Io();
    StreamShape shape;
    shape.tile_bytes = Mebibytes(options_.tile_mib);
    shape.ring_bytes = Mebibytes(options_.ring_mib);
    shape.passing_slots = options_.slots;
    const auto stream = MakePlannedStream(checkpoint_, shape, io);
    fmt::print("{}; {} threads\n", stream->io_description(), pool_.threads());
    for (size_t pass = 0; pass < options_.passes; ++pass) {
      const auto start = Clock::now();
      const StreamStats before = stream->ReadStats();
      Pass(*stream, pass);
      Print(std::chrono::duration<double>(Clock::now() - start).count(), before,
            stream->ReadStats());
    }
  }

 private:
  IoOptions Io() const {
    IoOptions io;
    io.mode = ParseIoMode(options_.io);
    io.depth = options_.depth;
    io.hooks.refuse_io_uring = options_.refuse_io_uring;
    return io;
  }

  void Multiply(const kernels::WeightView& w) {
    if (options_.no_multiply) return;
    pool_.For(w.rows, 8, [&](size_t, size_t begin, size_t end) {
      kernels::MatMul(w.Rows(begin, end - begin), x_.data(), w.columns, 1, y_.data() + begin,
                      w.rows);
    });
  }

  void Pass(WeightStream& stream, size_t pass) {
    const MoeConfig& moe = checkpoint_.config().moe;
    stream.BeginPass(true);
    for (const PassStep& step : schedule_.steps()) {
      if (step.kind == StepKind::kExperts) {
        stream.ForEachExpert(step.layer, ExpertOrder::kArrival,
                             [&](int32_t, const ExpertWeights& expert) {
                               Multiply(expert.gate);
                               Multiply(expert.up);
                               Multiply(expert.down);
                             });
        continue;
      }
      stream.ForEachTile({step.role, step.layer},
                         [&](const Tile& tile) { Multiply(tile.weights); });
      if (step.role != Role::kRouter) continue;
      std::vector<int32_t> experts;
      const size_t stride = moe.experts / moe.experts_per_token;
      for (size_t k = 0; k < moe.experts_per_token; ++k) {
        experts.push_back(static_cast<int32_t>(k * stride + (pass * 7 + step.layer * 3) % stride));
      }
      stream.RequestExperts(step.layer, experts);
    }
  }

  static void Print(double seconds, const StreamStats& before, const StreamStats& after) {
    const auto bytes = static_cast<double>(after.bytes() - before.bytes());
    const double busy = after.reads_busy_seconds - before.reads_busy_seconds;
    fmt::print(
        "{:.2f} s, {:.1f} GB, {:.2f} GB/s; compute waited {:.2f} s, reads waited {:.2f} s, "
        "{:.1f} in flight; at most {} in memory\n",
        seconds, bytes / 1e9, bytes / 1e9 / seconds,
        after.compute_waited_seconds - before.compute_waited_seconds,
        after.reads_waited_seconds - before.reads_waited_seconds,
        busy > 0 ? (after.depth_seconds - before.depth_seconds) / busy : 0.0,
        FormatByteSize(ReadProcessMeters().peak_resident_bytes));
    std::fflush(stdout);
  }

  const Checkpoint& checkpoint_;
  const BenchOptions& options_;
  ThreadPool pool_;
  PassSchedule schedule_;
  std::vector<float> x_, y_;
};

int Main(int argc, char** argv) {
  CLI::App app("Passes over a checkpoint through a planned stream");
  BenchOptions options;
  app.add_option("-m", options.model_dir, "The checkpoint's folder")->required();
  app.add_option("--tile", options.tile_mib, "MiB of a tile");
  app.add_option("--ring", options.ring_mib, "MiB of the ring");
  app.add_option("--slots", options.slots, "Expert slots");
  app.add_option("-t", options.threads, "Threads that multiply");
  app.add_option("--depth", options.depth, "Reads in flight");
  app.add_option("--passes", options.passes, "Passes");
  app.add_option("--io", options.io, "auto, direct, buffered or mmap");
  app.add_flag("--no-multiply", options.no_multiply, "Only read");
  app.add_flag("--refuse-io-uring", options.refuse_io_uring, "As in a container that refuses it");
  CLI11_PARSE(app, argc, argv);
  const Checkpoint checkpoint = Checkpoint::Open(options.model_dir);
  Bench(checkpoint, options).Run();
  return 0;
}

}  // namespace
}  // namespace kimi_k3

int main(int argc, char** argv) {
  try {
    return kimi_k3::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stream_bench: %s\n", error.what());
    return 1;
  }
}

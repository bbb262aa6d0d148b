// The doctor command: what this machine offers, and what suits it best.
#include "cli/doctor_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "base/aligned_buffer.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process_meter.h"
#include "base/thread_pool.h"
#include "checkpoint/model_part.h"
#include "cli/flag_group.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/plan_estimate.h"
#include "engine/engine_plan.h"
#include "kernels/isa.h"
#include "kimi_k3/generation.h"
#include "residency/memory_limits.h"

namespace kimi_k3 {
namespace {

constexpr size_t kBlock = 4096;
constexpr double kShortTokenSeconds = 2;  // a model this fast is tried with tokens
constexpr size_t kTriedTokens = 2;
constexpr double kClearlyBetter = 1.1;

// One way of reading, tried.
struct TriedIo {
  std::string mode;
  double bytes_per_second = 0;
  std::string description;  // or why it cannot be had
  bool works = false;
};

struct Findings {
  std::vector<std::string> isas;
  size_t online_cores = 0;
  size_t allowed_cpus = 0;
  size_t usable_cores = 0;
  uint64_t memory_bytes = 0;
  MemoryLimit limit;
  std::string io_uring;
  std::string place;  // the folder that is looked at
  std::string file_system;
  uint64_t free_bytes = 0;
  std::optional<bool> direct_reads;
  std::vector<TriedIo> io;
  std::optional<MemoryPlan> plan;
  std::optional<PlanEstimate> estimate;
  std::string command;
  std::string trial;
  std::vector<std::string> advice;
};

uint64_t TotalMemory() {
  struct sysinfo info = {};
  return sysinfo(&info) == 0 ? uint64_t{info.totalram} * info.mem_unit : 0;
}

size_t AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 0;
  return static_cast<size_t>(CPU_COUNT(&set));
}

void LookAtMachine(Findings& found) {
  found.isas = kernels::UsableIsas();
  found.online_cores = std::thread::hardware_concurrency();
  found.allowed_cpus = AllowedCpus();
  found.usable_cores = UsableCores();
  found.memory_bytes = TotalMemory();
  found.limit = ReadMemoryLimit(ReadProcessMeters().resident_bytes);
  found.io_uring = ProbeIoUring();
}

void LookAtPlace(const std::filesystem::path& place, Findings& found) {
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::absolute(place, ignored).lexically_normal();
  found.place = (whole.empty() ? place : whole).string();
  found.file_system = FileSystemName(place);
  std::error_code error;
  const auto space = std::filesystem::space(place, error);
  if (!error) found.free_bytes = space.available;
}

// A word of a shell's command, quoted where it must be.
std::string ForShell(const std::string& word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 ||
           std::string_view("/._-+=:,@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Examines one checkpoint; what it advises is what it has tried.
class Examination {
 public:
  Examination(const DoctorOptions& options, Findings& found, Output& output)
      : found_(found), output_(output), checkpoint_(OpenCheckpoint(EngineOf(options))) {
    engine_ = ResolveOptions(EngineOf(options), checkpoint_.config());
  }

  void Run() {
    for (const std::string& warning : checkpoint_.warnings()) output_.Warning(warning);
    found_.direct_reads = DirectReadsWork(checkpoint_.shards().front().path);
    engine_.memory_bytes = DefaultBudget(found_.limit);
    found_.plan = PlanOf(engine_);
    TryReading();
    const TriedIo& best = *std::ranges::max_element(found_.io, {}, &TriedIo::bytes_per_second);
    const TriedIo& usual = found_.io.front();
    if (best.bytes_per_second > kClearlyBetter * usual.bytes_per_second) engine_.io = best.mode;
    output_.Status("measuring the processor");
    found_.estimate = EstimatePlan(checkpoint_, *found_.plan, engine_, 1000);
    MakeCommand();
    TryCommand();
    Advise();
  }

 private:
  static EngineOptions EngineOf(const DoctorOptions& options) {
    EngineOptions engine;
    engine.model_dir = options.folders.front();
    engine.more_model_dirs.assign(options.folders.begin() + 1, options.folders.end());
    engine.shard = options.part;
    return engine;
  }

  MemoryPlan PlanOf(const EngineOptions& options) const {
    return MakeMemoryPlan(
        checkpoint_, MakePlanRequest(checkpoint_, options, ReadProcessMeters().resident_bytes));
  }

  void TryReading() {
    for (const char* mode : {"auto", "direct", "buffered", "mmap"}) {
      InterruptGuard::Check();
      output_.Status(fmt::format("reading with --io {}", mode));
      TriedIo tried{mode, 0, "", false};
      try {
        IoOptions io;
        io.mode = ParseIoMode(mode);
        const DriveSpeed speed = MeasureDrive(checkpoint_, io, found_.plan->stream.tile_bytes,
                                              std::chrono::milliseconds(700));
        tried.bytes_per_second = speed.bytes_per_second;
        tried.description = speed.description;
        tried.works = true;
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kInterrupted) throw;
        tried.description = error.what();
      }
      found_.io.push_back(std::move(tried));
    }
  }

  void MakeCommand() {
    found_.command = fmt::format("kimi_k3 -m {}", ForShell(engine_.model_dir.string()));
    for (const auto& folder : engine_.more_model_dirs) {
      found_.command += fmt::format(" -m {}", ForShell(folder.string()));
    }
    if (!engine_.shard.empty()) found_.command += " --shard " + engine_.shard;
    found_.command += fmt::format(" --memory {}M", *engine_.memory_bytes / 1000000);
    if (engine_.io != "auto") found_.command += " --io " + engine_.io;
    found_.command += " -p TEXT";
  }

  // Opens the model as the command would, and where it is fast lets it say something.
  void TryCommand() {
    output_.Status("trying: " + found_.command);
    Engine engine = Engine::Open(engine_);
    found_.trial = "opened and planned";
    if (found_.estimate->token_seconds <= kShortTokenSeconds) {
      Sequence sequence = engine.NewSequence();
      GenerationOptions generation;
      generation.max_tokens = kTriedTokens;
      generation.ignore_eos = true;
      const std::vector<TokenId> prompt = {0};
      const EngineInterrupt interrupt(engine);
      const auto start = std::chrono::steady_clock::now();
      const GenerationResult result =
          Generate(engine, sequence, prompt, generation, [](TokenId) { return true; });
      InterruptGuard::Check();
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      found_.trial += fmt::format(
          ", and ran: {:.3g} s a token",
          seconds.count() / static_cast<double>(std::max<size_t>(1, result.tokens.size())));
    }
    const uint64_t peak = ReadProcessMeters().peak_resident_bytes;
    found_.trial += fmt::format(", {} in memory at most", FormatByteSize(peak));
  }

  void Advise() {
    const PlanEstimate& estimate = *found_.estimate;
    const MemoryPlan& plan = *found_.plan;
    if (engine_.io != "auto") {
      found_.advice.push_back(fmt::format(
          "--io {} reads clearly faster here than what is chosen by itself", engine_.io));
    }
    if (plan.bytes_per_token() <= plan.embedding_bytes_per_token) {
      found_.advice.push_back("all weights stay in memory: more of it would not help");
    } else if (estimate.token_read_seconds > estimate.token_multiply_seconds) {
      found_.advice.push_back(fmt::format(
          "the drive is the limit: a token takes {} to read and {} to multiply; a faster drive (or "
          "the shards spread over two, -m repeated) helps most, up to {:.1f} times",
          FormatEstimate(estimate.token_read_seconds),
          FormatEstimate(estimate.token_multiply_seconds),
          estimate.token_read_seconds / estimate.token_multiply_seconds));
      AdviseMemory();
    } else {
      found_.advice.push_back(fmt::format(
          "the processor is the limit: a token takes {} to multiply and {} to read; more cores "
          "help most",
          FormatEstimate(estimate.token_multiply_seconds),
          FormatEstimate(estimate.token_read_seconds)));
    }
    if (found_.io_uring != "allowed") {
      found_.advice.push_back("io_uring is not allowed here (" + found_.io_uring +
                              "): reads go through threads, which cost more processor time");
    }
    if (found_.direct_reads == false) {
      found_.advice.push_back("the file system has no direct reads: weights pass the page cache");
    }
  }

  // What another 8 GB would save, by the plan that they would make.
  void AdviseMemory() {
    constexpr uint64_t kMore = 8000000000;
    EngineOptions larger = engine_;
    larger.memory_bytes = *engine_.memory_bytes + kMore;
    const uint64_t now = found_.plan->bytes_per_token();
    const uint64_t then = PlanOf(larger).bytes_per_token();
    if (then >= now) return;
    found_.advice.push_back(
        fmt::format("with {} more memory a token would read {} less ({:.0f} %)",
                    FormatByteSize(kMore), FormatByteSize(now - then),
                    100.0 * static_cast<double>(now - then) / static_cast<double>(now)));
  }

  Findings& found_;
  Output& output_;
  Checkpoint checkpoint_;
  EngineOptions engine_;
};

std::string ToText(const Findings& found) {
  std::string text = fmt::format(
      "instruction sets: {}\n",
      found.isas.empty()
          ? "none that the program needs (AVX2 with FMA, AVX-512 or NEON)"
          : fmt::format("{} (in use: {})", fmt::join(found.isas, ", "), found.isas.front()));
  text += fmt::format("cores: {} usable (of {} logical, {} allowed to this process)\n",
                      found.usable_cores, found.online_cores, found.allowed_cpus);
  text +=
      fmt::format("memory: {} of {} to be had ({}); the default budget is {}\n",
                  FormatByteSize(found.limit.available_bytes), FormatByteSize(found.memory_bytes),
                  found.limit.source, FormatByteSize(DefaultBudget(found.limit)));
  text += fmt::format("io_uring: {}\n", found.io_uring);
  text += fmt::format("{}: {}, {} free{}\n", found.place, found.file_system,
                      FormatByteSize(found.free_bytes),
                      !found.direct_reads   ? ""
                      : *found.direct_reads ? ", direct reads work"
                                            : ", no direct reads");
  for (const TriedIo& io : found.io) {
    text += fmt::format(
        "  --io {:<9}{}\n", io.mode,
        io.works
            ? fmt::format("{:>9}/s  {}", FormatByteSize(static_cast<uint64_t>(io.bytes_per_second)),
                          io.description)
            : io.description);
  }
  if (found.plan) {
    text += "\nthe plan:\n" + FormatPlan(*found.plan);
    text += fmt::format("expected: {} a token\n", FormatEstimate(found.estimate->token_seconds));
    text += fmt::format("\ntry: {}\n  ({})\n", found.command, found.trial);
  }
  for (const std::string& line : found.advice) text += fmt::format("- {}\n", line);
  return text;
}

std::string ToJson(const Findings& found) {
  nlohmann::ordered_json json = {{"instruction_sets", found.isas},
                                 {"cores",
                                  {{"usable", found.usable_cores},
                                   {"logical", found.online_cores},
                                   {"allowed", found.allowed_cpus}}},
                                 {"memory",
                                  {{"bytes", found.memory_bytes},
                                   {"available_bytes", found.limit.available_bytes},
                                   {"source", found.limit.source}}},
                                 {"io_uring", found.io_uring},
                                 {"folder", found.place},
                                 {"file_system", found.file_system},
                                 {"free_bytes", found.free_bytes}};
  if (found.direct_reads) json["direct_reads"] = *found.direct_reads;
  if (found.plan) {
    nlohmann::ordered_json ways = nlohmann::ordered_json::array();
    for (const TriedIo& io : found.io) {
      ways.push_back({{"io", io.mode},
                      {"works", io.works},
                      {"bytes_per_second", io.bytes_per_second},
                      {"reading", io.description}});
    }
    json["reading"] = ways;
    json["plan"] = PlanToJson(*found.plan);
    json["seconds_per_token"] = found.estimate->token_seconds;
    json["command"] = found.command;
    json["trial"] = found.trial;
  }
  json["advice"] = found.advice;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void AddOptions(CLI::App& command, DoctorOptions& options) {
  FlagGroup group(command, "Doctor");
  group.Values("-m,--model", "DIR",
               "A checkpoint to plan for, and whose drive to measure; repeated where its files lie "
               "in several folders",
               [&options](const std::vector<std::string>& folders) {
                 for (const std::string& folder : folders) {
                   if (folder.empty()) {
                     Fail(ErrorKind::kUsage, "-m,--model: the folder's name is empty");
                   }
                 }
                 options.folders.assign(folders.begin(), folders.end());
               });
  group.Value("--shard", "PART", "Plan for a part of the model, such as layers=0-11,experts=0-63",
              [&options](const std::string& text) {
                ParseModelPart(text);
                options.part = text;
              });
  group.Switch("--json", options.json, "Write JSON");
  group.Switch("-q,--quiet", options.quiet, "Nothing on standard error but errors and warnings");
}

void CheckOptions(const DoctorOptions& options) {
  if (options.folders.empty() && !options.part.empty()) {
    Fail(ErrorKind::kUsage, "--shard: is a part of a model; give one with -m DIR");
  }
}

}  // namespace

std::string ProbeIoUring() {
  io_uring_params parameters = {};
  const long fd = syscall(__NR_io_uring_setup, 1, &parameters);
  if (fd < 0) return std::generic_category().message(errno);
  close(static_cast<int>(fd));
  return "allowed";
}

std::string FileSystemName(const std::filesystem::path& path) {
  constexpr std::array<std::pair<unsigned long, const char*>, 16> kNames = {
      {{0xef53, "ext4"},
       {0x58465342, "xfs"},
       {0x9123683e, "btrfs"},
       {0x01021994, "tmpfs"},
       {0x794c7630, "overlayfs"},
       {0x6969, "nfs"},
       {0x2fc12fc1, "zfs"},
       {0xf2f52010, "f2fs"},
       {0x65735546, "fuse"},
       {0x5346544e, "ntfs"},
       {0x7366746e, "ntfs3"},
       {0x2011bab0, "exfat"},
       {0x4d44, "fat"},
       {0xff534d42, "cifs"},
       {0xfe534d42, "smb2"},
       {0x01021997, "9p"}}};
  struct statfs info = {};
  if (statfs(path.c_str(), &info) != 0) return "unknown";
  const auto number = static_cast<unsigned long>(info.f_type) & 0xffffffffUL;
  for (const auto& [magic, name] : kNames) {
    if (magic == number) return name;
  }
  return fmt::format("type 0x{:x}", number);
}

bool DirectReadsWork(const std::filesystem::path& file) {
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (!fd.valid()) return false;
  AlignedBuffer<std::byte> block(kBlock, kBlock);
  return pread(fd.get(), block.data(), kBlock, 0) > 0;
}

void RunDoctor(const DoctorOptions& options) {
  CheckOptions(options);
  const InterruptGuard interrupt;
  Output output(options.quiet);
  Findings found;
  LookAtMachine(found);
  LookAtPlace(options.folders.empty() ? "." : options.folders.front(), found);
  if (!options.folders.empty()) {
    Examination(options, found, output).Run();
  } else {
    found.advice.emplace_back("give a checkpoint with -m DIR to measure its drive and plan for it");
  }
  output.ClearStatus();
  output.Text(options.json ? ToJson(found) : ToText(found));
}

void AddDoctorCommand(CLI::App& app) {
  CLI::App& command = AddCommand(
      app, "doctor", "What this machine offers, what suits it best, and what would help most");
  const auto options = std::make_shared<DoctorOptions>();
  AddOptions(command, *options);
  OnCommand(command, [options] { RunDoctor(*options); });
}

}  // namespace kimi_k3

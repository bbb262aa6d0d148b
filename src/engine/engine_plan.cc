// What an engine of given options asks of the memory plan.
#include "engine/engine_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "checkpoint/model_folders.h"
#include "engine/cache_type.h"
#include "kernels/matmul.h"
#include "kimi_k3/session.h"
#include "model/sequence_state.h"
#include "model/workspace.h"

namespace kimi_k3 {
namespace {

constexpr size_t kDefaultContext = 2048;
// Rows of a pass over a prompt where nothing is asked for: at least these, and more where they pay.
// A pass of more takes so long to compute that little of its time is left to be saved, and is all
// that is lost where it is interrupted.
constexpr size_t kPromptChunk = 256;
constexpr size_t kMostPayingPromptChunk = 2048;
// A pass of more rows gains nothing, and its rows would not fit any memory.
constexpr size_t kMostPromptChunk = 65536;

std::vector<std::filesystem::path> ModelDirs(const EngineOptions& options) {
  std::vector<std::filesystem::path> dirs = {options.model_dir};
  dirs.insert(dirs.end(), options.more_model_dirs.begin(), options.more_model_dirs.end());
  return dirs;
}

}  // namespace

Checkpoint OpenCheckpoint(const EngineOptions& options) {
  Checkpoint checkpoint = Checkpoint::Open(ModelDirs(options), options.shard);
  checkpoint.UseExperts(options.experts_per_token);
  if (!options.overlay_dir.empty()) checkpoint.UseOverlay(options.overlay_dir);
  return checkpoint;
}

std::string DescribeApproximations(const EngineOptions& options, const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  std::vector<std::string> flags;
  if (options.kv_cache != KvCacheType::kF32) {
    flags.push_back(fmt::format("--kv-cache-quant {}", KvCacheName(options.kv_cache)));
  }
  if (options.state_type != StateType::kF32) {
    flags.push_back(fmt::format("--state-type {}", StateTypeName(options.state_type)));
  }
  if (config.experts_left_out > 0) {
    flags.push_back(fmt::format("--experts-per-token {}", config.moe.experts_per_token));
  }
  if (const auto& overlay = checkpoint.overlay(); overlay && !overlay->exact) {
    flags.push_back(fmt::format("--overlay {}:{}", overlay->trunk, overlay->fingerprint));
  }
  return fmt::format("{}", fmt::join(flags, " "));
}

std::string DescribeOverlay(const Checkpoint& checkpoint) {
  const std::optional<OverlayInUse>& overlay = checkpoint.overlay();
  if (!overlay) return {};
  return fmt::format("overlay {}, {} in place of {}", overlay->trunk,
                     FormatByteSize(overlay->bytes), FormatByteSize(overlay->replaced_bytes));
}

bool HasApproximations(const EngineOptions& options) {
  return options.kv_cache != KvCacheType::kF32 || options.state_type != StateType::kF32 ||
         options.experts_per_token != 0 || !options.overlay_dir.empty();
}

EngineOptions WithoutApproximations(EngineOptions options) {
  options.kv_cache = KvCacheType::kF32;
  options.state_type = StateType::kF32;
  options.experts_per_token = 0;
  options.overlay_dir.clear();
  return options;
}

std::optional<Tokenizer> LoadTokenizer(const EngineOptions& options, const ModelConfig& config) {
  const std::vector<std::filesystem::path> dirs = ModelDirs(options);
  const std::filesystem::path& dir = FolderWith(dirs, kTokenizerName);
  if (!HasEntry(dir, kTokenizerName)) return std::nullopt;
  return Tokenizer::Load(dir, static_cast<TokenId>(config.vocabulary));
}

EngineOptions ResolveOptions(const EngineOptions& options, const ModelConfig& config) {
  EngineOptions resolved = options;
  const size_t most = config.max_positions != 0 ? config.max_positions : SIZE_MAX;
  if (resolved.context == 0) resolved.context = std::min(kDefaultContext, most);
  if (resolved.context > most) {
    Fail(ErrorKind::kUsage,
         "a context of {} positions is more than this model has, {}: ask for a smaller one (-c)",
         options.context, most);
  }
  if (resolved.prompt_chunk > kMostPromptChunk) {
    Fail(ErrorKind::kUsage, "a prompt chunk has at most {} rows, not {}", kMostPromptChunk,
         resolved.prompt_chunk);
  }
  if (resolved.threads == 0) resolved.threads = UsableCores();
  if (resolved.sequences == 0) Fail(ErrorKind::kUsage, "an engine needs room for one sequence");
  if (!resolved.state_dir.empty() && (resolved.sessions || resolved.tentative_rows > 0)) {
    Fail(ErrorKind::kUsage, "states on disk go neither with sessions nor with guesses");
  }
  return resolved;
}

void CheckAvailable(const MemoryPlan& plan, const MemoryLimit& limit) {
  if (plan.total_bytes <= limit.available_bytes) return;
  Fail(ErrorKind::kBudget,
       "a budget of {} is more than this machine can give: the run would take {}, and there are {} "
       "({}). Give at most --memory {}M, or leave the flag out",
       FormatByteSize(plan.budget_bytes), FormatByteSize(plan.total_bytes),
       FormatByteSize(limit.available_bytes), limit.source, limit.available_bytes / 1000000);
}

StateLayout MakeStateLayout(const ModelConfig& config, const EngineOptions& options) {
  return StateLayout(config, options.context, CacheTypeOf(options.kv_cache),
                     StateTypeOf(options.state_type));
}

PlanRequest MakePlanRequest(const Checkpoint& checkpoint, const EngineOptions& options,
                            uint64_t resident_bytes) {
  const ModelConfig& config = checkpoint.config();
  const uint64_t budget =
      options.memory_bytes ? *options.memory_bytes : DefaultBudget(ReadMemoryLimit(resident_bytes));
  const uint64_t logit_bytes = options.all_prompt_logits ? config.vocabulary * sizeof(float) : 0;
  const size_t threads = options.threads;
  const size_t positions = options.context * options.sequences;
  const bool chosen = options.prompt_chunk != 0;
  const bool may_move = !options.state_dir.empty();
  return {.budget_bytes = budget,
          .process_bytes = resident_bytes + options.reserved_bytes,
          .context = options.context,
          .sequences = options.sequences,
          .sequence_bytes =
              SequenceState::Bytes(config, options.context, CacheTypeOf(options.kv_cache),
                                   options.tentative_rows, StateTypeOf(options.state_type)),
          .moved_sequence_bytes =
              may_move ? MakeStateLayout(config, options).memory_bytes() : uint64_t{0},
          .sequences_in_memory = options.sequences_in_memory,
          .chunk_rows = std::min(chosen ? options.prompt_chunk : kPromptChunk, positions),
          .most_chunk_rows = chosen ? 0 : std::min(kMostPayingPromptChunk, positions),
          .logit_rows = options.sequences * (1 + options.tentative_rows),
          .activation_bytes =
              [&config, threads, logit_bytes](size_t rows) {
                return Workspace::Bytes(config, rows, threads) + rows * logit_bytes +
                       threads * kernels::MatMulPanelBytes(rows);
              },
          .expert_cache_bytes = options.expert_cache_bytes,
          .session_bytes = options.sessions ? kSessionBufferBytes : 0,
          .drives = FindDrives(checkpoint)};
}

}  // namespace kimi_k3

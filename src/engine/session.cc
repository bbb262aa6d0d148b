// Sessions on disk: a sequence's tokens and state, to be gone on with later.
#include "kimi_k3/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <sstream>
#include <utility>

#include "base/byte_size.h"
#include "base/error.h"
#include "engine/cache_type.h"
#include "engine/engine_parts.h"
#include "engine/model_fingerprint.h"
#include "engine/session_file.h"

namespace kimi_k3 {
namespace {

// States and tokens are written as they lie in memory.
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(TokenId) == 4);

constexpr size_t kMostTokens = size_t{1} << 24;
constexpr size_t kPieceBytes = size_t{1} << 20;

SessionHeader HeaderOf(const Engine& engine, const Sequence& sequence, size_t note_bytes) {
  EngineAccess::EngineParts& parts = EngineAccess::Parts(engine);
  const ModelConfig& config = parts.checkpoint.config();
  if (!parts.fingerprint) parts.fingerprint = ModelFingerprint(parts.checkpoint);
  return {.model = fmt::format("{}, {} layers, {}", config.model_type, config.layers,
                               FormatByteSize(parts.checkpoint.tensor_bytes())),
          .part = engine.part(),
          .kv_cache = std::string(KvCacheName(parts.options.kv_cache)),
          .state_type = std::string(StateTypeName(parts.options.state_type)),
          .approximations = engine.approximations(),
          .fingerprint = *parts.fingerprint,
          .context = engine.context(),
          .tokens = sequence.tokens().size(),
          .note_bytes = note_bytes};
}

// Grows piece by piece, so that a wrong size costs no memory that the file does not fill.
template <typename Container>
Container ReadGrowing(SessionReader& reader, uint64_t count) {
  constexpr size_t kPiece = kPieceBytes / sizeof(typename Container::value_type);
  Container items;
  while (items.size() < count) {
    const size_t more = std::min<uint64_t>(kPiece, count - items.size());
    items.resize(items.size() + more);
    reader.Read(std::as_writable_bytes(std::span(items).last(more)));
  }
  return items;
}

// Of flags that give up exactness, those whose values are not fields of the header themselves.
std::string OtherApproximations(const std::string& flags) {
  std::istringstream words(flags);
  std::string others;
  for (std::string flag, value; words >> flag >> value;) {
    if (flag == "--kv-cache-quant" || flag == "--state-type") continue;
    others += fmt::format("{}{} {}", others.empty() ? "" : " ", flag, value);
  }
  return others;
}

// Every flag that a session was made with and this engine was not, and the other way round.
void CheckSameApproximations(const SessionHeader& saved, const SessionHeader& own,
                             const std::filesystem::path& path) {
  std::vector<std::string> advice;
  if (saved.kv_cache != own.kv_cache) {
    const std::string name = saved.kv_cache == "f32" ? "none" : saved.kv_cache;
    advice.push_back(fmt::format("--kv-cache-quant {}, as its latent cache is of type {}, not {}",
                                 name, saved.kv_cache, own.kv_cache));
  }
  if (saved.state_type != own.state_type) {
    advice.push_back(fmt::format("--state-type {}, as its recurrent state is of type {}, not {}",
                                 saved.state_type, saved.state_type, own.state_type));
  }
  const std::string then = OtherApproximations(saved.approximations);
  const std::string now = OtherApproximations(own.approximations);
  if (then != now) {
    advice.push_back(now.empty()    ? then
                     : then.empty() ? fmt::format("no {}", now)
                                    : fmt::format("{}, not {}", then, now));
  }
  if (advice.empty()) return;
  Fail(ErrorKind::kCheckpoint, "{}: this session goes on only as it was made: give {}",
       path.string(), fmt::join(advice, "; and "));
}

void CheckSameModel(const SessionHeader& saved, const SessionHeader& own,
                    const std::filesystem::path& path) {
  const auto name = [](const std::string& part) { return part.empty() ? "all of it" : part; };
  if (saved.part != own.part) {
    Fail(ErrorKind::kCheckpoint,
         "{}: this session was made with another part of its model ({}; now it is {}): give the "
         "same --shard",
         path.string(), name(saved.part), name(own.part));
  }
  CheckSameApproximations(saved, own, path);
  if (saved.fingerprint != own.fingerprint) {
    Fail(ErrorKind::kCheckpoint,
         "{}: this session belongs to another model ({}, fingerprint {}; this one is {}, {}): give "
         "that one with -m, or begin another session",
         path.string(), saved.model, saved.fingerprint, own.model, own.fingerprint);
  }
}

void Restore(const Engine& engine, EngineAccess::SequenceParts& to, SessionReader& reader,
             const std::filesystem::path& path) {
  const size_t positions = reader.header().tokens;
  to.tokens = ReadGrowing<std::vector<TokenId>>(reader, positions);
  for (const TokenId token : to.tokens) {
    if (token >= 0 && static_cast<size_t>(token) < engine.vocabulary()) continue;
    Fail(
        ErrorKind::kIo,
        "{}: this session is damaged: token {} is none of the model's; bring back a copy of it, or "
        "begin another one",
        path.string(), token);
  }
  for (const std::span<std::byte> stretch : to.state.Stretches(positions)) reader.Read(stretch);
  reader.ExpectEnd();
  to.state.Restore(positions);
}

}  // namespace

uint64_t SaveSession(const Engine& engine, const Sequence& sequence,
                     const std::filesystem::path& path, std::string_view note) {
  if (!sequence.intact()) {
    Fail(ErrorKind::kRun, "{}: not saved: the state was lost in a pass that failed", path.string());
  }
  if (note.size() > kMostSessionNoteBytes) {
    Fail(ErrorKind::kRun, "{}: not saved: its text is longer than {}", path.string(),
         FormatByteSize(kMostSessionNoteBytes));
  }
  EngineAccess::SequenceParts& from = EngineAccess::Parts(sequence);
  SessionWriter writer(path, HeaderOf(engine, sequence, note.size()));
  writer.Append(std::as_bytes(std::span(note)));
  writer.Append(std::as_bytes(sequence.tokens()));
  for (const std::span<std::byte> stretch : from.state.Stretches(from.state.positions())) {
    writer.Append(stretch);
  }
  writer.Commit();
  return writer.bytes();
}

SessionInfo ReadSessionInfo(const std::filesystem::path& path) {
  SessionReader reader(path);
  const SessionHeader& header = reader.header();
  if (header.tokens > kMostTokens) {
    Fail(ErrorKind::kIo,
         "{}: this session is damaged: it is said to have {} tokens, and at most {} can be; bring "
         "back "
         "a copy of it, or begin another one",
         path.string(), header.tokens, kMostTokens);
  }
  const std::optional<KvCacheType> kv_cache = KvCacheNamed(header.kv_cache);
  if (!kv_cache) {
    Fail(
        ErrorKind::kCheckpoint,
        "{}: this session has a latent cache of type {}, which this version does not know: use the "
        "version that wrote it",
        path.string(), header.kv_cache);
  }
  const std::optional<StateType> state_type = StateTypeNamed(header.state_type);
  if (!state_type) {
    Fail(ErrorKind::kCheckpoint,
         "{}: this session has a recurrent state of type {}, which this version does not know: use "
         "the version that wrote it",
         path.string(), header.state_type);
  }
  SessionInfo info = {.model = header.model,
                      .part = header.part,
                      .kv_cache = *kv_cache,
                      .state_type = *state_type,
                      .context = header.context,
                      .tokens = {},
                      .note = {}};
  info.note = ReadGrowing<std::string>(reader, header.note_bytes);
  info.tokens = ReadGrowing<std::vector<TokenId>>(reader, header.tokens);
  return info;
}

std::string LoadSession(const Engine& engine, Sequence& sequence,
                        const std::filesystem::path& path) {
  sequence.Reset();
  SessionReader reader(path);
  CheckSameModel(reader.header(), HeaderOf(engine, sequence, 0), path);
  if (reader.header().tokens > sequence.room()) {
    Fail(ErrorKind::kUsage,
         "{}: this session has {} tokens, but the context only {} positions: ask for more (-c {})",
         path.string(), reader.header().tokens, sequence.room(),
         std::max(reader.header().context, reader.header().tokens + 256));
  }
  std::string note = ReadGrowing<std::string>(reader, reader.header().note_bytes);
  try {
    Restore(engine, EngineAccess::Parts(sequence), reader, path);
  } catch (...) {
    sequence.Reset();
    throw;
  }
  return note;
}

}  // namespace kimi_k3

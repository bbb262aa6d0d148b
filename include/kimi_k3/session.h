// Sessions on disk: a sequence's tokens and state, to be gone on with later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kimi_k3/engine.h"
#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {

// What a session file says of itself.
struct SessionInfo {
  std::string model;  // kind and size of the model, for messages
  std::string part;   // of the model that was run; empty: all of it
  KvCacheType kv_cache = KvCacheType::kF32;
  StateType state_type = StateType::kF32;
  size_t context = 0;           // of the engine that saved it
  std::vector<TokenId> tokens;  // that the state has seen
  std::string note;             // the caller's own, at most kMostSessionNoteBytes
};

inline constexpr size_t kMostSessionNoteBytes = size_t{1} << 26;

// Memory that saving and loading take besides the note; a plan with EngineOptions::sessions keeps
// room for it.
inline constexpr uint64_t kSessionBufferBytes = uint64_t{8} << 20;

// Writes the sequence's tokens and state, and `note` as it is, to `path`: whole or not at all, in
// the place of what is there (docs/session_format.md). The state is written from where it lies.
// Returns the file's size in bytes. Throws Error: kRun where the sequence is not intact, kIo where
// the file cannot be written. One thread at a time for each engine, as with all calls that take it.
uint64_t SaveSession(const Engine& engine, const Sequence& sequence,
                     const std::filesystem::path& path, std::string_view note);

// Everything but the state; no model is needed. Throws Error: kIo where the file cannot be read or
// is damaged or cut off, kCheckpoint where it is no session of this version of the program.
SessionInfo ReadSessionInfo(const std::filesystem::path& path);

// Brings the sequence to the saved state, from which it goes on to the bit as if it had never been
// saved, and returns the note. Throws as ReadSessionInfo does; besides Error(kCheckpoint) where the
// file belongs to another model, part of a model or type of cache or state, and Error(kUsage)
// where it has more tokens than the sequence has positions. The sequence is empty after a failure.
std::string LoadSession(const Engine& engine, Sequence& sequence,
                        const std::filesystem::path& path);

}  // namespace kimi_k3

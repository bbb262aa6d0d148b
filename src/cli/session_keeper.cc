// Saves a text's session as it grows.
#include "cli/session_keeper.h"

#include <chrono>
#include <system_error>

#include "base/error.h"
#include "kimi_k3/session.h"

namespace kimi_k3 {
namespace {

std::filesystem::path WithoutLinks(const std::filesystem::path& path) {
  std::error_code failure;
  auto resolved = std::filesystem::weakly_canonical(path, failure);
  return failure ? path : resolved;
}

}  // namespace

SessionKeeper::SessionKeeper(const std::filesystem::path& path, size_t every)
    : path_(WithoutLinks(path)), lock_(path_), every_(every) {}

bool SessionKeeper::exists() const {
  std::error_code ignored;
  return std::filesystem::exists(path_, ignored);
}

void SessionKeeper::Save(const Engine& engine, const Sequence& sequence, const SessionNote& note) {
  const auto start = std::chrono::steady_clock::now();
  file_bytes_ =
      SaveSession(engine, sequence, path_, WriteSessionNote(note, sequence.tokens().size()));
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ++saves_;
  failure_.clear();
}

void SessionKeeper::TrySave(const Engine& engine, const Sequence& sequence, const SessionNote& note,
                            Output& output) {
  try {
    Save(engine, sequence, note);
  } catch (const Error& error) {
    if (failure_ != error.what()) {
      output.Note(fmt::format("the session was not saved: {}; the answer goes on", error.what()));
    }
    failure_ = error.what();
  }
}

bool SessionKeeper::CountToken() { return tokens_++ % every_ == 0; }

}  // namespace kimi_k3

// Makes a long session out of a short one without computing what lies between, by repeating its
// tokens and the rows of its latent caches: memory at lengths whose prompt would take hours.
//   long_session -m MODEL -c POSITIONS [engine flags] --from SHORT --to LONG
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/engine_flags.h"
#include "engine/engine_parts.h"
#include "kimi_k3/session.h"

namespace kimi_k3::bench {
namespace {

// Fills the rest of `whole` with what its first `done` bytes hold, over and over.
void Repeat(std::span<std::byte> whole, size_t done) {
  for (size_t i = done; i < whole.size(); i += done) {
    std::ranges::copy(whole.first(std::min(done, whole.size() - i)), whole.begin() + i);
  }
}

void Lengthen(EngineAccess::SequenceParts& sequence) {
  SequenceState& state = sequence.state;
  const size_t positions = state.max_positions();
  const auto done = state.Stretches(state.positions());
  const auto whole = state.Stretches(positions);
  for (size_t i = 0; i < whole.size(); ++i) {
    if (!done[i].empty()) Repeat(whole[i], done[i].size());  // a recurrent state is whole already
  }
  const size_t short_size = sequence.tokens.size();
  sequence.tokens.resize(positions);
  Repeat(std::as_writable_bytes(std::span(sequence.tokens)), short_size * sizeof(TokenId));
  state.Restore(positions);
}

int Main(int argc, char** argv) {
  CLI::App app("Makes a long session out of a short one");
  EngineOptions options;
  options.sessions = true;
  std::filesystem::path from;
  std::filesystem::path to;
  AddEngineFlags(app, options);
  app.add_option("--from", from, "The short session")->required();
  app.add_option("--to", to, "The long one")->required();
  CLI11_PARSE(app, argc, argv);
  const Engine engine = Engine::Open(options);
  Sequence sequence = engine.NewSequence();
  const std::string note = LoadSession(engine, sequence, from);
  Lengthen(EngineAccess::Parts(sequence));
  SaveSession(engine, sequence, to, note);
  return 0;
}

}  // namespace
}  // namespace kimi_k3::bench

int main(int argc, char** argv) {
  try {
    return kimi_k3::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "long_session: %s\n", error.what());
    return 1;
  }
}

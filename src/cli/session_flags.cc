// The flags of sessions on disk: shared by run and chat.
#include "cli/session_flags.h"

#include "cli/shared_flags.h"

namespace kimi_k3 {

void AddSessionFlags(FlagGroup& group, std::optional<std::filesystem::path>& file, size_t& every) {
  AddPathFlag(group, "--session", "FILE", file,
              "Keep text and state in FILE as they grow, and go on from there");
  group.Count("--session-every", "N", every,
              "Save every N tokens: at the most so many are lost. At full size that writes 365 MB "
              "or more, in some 2 s",
              1);
}

}  // namespace kimi_k3

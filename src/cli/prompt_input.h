// The text of a prompt from a file, a pipe or standard input.
#pragma once

#include <string>

namespace kimi_k3 {

// Everything that `file` holds, to its end; "-" is standard input, pipes are read too. Throws
// Error: kIo where it cannot be read (a folder, a missing file), kUsage where it is longer than any
// prompt, kInterrupted where the user asked to stop meanwhile.
std::string ReadPromptText(const std::string& file);

}  // namespace kimi_k3

// Whether a file that is wanted is in the folder already, from an earlier download or from
// elsewhere.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>

#include "base/function_ref.h"
#include "fetch/download_task.h"
#include "fetch/manifest.h"

namespace kimi_k3 {

// True where nothing of the file needs to be fetched: it is known to be good, or has the hash that
// it should have (then it is read, and remembered in the manifest, which is saved). A file of which
// more is wanted than was fetched goes back to being partial, so that a new DownloadTask takes it
// up. commit: what is being fetched. reading: called before a file is read. Throws Error(kIo), and
// kInterrupted once *stop is set.
bool IsPresent(const std::filesystem::path& folder, const DownloadTask& task,
               const std::string& commit, Manifest& manifest, const std::atomic<bool>& stop,
               FunctionRef<void()> reading);

}  // namespace kimi_k3

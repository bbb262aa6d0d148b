// File names that come from outside: which may be used, and where they lead.
#pragma once

#include <filesystem>
#include <string_view>

namespace kimi_k3 {

// Whether a name from a server or a list means a file inside a folder and nothing else: relative,
// its parts separated by single slashes, none of them empty, "." or "..", no backslash and no
// control characters, no part longer than 255 bytes, all of it at most 1024, valid UTF-8, and not
// in the program's own folder.
bool IsSafeName(std::string_view name);

// folder / name. Throws Error(kIo) that names the link where a part of the name below the folder is
// a symbolic link: what is written there could land outside; and where a part that must be a folder
// is something else, or the name itself a folder. REQUIRES: IsSafeName(name).
std::filesystem::path PlaceInFolder(const std::filesystem::path& folder, std::string_view name);

}  // namespace kimi_k3

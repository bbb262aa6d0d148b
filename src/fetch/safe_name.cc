// File names that come from outside: which may be used, and where they lead.
#include "fetch/safe_name.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "checkpoint/fetched_part.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestPart = 255;
constexpr size_t kLongestName = 1024;

// Well-formed UTF-8 as far as a file name needs it: every sequence complete and of legal bytes.
bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xc2 && lead < 0xe0 ? 2
                          : lead >= 0xe0 && lead < 0xf0 ? 3
                          : lead >= 0xf0 && lead < 0xf5 ? 4
                                                        : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (size_t j = 1; j < length; ++j) {
      if ((static_cast<unsigned char>(text[i + j]) & 0xc0U) != 0x80U) return false;
    }
    i += length;
  }
  return true;
}

bool IsSafePart(std::string_view part) {
  return !part.empty() && part != "." && part != ".." && part.size() <= kLongestPart &&
         std::ranges::none_of(part, [](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return byte < 0x20 || byte == 0x7f || c == '\\';
         });
}

}  // namespace

bool IsSafeName(std::string_view name) {
  if (name.size() > kLongestName || !IsUtf8(name)) return false;
  if (name.substr(0, name.find('/')) == kOwnFolder) return false;
  for (std::string_view rest = name;;) {
    const size_t slash = rest.find('/');
    if (!IsSafePart(rest.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    rest.remove_prefix(slash + 1);
  }
}

fs::path PlaceInFolder(const fs::path& folder, std::string_view name) {
  const fs::path whole = folder / name;
  fs::path place = folder;
  for (const fs::path& part : fs::path(name)) {
    place /= part;
    std::error_code error;
    const fs::file_status status = fs::symlink_status(place, error);
    if (fs::is_symlink(status)) {
      Fail(ErrorKind::kIo,
           "{}: is a symbolic link, and what is downloaded may not be written through one; remove "
           "it, or give the folder that it leads to with -o",
           place.string());
    }
    const bool file = place == whole && name != kOwnFolder;
    if (fs::exists(status) && (file ? !fs::is_regular_file(status) : !fs::is_directory(status))) {
      Fail(ErrorKind::kIo, "{}: is in the way of a {} of the download; move it away",
           place.string(), file ? "file" : "folder");
    }
  }
  return place;
}

}  // namespace kimi_k3

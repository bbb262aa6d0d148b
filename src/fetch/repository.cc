// A repository of a Hugging Face-compatible server: its commit, its files, their sizes and hashes.
#include "fetch/repository.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/file.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/strict_json.h"
#include "fetch/safe_name.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kPublicEndpoint = "https://huggingface.co";
constexpr uint64_t kLongestToken = 4096;
// These bound what a list can make the program hold.
constexpr uint64_t kMostFileBytes = uint64_t{1} << 42;
constexpr uint64_t kMostBytes = uint64_t{1} << 44;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string Trimmed(const std::string& text) {
  constexpr const char* kWhite = " \t\r\n";
  const size_t first = text.find_first_not_of(kWhite);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhite) - first + 1);
}

std::string FindToken() {
  if (std::string token = Trimmed(Environment("HF_TOKEN")); !token.empty()) return token;
  fs::path path = Environment("HF_TOKEN_PATH");
  if (path.empty()) {
    fs::path home = Environment("HF_HOME");
    if (home.empty() && !Environment("HOME").empty()) {
      home = fs::path(Environment("HOME")) / ".cache" / "huggingface";
    }
    if (home.empty()) return {};
    path = home / "token";
  }
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  return Trimmed(ReadWholeFile(path, kLongestToken));
}

bool IsRepositoryName(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == 0 || name.empty() || name.back() == '/' || name.size() > 200) return false;
  if (slash != std::string_view::npos && name.find('/', slash + 1) != std::string_view::npos) {
    return false;
  }
  return name.find("..") == std::string_view::npos && name.front() != '-' &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.' || c == '/';
         });
}

bool IsRevision(std::string_view text) {
  return !text.empty() && text.size() <= 250 &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

[[noreturn]] void Refuse(std::string_view source, const std::string& what) {
  Fail(ErrorKind::kRun, "{}: the server's list of files {}", source, what);
}

RemoteFile ParseSibling(const json& entry, std::string_view source) {
  RemoteFile file;
  const auto text = [](const json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  if (!entry.is_object()) Refuse(source, "has an entry that is no object");
  file.name = text(entry, "rfilename");
  if (!IsSafeName(file.name)) {
    Refuse(source, fmt::format("names \"{}\", which is no file inside the folder; nothing is "
                               "fetched from such a server",
                               Printable(file.name)));
  }
  const json lfs = entry.value("lfs", json());
  const json size =
      lfs.is_object() && lfs.contains("size") ? lfs["size"] : entry.value("size", json());
  if (!size.is_number_unsigned()) Refuse(source, "does not say how long " + file.name + " is");
  file.bytes = size.get<uint64_t>();
  if (file.bytes >= kMostFileBytes)
    Refuse(source, fmt::format("makes {} impossibly long", file.name));
  std::string sha256 = lfs.is_object() ? text(lfs, "sha256") : "";
  if (sha256.empty() && lfs.is_object()) sha256 = text(lfs, "oid");
  if (sha256.starts_with("sha256:")) sha256.erase(0, 7);
  const std::string blob = text(entry, "blobId");
  if (IsHexDigest(sha256, DigestKind::kSha256)) {
    file.hash = ExpectedHash{DigestKind::kSha256, sha256};
  } else if (lfs.is_null() && IsHexDigest(blob, DigestKind::kSha1)) {
    file.hash = ExpectedHash{DigestKind::kSha1, blob};
  }
  return file;
}

}  // namespace

RepositoryAddress ParseRepository(std::string_view text) {
  RepositoryAddress address;
  const size_t at = text.find('@');
  address.repository = text.substr(0, at);
  address.revision = at == std::string_view::npos ? "main" : std::string(text.substr(at + 1));
  if (!IsRepositoryName(address.repository) || !IsRevision(address.revision)) {
    Fail(ErrorKind::kUsage,
         "\"{}\" is not a repository: write OWNER/NAME, or OWNER/NAME@REVISION for a branch, tag "
         "or commit",
         Printable(text));
  }
  address.endpoint = Environment("HF_ENDPOINT");
  if (address.endpoint.empty()) address.endpoint = kPublicEndpoint;
  while (address.endpoint.ends_with('/')) address.endpoint.pop_back();
  if (OriginOf(address.endpoint).empty()) {
    Fail(ErrorKind::kUsage, "HF_ENDPOINT: \"{}\" is not an http or https address",
         Printable(address.endpoint));
  }
  address.token = FindToken();
  if (!std::ranges::all_of(address.token, [](char c) { return c > ' ' && c < 0x7f; })) {
    Fail(ErrorKind::kUsage,
         "the access token (HF_TOKEN or its file) holds characters that no "
         "token has");
  }
  return address;
}

RemoteListing ParseListing(std::string_view text, std::string_view source) {
  json root;
  try {
    root = ParseStrictJson(text, source);
  } catch (const Error& error) {
    Fail(ErrorKind::kRun, "{}: the server's answer is no list of files", error.what());
  }
  RemoteListing listing;
  const auto commit = root.find("sha");
  if (!root.is_object() || commit == root.end() || !commit->is_string() ||
      !IsRevision(commit->get<std::string>())) {
    Refuse(source, "names no commit");
  }
  listing.commit = commit->get<std::string>();
  const auto siblings = root.find("siblings");
  if (siblings == root.end() || !siblings->is_array() || siblings->empty()) {
    Refuse(source, "is empty");
  }
  std::set<std::string> seen;
  for (const json& entry : *siblings) {
    listing.files.push_back(ParseSibling(entry, source));
    if (!seen.insert(listing.files.back().name).second) {
      Refuse(source, "names " + listing.files.back().name + " twice");
    }
  }
  std::ranges::sort(listing.files, {}, &RemoteFile::name);
  uint64_t bytes = 0;
  for (const RemoteFile& file : listing.files) {
    bytes += file.bytes;  // of each less than kMostFileBytes, and their number is limited too
    for (size_t slash = file.name.find('/'); slash != std::string::npos;
         slash = file.name.find('/', slash + 1)) {
      const std::string folder = file.name.substr(0, slash);
      if (seen.contains(folder))
        Refuse(source, "has both the file " + folder + " and a folder of that name");
    }
  }
  if (bytes > kMostBytes)
    Refuse(source, "adds up to " + FormatByteSize(bytes) + ", which cannot be");
  return listing;
}

std::string ListingUrl(const RepositoryAddress& address) {
  return fmt::format("{}/api/models/{}/revision/{}?blobs=true", address.endpoint,
                     UrlEscape(address.repository, true), UrlEscape(address.revision, false));
}

std::string FileUrl(const RepositoryAddress& address, const std::string& commit,
                    const std::string& name) {
  return fmt::format("{}/{}/resolve/{}/{}", address.endpoint, UrlEscape(address.repository, true),
                     UrlEscape(commit, false), UrlEscape(name, true));
}

std::string DescribeStatus(const HttpReply& reply, const RepositoryAddress& address) {
  const std::string where = fmt::format("{} at {}", address.repository, OriginOf(address.endpoint));
  switch (reply.status) {
    case 401:
      return fmt::format("{}: the server wants {} (status 401)", where,
                         address.token.empty()
                             ? "an access token, or there is no such repository: set HF_TOKEN"
                             : "another access token than the one in HF_TOKEN or its file");
    case 403:
      return fmt::format(
          "{}: the server refuses (status 403): the repository may ask you to accept its terms on "
          "its page, or the token lacks the right to read it",
          where);
    case 404:
      return fmt::format("{}: there is no such repository, revision ({}) or file (status 404)",
                         where, Printable(address.revision));
    case 0:
      return fmt::format("{}: {}", where, reply.error.empty() ? "no answer" : reply.error);
    default:
      break;
  }
  return fmt::format("{}: the server answered with status {}{}", where, reply.status,
                     reply.error.empty() ? "" : ": " + reply.error);
}

bool MayWorkLater(const HttpReply& reply) {
  const long status = reply.status;
  if (reply.hopeless) return false;
  return status == 0 || status == 200 || status == 206 || status == 408 || status == 425 ||
         status == 429 || status >= 500;
}

}  // namespace kimi_k3

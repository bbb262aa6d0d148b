// What is remembered of a downloaded folder: where it came from, and the hash of every file.
#include "fetch/manifest.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/strict_json.h"
#include "checkpoint/untrusted_file.h"
#include "fetch/safe_name.h"

namespace kimi_k3 {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kFormat = "kimi_k3 manifest 1";
constexpr uint64_t kLongest = uint64_t{64} << 20;

constexpr std::string_view kRemedy =
    "remove it, then kimi_k3 pull or kimi_k3 verify --write-hashes makes it anew";

[[noreturn]] void Refuse(const fs::path& path, const std::string& what) {
  Fail(ErrorKind::kCheckpoint, "{}: {}; {}", path.string(), what, kRemedy);
}

std::string TextField(const json& object, const char* name, const fs::path& path) {
  const auto found = object.find(name);
  if (found == object.end()) return {};
  if (!found->is_string()) Refuse(path, fmt::format("\"{}\" is not a string", name));
  return found->get<std::string>();
}

ManifestFile ParseFile(const json& entry, const fs::path& path) {
  if (!entry.is_object()) Refuse(path, "an entry of \"files\" is not an object");
  ManifestFile file;
  file.name = TextField(entry, "name", path);
  file.sha256 = TextField(entry, "sha256", path);
  const auto bytes = entry.find("bytes");
  if (!IsSafeName(file.name)) Refuse(path, "an entry of \"files\" has no usable \"name\"");
  if (bytes == entry.end() || !bytes->is_number_unsigned()) {
    Refuse(path, fmt::format("{} has no size \"bytes\"", file.name));
  }
  file.bytes = bytes->get<uint64_t>();
  if (!file.sha256.empty() && !IsHexDigest(file.sha256, DigestKind::kSha256)) {
    Refuse(path, fmt::format("the hash of {} is no SHA-256", file.name));
  }
  return file;
}

bool ByName(const ManifestFile& file, std::string_view name) { return file.name < name; }

}  // namespace

std::optional<Manifest> Manifest::Load(const fs::path& folder) {
  const fs::path path = folder / kOwnFolder / kManifestName;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return std::nullopt;
  json root;
  try {
    root = ParseStrictJson(ReadTextFile(path, kLongest), path.string());
  } catch (const Error& problem) {
    if (problem.kind() != ErrorKind::kCheckpoint) throw;
    Fail(ErrorKind::kCheckpoint, "{}; {}", problem.what(), kRemedy);
  }
  if (!root.is_object() || TextField(root, "format", path) != kFormat) {
    Refuse(path, "is not a manifest of this program");
  }
  Manifest manifest;
  manifest.endpoint = TextField(root, "endpoint", path);
  manifest.repository = TextField(root, "repository", path);
  manifest.revision = TextField(root, "revision", path);
  manifest.commit = TextField(root, "commit", path);
  manifest.part = TextField(root, "part", path);
  const auto files = root.find("files");
  if (files == root.end() || !files->is_array()) Refuse(path, "has no list \"files\"");
  for (const json& entry : *files) manifest.Set(ParseFile(entry, path));
  return manifest;
}

void Manifest::Save(const fs::path& folder) const {
  std::error_code error;
  fs::create_directories(folder / kOwnFolder, error);
  if (error) {
    Fail(ErrorKind::kIo, "{}: cannot make the folder: {}", (folder / kOwnFolder).string(),
         error.message());
  }
  nlohmann::ordered_json root = {{"format", kFormat}};
  for (const auto& [name, value] : {std::pair("endpoint", &endpoint),
                                    {"repository", &repository},
                                    {"revision", &revision},
                                    {"commit", &commit},
                                    {"part", &part}}) {
    if (!value->empty()) root[name] = *value;
  }
  root["files"] = nlohmann::ordered_json::array();
  for (const ManifestFile& file : files) {
    nlohmann::ordered_json entry = {{"name", file.name}, {"bytes", file.bytes}};
    if (!file.sha256.empty()) entry["sha256"] = file.sha256;
    root["files"].push_back(std::move(entry));
  }
  AtomicFile file(folder / kOwnFolder / kManifestName);
  file.Append(root.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  file.Commit();
}

const ManifestFile* Manifest::Find(std::string_view name) const {
  const auto found = std::lower_bound(files.begin(), files.end(), name, ByName);
  return found != files.end() && found->name == name ? &*found : nullptr;
}

void Manifest::Set(ManifestFile file) {
  const auto found = std::lower_bound(files.begin(), files.end(), file.name, ByName);
  if (found != files.end() && found->name == file.name) {
    *found = std::move(file);
  } else {
    files.insert(found, std::move(file));
  }
}

std::map<std::string, ExpectedHash> ReadHashList(const fs::path& file) {
  std::istringstream text;
  try {
    text.str(ReadTextFile(file, kLongest));
  } catch (const Error& problem) {  // it is no part of the checkpoint
    Fail(problem.kind() == ErrorKind::kCheckpoint ? ErrorKind::kUsage : problem.kind(), "{}",
         problem.what());
  }
  std::map<std::string, ExpectedHash> hashes;
  std::string line;
  for (size_t number = 1; std::getline(text, line); ++number) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    constexpr size_t kHex = 64;
    std::string hex = line.substr(0, std::min(kHex, line.size()));
    std::ranges::transform(hex, hex.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool marked = line.size() > kHex + 2 && line[kHex] == ' ' &&
                        (line[kHex + 1] == ' ' || line[kHex + 1] == '*');
    std::string name = marked ? line.substr(kHex + 2) : "";
    if (name.starts_with("./")) name = name.substr(2);
    if (!IsHexDigest(hex, DigestKind::kSha256) || !IsSafeName(name)) {
      Fail(ErrorKind::kUsage,
           "{}: line {} is not of the form that sha256sum writes (64 hexadecimal digits, two "
           "spaces, a file name inside the folder): {}",
           file.string(), number, Printable(line, 100));
    }
    hashes[name] = {DigestKind::kSha256, hex};
  }
  if (hashes.empty()) Fail(ErrorKind::kUsage, "{}: holds no hash", file.string());
  return hashes;
}

std::map<std::string, ExpectedHash> ReadHubMetadata(const fs::path& folder) {
  constexpr std::string_view kSuffix = ".metadata";
  constexpr uint64_t kMost = 4096;
  std::map<std::string, ExpectedHash> hashes;
  const fs::path root = folder / ".cache" / "huggingface" / "download";
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end;
       it.increment(error)) {
    const std::string path = it->path().lexically_relative(root).string();
    if (!path.ends_with(kSuffix) || !it->is_regular_file(error)) continue;
    const std::string name = path.substr(0, path.size() - kSuffix.size());
    std::istringstream lines(ReadTextFile(it->path(), kMost));
    std::string commit, etag;
    std::getline(lines, commit);
    std::getline(lines, etag);
    for (const DigestKind kind : {DigestKind::kSha256, DigestKind::kSha1}) {
      if (IsHexDigest(etag, kind) && IsSafeName(name)) hashes[name] = {kind, etag};
    }
  }
  return hashes;
}

}  // namespace kimi_k3

// States of texts on disk: those that had to leave memory, and those of the run before.
#include "engine/state_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/abandoned_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fnv_hash.h"
#include "engine/engine_parts.h"
#include "engine/session_file.h"
#include "kimi_k3/session.h"

namespace kimi_k3 {
namespace {

constexpr std::string_view kPrefix = "text-";
constexpr std::string_view kSuffix = ".session";
constexpr size_t kHashDigits = 16;
// What earlier versions added to the names of damaged files.
constexpr std::string_view kRefused = ".refused";

bool IsMadeOf(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

// "text-0123456789abcdef-12.session", as NameFor makes them.
bool IsStateName(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  return name.size() > kHashDigits + 1 && name[kHashDigits] == '-' &&
         IsMadeOf(name.substr(0, kHashDigits), "0123456789abcdef") &&
         IsMadeOf(name.substr(kHashDigits + 1), "0123456789");
}

bool IsRegularFile(const std::filesystem::directory_entry& file) {
  std::error_code ignored;
  return file.symlink_status(ignored).type() == std::filesystem::file_type::regular;
}

bool IsDamagedOfOldVersion(std::string_view name) {
  if (!name.ends_with(kRefused)) return false;
  name.remove_suffix(kRefused.size());
  return IsStateName(name);
}

void RemoveFile(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

// Notes that it was used now. False where it is gone.
bool MarkUsed(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now(), error);
  return !error;
}

bool CanBeOpened(const std::filesystem::path& path) {
  try {
    return OpenForReading(path).valid();
  } catch (const Error&) {
    return false;
  }
}

// At the most: files are compressed.
uint64_t FileBytesOf(const Sequence& sequence) {
  EngineAccess::SequenceParts& parts = EngineAccess::Parts(sequence);
  uint64_t bytes = sequence.tokens().size_bytes();
  for (const auto& stretch : parts.state.Stretches(parts.state.positions())) {
    bytes += stretch.size();
  }
  return bytes;
}

void WriteState(const Engine& engine, const Sequence& sequence, const std::filesystem::path& path) {
  SaveSession(engine, sequence, path, "");
}

}  // namespace

// A hash, and only a name: the tokens themselves are compared.
std::string StateCache::NameFor(std::span<const TokenId> tokens) const {
  FnvHash hash;
  hash.Add(approximations_);
  hash.Add(std::as_bytes(tokens));
  return fmt::format("{}{:016x}-{}{}", kPrefix, hash.value(), tokens.size(), kSuffix);
}

StateCache::StateCache(std::filesystem::path folder, uint64_t most_bytes,
                       std::string approximations, Tell tell)
    : folder_(std::move(folder)),
      most_bytes_(most_bytes),
      approximations_(std::move(approximations)),
      tell_(tell ? std::move(tell) : [](const std::string&) {}),
      writer_(WriteState) {
  std::error_code error;
  if (std::filesystem::create_directories(folder_, error)) {
    // The texts of conversations are nobody else's business.
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
  }
  const std::filesystem::directory_iterator files(folder_, error);
  if (error) Fail(ErrorKind::kIo, "{}: cannot be used: {}", folder_.string(), error.message());
  RemoveLeftovers();
  FindStates();
  MakeRoom();
}

void StateCache::RemoveLeftovers() {
  std::vector<std::filesystem::path> useless;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(folder_, ignored)) {
    if (!IsRegularFile(file)) continue;
    const std::string name = file.path().filename().string();
    const std::optional<std::string> target = AbandonedTarget(file);
    if (IsDamagedOfOldVersion(name) || (target && IsStateName(*target))) {
      useless.push_back(file.path());
    }
  }
  for (const std::filesystem::path& path : useless) {
    RemoveFile(path);
    tell_(fmt::format("{}: removed: a state that is damaged or half-written", path.string()));
  }
}

void StateCache::FindStates() {
  for (const File& file : Files()) {
    try {
      if (SessionReader(file.path).header().approximations != approximations_) continue;
      entries_.push_back({.path = file.path, .tokens = ReadSessionInfo(file.path).tokens});
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kIo) {
        Discard(file.path, error.what());
      } else {  // what another version has left is good for that one
        tell_(fmt::format("a kept state is left aside: {}", error.what()));
      }
    } catch (const std::exception& error) {
      tell_(fmt::format("{}: cannot be used: {}", file.path.string(), error.what()));
    }
  }
}

// A damaged file. One that another server has removed meanwhile is no news, and one that cannot be
// opened may be whole.
void StateCache::Discard(const std::filesystem::path& path, const std::string& reason) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  const bool damaged = CanBeOpened(path);
  if (damaged) RemoveFile(path);
  tell_(fmt::format("a kept state is {}: {}",
                    damaged ? "removed and will be computed anew" : "left aside", reason));
}

// All states of the folder, the least recently used first.
std::vector<StateCache::File> StateCache::Files() const {
  std::vector<File> files;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder_, error)) {
    if (!IsStateName(file.path().filename().string()) || !IsRegularFile(file)) continue;
    const uint64_t bytes = file.file_size(error);
    const auto last_used = file.last_write_time(error);
    if (!error) files.push_back({.path = file.path(), .bytes = bytes, .last_used = last_used});
  }
  std::ranges::sort(files, {}, &File::last_used);
  return files;
}

uint64_t StateCache::bytes() const {
  uint64_t sum = 0;
  for (const File& file : Files()) sum += file.bytes;
  return sum;
}

std::vector<StateCache::Entry>::const_iterator StateCache::Find(
    std::span<const TokenId> prompt) const {
  auto best = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const std::vector<TokenId>& text = entry->tokens;
    if (text.empty() || text.size() >= prompt.size()) continue;
    if (best != entries_.end() && text.size() <= best->tokens.size()) continue;
    if (std::equal(text.begin(), text.end(), prompt.begin())) best = entry;
  }
  return best;
}

size_t StateCache::TokensFor(std::span<const TokenId> prompt) const {
  const auto entry = Find(prompt);
  return entry == entries_.end() ? 0 : entry->tokens.size();
}

bool StateCache::Load(const Engine& engine, Sequence& sequence, std::span<const TokenId> prompt) {
  const auto found = Find(prompt);
  if (found == entries_.end()) return false;
  const auto entry = entries_.begin() + (found - entries_.cbegin());
  try {
    LoadSession(engine, sequence, entry->path);
    const std::span<const TokenId> tokens = sequence.tokens();
    if (!std::ranges::equal(tokens, entry->tokens)) {
      Fail(ErrorKind::kIo, "{}: has changed since it was read", entry->path.string());
    }
    MarkUsed(entry->path);
    return true;
  } catch (const Error& error) {
    sequence.Reset();
    // What another model has left is good for that one.
    if (error.kind() == ErrorKind::kIo) Discard(entry->path, error.what());
    entries_.erase(entry);
    return false;
  }
}

bool StateCache::IsKept(std::span<const TokenId> tokens) {
  const auto same = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return std::ranges::equal(entry.tokens, tokens); });
  if (same == entries_.end()) return false;
  if (MarkUsed(same->path)) return true;
  entries_.erase(same);
  return false;
}

bool StateCache::Save(const Engine& engine, const Sequence& sequence) {
  const std::span<const TokenId> tokens = sequence.tokens();
  if (IsKept(tokens)) return true;
  const std::filesystem::path path = folder_ / NameFor(tokens);
  try {
    Write(engine, sequence, path);
  } catch (const std::exception& error) {
    TellWorking(false, error.what());
    return false;
  }
  TellWorking(true, "");
  std::erase_if(entries_, [&](const Entry& entry) { return entry.path == path; });
  entries_.push_back({.path = path, .tokens = {tokens.begin(), tokens.end()}});
  MarkUsed(path);
  MakeRoom();
  return true;
}

// Where making room did not help before, others take it: the states that are left may stay.
void StateCache::Write(const Engine& engine, const Sequence& sequence,
                       const std::filesystem::path& path) {
  uint64_t wanted = failing_ ? 0 : FileBytesOf(sequence);
  while (true) {
    try {
      writer_(engine, sequence, path);
      return;
    } catch (const NoSpaceError&) {
      const uint64_t removed = wanted == 0 ? 0 : RemoveOldest(1);
      if (removed == 0) throw;
      wanted -= std::min(wanted, removed);
    }
  }
}

// The least recently used, until so many bytes have gone; returns how many have.
uint64_t StateCache::RemoveOldest(uint64_t bytes) {
  uint64_t removed = 0;
  for (const File& file : Files()) {
    if (removed >= bytes) break;
    std::error_code error;
    if (!std::filesystem::remove(file.path, error)) continue;
    removed += file.bytes;
    std::erase_if(entries_, [&](const Entry& entry) { return entry.path == file.path; });
  }
  return removed;
}

void StateCache::MakeRoom() {
  const uint64_t present = bytes();
  if (present > most_bytes_) RemoveOldest(present - most_bytes_);
}

void StateCache::TellWorking(bool working, const std::string& reason) {
  if (working != failing_) return;
  failing_ = !working;
  tell_(working ? "states of conversations are kept again (--cache-dir)"
                : fmt::format("states of conversations are not kept for now (--cache-dir): {}",
                              reason));
}

}  // namespace kimi_k3

// States of texts on disk: those that had to leave memory, and those of the run before.
#include "engine/state_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/fnv_hash.h"
#include "engine/session_file.h"
#include "kimi_k3/session.h"

namespace kimi_k3 {
namespace {

constexpr const char* kPrefix = "text-";
constexpr const char* kSuffix = ".session";
constexpr const char* kRefused = ".refused";

bool IsOurs(const std::filesystem::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  std::error_code ignored;
  return name.starts_with(kPrefix) && name.ends_with(kSuffix) &&
         entry.symlink_status(ignored).type() == std::filesystem::file_type::regular;
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
                       std::string approximations)
    : folder_(std::move(folder)),
      most_bytes_(most_bytes),
      approximations_(std::move(approximations)) {
  std::error_code error;
  if (std::filesystem::create_directories(folder_, error)) {
    // The texts of conversations are nobody else's business.
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
  }
  std::vector<std::pair<std::filesystem::file_time_type, Entry>> found;
  std::filesystem::directory_iterator files(folder_, error);
  if (error) Fail(ErrorKind::kIo, "{}: cannot be used: {}", folder_.string(), error.message());
  for (const auto& file : files) {
    if (!IsOurs(file)) continue;
    try {
      if (SessionReader(file.path()).header().approximations != approximations_) continue;
      Entry entry = {.path = file.path(),
                     .tokens = ReadSessionInfo(file.path()).tokens,
                     .bytes = file.file_size(),
                     .last_used = 0};
      found.emplace_back(file.last_write_time(), std::move(entry));
    } catch (const std::exception&) {  // not one that can be used; it is not ours to remove
    }
  }
  std::ranges::sort(found, {}, [](const auto& file) { return file.first; });
  for (auto& [time, entry] : found) {
    entry.last_used = ++uses_;
    entries_.push_back(std::move(entry));
  }
}

uint64_t StateCache::bytes() const {
  uint64_t sum = 0;
  for (const Entry& entry : entries_) sum += entry.bytes;
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
    entry->last_used = ++uses_;
    return true;
  } catch (const Error& error) {
    sequence.Reset();
    // What another model has left is good for that one.
    std::error_code ignored;
    if (error.kind() == ErrorKind::kIo) {
      std::filesystem::rename(entry->path, entry->path.string() + kRefused, ignored);
    }
    entries_.erase(entry);
    return false;
  }
}

bool StateCache::Save(const Engine& engine, const Sequence& sequence) {
  const std::span<const TokenId> tokens = sequence.tokens();
  const auto same = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return std::ranges::equal(entry.tokens, tokens); });
  if (same != entries_.end()) {
    same->last_used = ++uses_;
    return true;
  }
  try {
    Entry entry = {.path = folder_ / NameFor(tokens),
                   .tokens = {tokens.begin(), tokens.end()},
                   .bytes = 0,
                   .last_used = ++uses_};
    entry.bytes = SaveSession(engine, sequence, entry.path, "");
    entries_.push_back(std::move(entry));
  } catch (const std::exception&) {
    return false;
  }
  MakeRoom();
  return true;
}

void StateCache::MakeRoom() {
  while (!entries_.empty() && bytes() > most_bytes_) {
    const auto oldest = std::ranges::min_element(entries_, {}, &Entry::last_used);
    std::error_code ignored;
    std::filesystem::remove(oldest->path, ignored);
    entries_.erase(oldest);
  }
}

}  // namespace kimi_k3

// Generated turns on disk, to be known again after more of them than memory holds, and by a later
// run.
#include "server/turn_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/abandoned_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fnv_hash.h"
#include "kimi_k3/chat_parser.h"

namespace kimi_k3::server {
namespace {

constexpr std::string_view kTurnPrefix = "turn-";
constexpr std::string_view kTurnSuffix = ".json";
constexpr size_t kDigits = 16;  // of a number of 64 bits
constexpr std::string_view kFirstWords = "kimi_k3 turn 1 ";
constexpr uint64_t kMostFileBytes = uint64_t{1} << 26;
constexpr uint64_t kMostTurnBytes = uint64_t{1} << 28;
constexpr uint64_t kTurnShare = 16;  // one part in so many
constexpr size_t kMostTurnFiles = 20000;

std::optional<uint64_t> HexNumber(std::string_view digits) {
  if (digits.size() != kDigits ||
      digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return std::nullopt;
  }
  return std::stoull(std::string(digits), nullptr, 16);
}

// "turn-KEY-HASH.json": what came before in 32 digits, and a hash of the turn.
std::string FileName(const TurnKey& before, std::string_view text) {
  FnvHash hash;
  hash.Add(text);
  return fmt::format("{}{:016x}{:016x}-{:016x}{}", kTurnPrefix, before[0], before[1], hash.value(),
                     kTurnSuffix);
}

std::optional<TurnKey> KeyIn(std::string_view name) {
  constexpr size_t kSize = kTurnPrefix.size() + 3 * kDigits + 1 + kTurnSuffix.size();
  if (name.size() != kSize || !name.starts_with(kTurnPrefix) || !name.ends_with(kTurnSuffix)) {
    return std::nullopt;
  }
  name.remove_prefix(kTurnPrefix.size());
  const auto first = HexNumber(name.substr(0, kDigits));
  const auto second = HexNumber(name.substr(kDigits, kDigits));
  const bool named = name[2 * kDigits] == '-' && HexNumber(name.substr(2 * kDigits + 1, kDigits));
  if (!first || !second || !named) return std::nullopt;
  return TurnKey{*first, *second};
}

// The file's text: a line with the checksum of what follows, and JSON.
std::string TextOf(const GeneratedTurn& turn) {
  nlohmann::json calls = nlohmann::json::array();
  for (const ToolCall& call : turn.tool_calls) {
    calls.push_back({{"name", call.name}, {"arguments", call.arguments}});
  }
  const nlohmann::json json = {{"reasoning", turn.reasoning},
                               {"content", turn.content},
                               {"tool_calls", calls},
                               {"ids", turn.ids},
                               {"start", static_cast<int>(turn.start)}};
  const std::string body = json.dump();
  FnvHash hash;
  hash.Add(body);
  return fmt::format("{}{:016x}\n{}", kFirstWords, hash.value(), body);
}

Channel ChannelNumbered(int number) {
  for (const Channel channel : {Channel::kNone, Channel::kThink, Channel::kResponse}) {
    if (static_cast<int>(channel) == number) return channel;
  }
  Fail(ErrorKind::kIo, "it begins in no channel");
}

// Throws Error(kIo) or an exception of JSON.
GeneratedTurn TurnIn(std::string_view text) {
  constexpr size_t kFirstLine = kFirstWords.size() + kDigits + 1;
  if (text.size() < kFirstLine || !text.starts_with(kFirstWords)) {
    Fail(ErrorKind::kIo, "its first line is none of a turn's");
  }
  const std::string_view body = text.substr(kFirstLine);
  FnvHash hash;
  hash.Add(body);
  if (HexNumber(text.substr(kFirstWords.size(), kDigits)) != hash.value()) {
    Fail(ErrorKind::kIo, "its checksum is wrong");
  }
  const nlohmann::json json = nlohmann::json::parse(body);
  GeneratedTurn turn;
  turn.reasoning = json.at("reasoning");
  turn.content = json.at("content");
  for (const nlohmann::json& call : json.at("tool_calls")) {
    turn.tool_calls.push_back(
        {.id = {}, .name = call.at("name"), .arguments = call.at("arguments")});
  }
  turn.ids = json.at("ids").get<std::vector<TokenId>>();
  turn.start = ChannelNumbered(json.at("start"));
  return turn;
}

// Whether the ids are one whole turn and say what the texts say: the prompt takes them as they are.
bool IsConsistent(const Tokenizer& tokenizer, const GeneratedTurn& turn) {
  try {
    if (ChatParser::CompleteTurn(tokenizer, turn.ids, turn.start) != turn.ids) return false;
    const ParsedTurn parsed = ParseTurn(tokenizer, turn.ids, turn.start);
    return parsed.reasoning == turn.reasoning && parsed.content == turn.content &&
           std::ranges::equal(parsed.tool_calls, turn.tool_calls,
                              [](const ToolCall& a, const ToolCall& b) {
                                return a.name == b.name && a.arguments == b.arguments;
                              });
  } catch (const Error&) {  // ids outside the vocabulary
    return false;
  }
}

}  // namespace

uint64_t TurnBytesOf(uint64_t cache_bytes) {
  return std::min(cache_bytes / kTurnShare, kMostTurnBytes);
}

TurnStore::TurnStore(std::filesystem::path folder, uint64_t most_bytes, const Tokenizer& tokenizer,
                     Tell tell)
    : folder_(std::move(folder)),
      most_bytes_(most_bytes),
      tokenizer_(tokenizer),
      tell_(tell ? std::move(tell) : [](const std::string&) {}) {
  std::error_code error;
  if (std::filesystem::create_directories(folder_, error)) {
    // The texts of conversations are nobody else's business.
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
  }
  const std::filesystem::directory_iterator files(folder_, error);
  if (error) Fail(ErrorKind::kIo, "{}: cannot be used: {}", folder_.string(), error.message());
  FindFiles();
  MakeRoom();
}

void TurnStore::FindFiles() {
  std::error_code error;
  std::vector<std::filesystem::path> useless;
  for (const auto& file : std::filesystem::directory_iterator(folder_, error)) {
    const std::optional<std::string> target = AbandonedTarget(file);
    if (target && KeyIn(*target)) useless.push_back(file.path());
    const std::optional<TurnKey> key = KeyIn(file.path().filename().string());
    if (!key || file.symlink_status(error).type() != std::filesystem::file_type::regular) continue;
    const uint64_t bytes = file.file_size(error);
    const auto last_used = file.last_write_time(error);
    if (!error) Add(*key, {.path = file.path(), .bytes = bytes, .last_used = last_used});
  }
  for (const std::filesystem::path& path : useless) std::filesystem::remove(path, error);
}

void TurnStore::Add(const TurnKey& before, File file) {
  bytes_ += file.bytes;
  files_.emplace(before, std::move(file));
}

void TurnStore::Remove(Files::iterator file) {
  std::error_code ignored;
  std::filesystem::remove(file->second.path, ignored);
  bytes_ -= file->second.bytes;
  files_.erase(file);
}

void TurnStore::MakeRoom() {
  while (!files_.empty() && (bytes_ > most_bytes_ || files_.size() > kMostTurnFiles)) {
    Remove(std::ranges::min_element(
        files_, {}, [](const Files::value_type& file) { return file.second.last_used; }));
  }
}

std::optional<GeneratedTurn> TurnStore::Find(const TurnKey& before, const Test& test) {
  const auto [first, last] = files_.equal_range(before);
  std::vector<Files::iterator> latest_first;
  for (auto file = first; file != last; ++file) latest_first.push_back(file);
  std::ranges::sort(latest_first, std::greater<>(),
                    [](const auto& file) { return file->second.last_used; });
  for (const auto& file : latest_first) {
    std::optional<GeneratedTurn> turn = Read(before, file->second);
    if (!turn) {
      Remove(file);
    } else if (test(*turn)) {
      File& used = file->second;
      std::error_code ignored;
      used.last_used = std::filesystem::file_time_type::clock::now();
      std::filesystem::last_write_time(used.path, used.last_used, ignored);
      return turn;
    }
  }
  return std::nullopt;
}

// Nothing where the file is of no use.
std::optional<GeneratedTurn> TurnStore::Read(const TurnKey& before, const File& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file.path, ignored)) return std::nullopt;  // another server's room
  try {
    const std::string text = ReadWholeFile(file.path, kMostFileBytes);
    if (FileName(before, text) != file.path.filename().string()) {
      Fail(ErrorKind::kIo, "it is not what its name says");
    }
    GeneratedTurn turn = TurnIn(text);
    if (IsConsistent(tokenizer_, turn)) return turn;
    Fail(ErrorKind::kIo, "its tokens are not its text, or those of another model");
  } catch (const std::exception& error) {
    tell_(fmt::format("{}: a kept turn is removed, as it cannot be used: {}", file.path.string(),
                      error.what()));
    return std::nullopt;
  }
}

void TurnStore::Save(const TurnKey& before, const GeneratedTurn& turn) {
  try {
    if (!IsConsistent(tokenizer_, turn)) return;  // could not be used
    const std::string text = TextOf(turn);
    const File file = {.path = folder_ / FileName(before, text),
                       .bytes = text.size(),
                       .last_used = std::filesystem::file_time_type::clock::now()};
    const auto [first, last] = files_.equal_range(before);
    if (text.size() > kMostFileBytes || std::any_of(first, last, [&](const auto& known) {
          return known.second.path == file.path;
        })) {
      return;
    }
    AtomicFile writer(file.path);
    writer.Append(text);
    writer.Commit();
    Add(before, file);
    TellWorking(true, "");
  } catch (const std::exception& error) {
    TellWorking(false, error.what());
  }
  MakeRoom();
}

void TurnStore::TellWorking(bool working, const std::string& reason) {
  if (working != failing_) return;
  failing_ = !working;
  tell_(working ? "generated turns are kept again (--cache-dir)"
                : fmt::format("generated turns are not kept for now (--cache-dir): {}", reason));
}

}  // namespace kimi_k3::server

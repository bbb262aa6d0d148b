// Reads the named special tokens of tokenizer_config.json; it comes from outside and is not
// trusted.
#include "text/tokenizer_config.h"

#include <array>
#include <charconv>
#include <set>
#include <system_error>

#include "base/error.h"
#include "kimi_k3/utf8.h"
#include "text/json_value.h"

namespace kimi_k3::text {
namespace {

constexpr std::string_view kField = "added_tokens_decoder";

TokenId ParseId(std::string_view text, const std::string& file_name) {
  TokenId id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  const bool plain = error == std::errc() && end == text.data() + text.size() && id >= 0 &&
                     (text.size() == 1 || text.front() != '0');
  if (!plain) {
    Fail(ErrorKind::kCheckpoint, "{}: {}: \"{}\" is not a token id", file_name, kField, text);
  }
  return id;
}

std::string ParseName(TokenId id, const JsonValue& entry, const std::string& file_name) {
  const JsonValue* content = entry.Find("content");
  if (content == nullptr || !content->is_string()) {
    Fail(ErrorKind::kCheckpoint, "{}: {}: the entry of id {} has no string `content`", file_name,
         kField, id);
  }
  const std::string& name = content->string();
  if (name.empty() || name.size() > kLongestSpecialNameBytes) {
    Fail(ErrorKind::kCheckpoint, "{}: {}: the name of id {} is {} bytes long; 1 to {} are accepted",
         file_name, kField, id, name.size(), kLongestSpecialNameBytes);
  }
  return name;
}

void RefuseOtherFamilies(const std::set<std::string_view>& names, const std::string& file_name) {
  constexpr std::array<std::string_view, 7> kK2Names = {"<|im_end|>",
                                                        "<|im_user|>",
                                                        "<|im_assistant|>",
                                                        "<|im_system|>",
                                                        "<|im_middle|>",
                                                        "<|tool_call_begin|>",
                                                        "<|tool_calls_section_begin|>"};
  for (const std::string_view name : kK2Names) {
    if (names.contains(name)) {
      Fail(ErrorKind::kCheckpoint,
           "{}: names the special token {}, so it belongs to Kimi K2 (or Kimi Linear), whose chat "
           "format differs; use the tokenizer_config.json of Kimi K3",
           file_name, name);
    }
  }
  constexpr std::array<std::string_view, 4> kControlNames = {"<|open|>", "<|close|>", "<|sep|>",
                                                             "<|end_of_msg|>"};
  for (const std::string_view name : kControlNames) {
    if (!names.contains(name)) {
      Fail(ErrorKind::kCheckpoint,
           "{}: names no special token {}, so it is not the tokenizer_config.json of Kimi K3",
           file_name, name);
    }
  }
}

}  // namespace

std::map<TokenId, std::string> ParseTokenizerConfig(std::string_view json,
                                                    const std::string& file_name) {
  const JsonParseResult parsed = ParseJson(json, JsonDuplicates::kRefused);
  if (!parsed.value) Fail(ErrorKind::kCheckpoint, "{}: {}", file_name, parsed.error);
  const JsonValue* entries = parsed.value->Find(kField);
  if (entries == nullptr || !entries->is_object()) {
    Fail(ErrorKind::kCheckpoint, "{}: has no object `{}` with the special tokens", file_name,
         kField);
  }
  std::map<TokenId, std::string> named;
  std::set<std::string_view> names;
  for (const JsonMember& member : entries->members()) {
    const TokenId id = ParseId(member.key, file_name);
    const auto entry = named.emplace(id, ParseName(id, member.value, file_name)).first;
    if (!names.insert(entry->second).second) {
      Fail(ErrorKind::kCheckpoint, "{}: {}: two ids have the name {}", file_name, kField,
           entry->second);
    }
  }
  RefuseOtherFamilies(names, file_name);
  return named;
}

}  // namespace kimi_k3::text

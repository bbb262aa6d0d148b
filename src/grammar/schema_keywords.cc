// Reading the keywords of JSON schemas.
#include "grammar/schema_keywords.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>

#include "text/json_text.h"

namespace kimi_k3::grammar {
namespace {

using text::JsonValue;

constexpr size_t kMostCount = 1'000'000;

constexpr std::string_view kSilent[] = {
    "title",      "description", "default",   "examples", "$schema",     "$id",          "$comment",
    "deprecated", "readOnly",    "writeOnly", "$defs",    "definitions", "discriminator"};
constexpr std::string_view kObjectWords[] = {"properties", "required", "additionalProperties"};
constexpr std::string_view kArrayWords[] = {"items", "prefixItems", "minItems", "maxItems",
                                            "uniqueItems"};
constexpr std::string_view kStringWords[] = {"minLength", "maxLength", "pattern", "format"};
constexpr std::string_view kNumberWords[] = {"minimum", "maximum", "exclusiveMinimum",
                                             "exclusiveMaximum"};
// What says everything by itself; only `type` may stand beside it.
constexpr std::string_view kWholeWords[] = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};
constexpr std::string_view kTypeNames[] = {"null",   "boolean", "integer", "number",
                                           "string", "array",   "object"};

bool Has(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

bool IsSilent(std::string_view word) { return Has(kSilent, word) || word.starts_with("x-"); }

Types TypeNamed(const JsonValue& name, const std::string& path) {
  if (name.is_string()) {
    const auto* const found = std::ranges::find(kTypeNames, name.string());
    if (found != std::end(kTypeNames)) return static_cast<Types>(1 << (found - kTypeNames));
  }
  RefuseSchema(path,
               "must be null, boolean, integer, number, string, array or object, or a list "
               "of them");
}

// A required property of an object and the only values that it may have.
using Tags = std::vector<std::pair<std::string, std::set<std::string>>>;

Tags TagsOf(const JsonValue& schema) {
  Tags tags;
  const JsonValue* properties = schema.Find("properties");
  const JsonValue* required = schema.Find("required");
  if (properties == nullptr || required == nullptr || !properties->is_object() ||
      !required->is_array()) {
    return tags;
  }
  for (const text::JsonMember& property : properties->members()) {
    const bool is_required = std::ranges::any_of(required->items(), [&](const JsonValue& name) {
      return name.is_string() && name.string() == property.key;
    });
    if (!is_required || !property.value.is_object()) continue;
    std::set<std::string> values;
    if (const JsonValue* only = property.value.Find("const")) {
      values.insert(WriteValue(*only));
    } else if (const JsonValue* some = property.value.Find("enum"); some && some->is_array()) {
      for (const JsonValue& value : some->items()) values.insert(WriteValue(value));
    }
    if (!values.empty()) tags.emplace_back(property.key, std::move(values));
  }
  return tags;
}

bool TagsDiffer(const Tags& a, const Tags& b) {
  for (const auto& [name, values] : a) {
    for (const auto& [other_name, others] : b) {
      const bool overlap = std::ranges::any_of(
          values, [&others = others](const std::string& value) { return others.contains(value); });
      if (name == other_name && !overlap) return true;
    }
  }
  return false;
}

}  // namespace

void CheckKeywords(const JsonValue& schema, const std::string& path) {
  std::string whole;
  for (const text::JsonMember& member : schema.members()) {
    if (Has(kWholeWords, member.key)) whole = member.key;
  }
  for (const text::JsonMember& member : schema.members()) {
    const std::string& word = member.key;
    if (IsSilent(word) || word == whole || (word == "type" && whole != "$ref")) continue;
    const bool known = Has(kObjectWords, word) || Has(kArrayWords, word) ||
                       Has(kStringWords, word) || Has(kNumberWords, word) ||
                       Has(kWholeWords, word) || word == "type";
    if (!known) RefuseSchema(fmt::format("{}.{}", path, word), "this keyword is not supported");
    if (!whole.empty()) {
      RefuseSchema(fmt::format("{}.{}", path, word),
                   "is not supported beside {}; put both into one", whole);
    }
  }
}

Types TypesOf(const JsonValue& schema, const std::string& path) {
  Types types = 0;
  if (const JsonValue* type = schema.Find("type")) {
    if (!type->is_array()) return TypeNamed(*type, path + ".type");
    for (const JsonValue& name : type->items()) types |= TypeNamed(name, path + ".type");
    return types;
  }
  for (const text::JsonMember& member : schema.members()) {
    if (Has(kObjectWords, member.key)) types |= kObjectType;
    if (Has(kArrayWords, member.key)) types |= kArrayType;
    if (Has(kStringWords, member.key)) types |= kStringType;
    if (Has(kNumberWords, member.key)) types |= kNumberType;
  }
  return types == 0 ? kAllTypes : types;
}

Types TypeOf(const JsonValue& value) {
  if (value.is_null()) return kNullType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_string()) return kStringType;
  if (value.is_array()) return kArrayType;
  if (value.is_object()) return kObjectType;
  const std::optional<Decimal> number = Decimal::Parse(value.number().text);
  return number && number->fraction.empty() ? kIntegerType : kNumberType;
}

std::optional<size_t> CountOf(const JsonValue& schema, const std::string& keyword,
                              const std::string& path) {
  const JsonValue* value = schema.Find(keyword);
  if (value == nullptr) return std::nullopt;
  const std::optional<Decimal> count =
      value->is_number() ? Decimal::Parse(value->number().text) : std::nullopt;
  if (!count || count->negative || !count->fraction.empty()) {
    RefuseSchema(path + "." + keyword, "must be a whole number, 0 or more");
  }
  return count->whole.size() > 7 ? kMostCount
                                 : std::min<size_t>(std::stoul(count->whole), kMostCount);
}

NumberRange RangeOf(const JsonValue& schema, const std::string& path, bool whole) {
  NumberRange range;
  range.whole = whole;
  for (const char* keyword : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
    const JsonValue* value = schema.Find(keyword);
    if (value == nullptr) continue;
    const std::string place = path + "." + keyword;
    if (!value->is_number()) RefuseSchema(place, "must be a number, not {}", value->TypeName());
    const std::optional<Decimal> number = Decimal::Parse(value->number().text);
    if (!number) RefuseSchema(place, "has more digits than are supported");
    const std::string_view word(keyword);
    std::optional<Bound>& bound = word.ends_with("inimum") ? range.least : range.most;
    if (bound) RefuseSchema(place, "is not supported beside the other bound on the same side");
    bound = Bound{*number, word.starts_with("exclusive")};
  }
  return range;
}

std::string_view PatternOfFormat(const std::string& format, const std::string& path) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kFormats = {{
      {"date",
       "^[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|"
       "(?:0[13578]|1[02])-31)$"},
      {"time",
       "^(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"
       "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$"},
      {"date-time",
       "^[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|"
       "(?:0[13578]|1[02])-31)T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"
       "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$"},
      {"duration",
       "^P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y)?[0-9]{1,9}M(?:[0-9]{1,9}D)?|[0-9]{1,9}[YD]|"
       "(?:[0-9]{1,9}D)?T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|"
       "[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))$"},
      {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
      {"email",
       "^[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,31})?@[A-Za-z0-9](?:[A-Za-z0-9-]{0,40}"
       "[A-Za-z0-9])?(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,40}[A-Za-z0-9])?){1,3}$"},
      {"hostname",
       "^[A-Za-z0-9](?:[A-Za-z0-9-]{0,40}[A-Za-z0-9])?"
       "(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,40}[A-Za-z0-9])?){0,4}$"},
      {"ipv4",
       "^(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}"
       "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])$"},
      {"ipv6", "^(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$"},
  }};
  const auto found =
      std::ranges::find(kFormats, format, [](const auto& pair) { return std::string(pair.first); });
  if (found != kFormats.end()) return found->second;
  RefuseSchema(path,
               "the format \"{}\" is not supported, only date, time, date-time, duration, "
               "uuid, email, hostname, ipv4 and ipv6",
               format.substr(0, 100));
}

void RefuseOverlap(const std::vector<const JsonValue*>& alternatives, const std::string& path) {
  std::vector<std::pair<Types, Tags>> told;
  for (const JsonValue* alternative : alternatives) {
    Types types = kAllTypes;
    Tags tags;
    if (alternative->is_object() && alternative->Find("anyOf") == nullptr) {
      types = TypesOf(*alternative, path);
      if ((types & kNumberType) != 0) types |= kIntegerType;
      tags = TagsOf(*alternative);
    }
    for (const auto& [other_types, other_tags] : told) {
      const Types common = types & other_types;
      if (common == 0 || (common == kObjectType && TagsDiffer(tags, other_tags))) continue;
      RefuseSchema(path,
                   "two of the alternatives may have a value in common, which is supported "
                   "only as anyOf");
    }
    told.emplace_back(types, std::move(tags));
  }
}

std::string WriteValue(const JsonValue& value) {
  if (value.is_number()) return value.number().text;
  std::string text;
  if (value.is_array()) {
    text = '[';
    for (const JsonValue& item : value.items()) {
      if (text.size() > 1) text += ',';
      text += WriteValue(item);
    }
    text += ']';
  } else if (value.is_object()) {
    text = '{';
    for (const text::JsonMember& member : value.members()) {
      if (text.size() > 1) text += ',';
      text::AppendJsonString(member.key, text);
      text += ':';
      text += WriteValue(member.value);
    }
    text += '}';
  } else {
    text = text::WriteJson(value, text::JsonSpacing::kCompact);
  }
  return text;
}

}  // namespace kimi_k3::grammar

// JSON schemas as grammar.
#include "grammar/schema_rules.h"

#include <algorithm>
#include <utility>

#include "grammar/number_range.h"
#include "grammar/pattern.h"
#include "grammar/schema_keywords.h"

namespace kimi_k3::grammar {
namespace {

using text::JsonValue;

constexpr size_t kMostProperties = 1000;
constexpr int kMostReferences = 100;

// A schema that everything satisfies.
const JsonValue& Everything() {
  static const JsonValue everything(true);
  return everything;
}

std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      return at < text.size() ? std::string_view("0123456789abcdef").find(text[at] | 0x20)
                              : std::string_view::npos;
    };
    if (text[i] == '%' && digit(i + 1) < 16 && digit(i + 2) < 16) {
      decoded += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

// A step of a JSON pointer.
std::string PointerKey(std::string_view step) {
  std::string key;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] == '~' && i + 1 < step.size() && (step[i + 1] == '0' || step[i + 1] == '1')) {
      key += step[++i] == '0' ? '~' : '/';
    } else {
      key += step[i];
    }
  }
  return key;
}

const JsonValue* Child(const JsonValue& value, const std::string& key) {
  if (value.is_object()) return value.Find(key);
  if (!value.is_array() || key.empty() || key.size() > 6 ||
      key.find_first_not_of("0123456789") != std::string::npos) {
    return nullptr;
  }
  const size_t index = std::stoul(key);
  return index < value.items().size() ? &value.items()[index] : nullptr;
}

const JsonValue::Array& ArrayOf(const JsonValue& value, const std::string& path) {
  if (!value.is_array() || value.items().empty()) RefuseSchema(path, "must be a list, not empty");
  return value.items();
}

}  // namespace

SchemaRules::SchemaRules(GrammarBuilder& builder, JsonForms& forms, const JsonValue& schema,
                         std::string path)
    : builder_(builder), forms_(forms), schema_(schema), path_(std::move(path)) {}

Rule SchemaRules::Whole(Types types, Quoting quoting) {
  return RuleFor(schema_, path_, types, quoting);
}

Rule SchemaRules::RuleFor(const JsonValue& part, const std::string& path, Types types,
                          Quoting quoting) {
  Part resolved = Resolve({&part, path});
  const auto [found, is_new] = rules_.try_emplace({resolved.schema, types, quoting}, 0);
  if (is_new) {
    found->second = builder_.NewRule();
    pending_.push_back({found->second, std::move(resolved), types, quoting});
  }
  return found->second;
}

void SchemaRules::Complete() {
  while (!pending_.empty()) {
    const Pending pending = std::move(pending_.back());
    pending_.pop_back();
    Make(pending);
  }
}

SchemaRules::Part SchemaRules::Resolve(Part part) const {
  for (int hops = 0;; ++hops) {
    if (part.schema->is_boolean()) return part;
    if (!part.schema->is_object()) {
      RefuseSchema(part.path, "must be a schema: an object, true or false");
    }
    CheckKeywords(*part.schema, part.path);
    const JsonValue* reference = part.schema->Find("$ref");
    if (reference == nullptr) return part;
    if (hops == kMostReferences) RefuseSchema(part.path + ".$ref", "leads back to itself");
    part = Target(*reference, part.path + ".$ref");
  }
}

SchemaRules::Part SchemaRules::Target(const JsonValue& reference, const std::string& path) const {
  if (!reference.is_string() || !reference.string().starts_with('#')) {
    RefuseSchema(path, "must be a string that begins with \"#\": other schemas are not looked up");
  }
  const std::string pointer = PercentDecoded(std::string_view(reference.string()).substr(1));
  if (!pointer.empty() && pointer[0] != '/') {
    RefuseSchema(path, "must be \"#\" or begin with \"#/\": names are not supported");
  }
  Part part = {&schema_, path_};
  for (size_t start = 1; start <= pointer.size();) {
    const size_t end = std::min(pointer.find('/', start), pointer.size());
    const std::string key = PointerKey(std::string_view(pointer).substr(start, end - start));
    part.schema = Child(*part.schema, key);
    if (part.schema == nullptr) {
      RefuseSchema(path, "there is no {} in the schema", reference.string().substr(0, 200));
    }
    part.path += "." + key;
    start = end + 1;
  }
  return part;
}

void SchemaRules::Make(const Pending& pending) {
  const JsonValue& schema = *pending.part.schema;
  if (schema.is_boolean()) {
    if (schema.boolean()) AddAny(pending.rule, pending.types, pending.quoting);
    return;
  }
  const std::string& path = pending.part.path;
  Types types = TypesOf(schema, path);
  // A number may be an integer: whoever asks for integers gets those, and the other way round.
  if ((types & kNumberType) != 0) types |= kIntegerType;
  types &= pending.types;
  Pending narrowed = pending;
  narrowed.types = types;
  if (const JsonValue* value = schema.Find("const")) {
    AddValues(narrowed, {*value});
  } else if (const JsonValue* values = schema.Find("enum")) {
    AddValues(narrowed, ArrayOf(*values, path + ".enum"));
  } else if (schema.Find("anyOf") != nullptr) {
    AddAlternatives(narrowed, "anyOf");
  } else if (schema.Find("oneOf") != nullptr) {
    AddAlternatives(narrowed, "oneOf");
  } else if (schema.Find("allOf") != nullptr) {
    AddAlternatives(narrowed, "allOf");
  } else {
    MakeTyped(narrowed, types);
  }
}

void SchemaRules::MakeTyped(const Pending& pending, Types types) {
  const auto is_plain = [&](std::initializer_list<const char*> keywords) {
    return std::ranges::none_of(keywords, [&](const char* keyword) {
      return pending.part.schema->Find(keyword) != nullptr;
    });
  };
  Types plain = types & (kNullType | kBooleanType);
  if ((types & kStringType) != 0) {
    if (is_plain({"minLength", "maxLength", "pattern", "format"})) {
      plain |= kStringType;
    } else {
      AddString(pending);
    }
  }
  if ((types & (kNumberType | kIntegerType)) != 0) {
    if (is_plain({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) {
      plain |= types & (kNumberType | kIntegerType);
    } else {
      AddNumber(pending, (types & kNumberType) == 0);
    }
  }
  if ((types & kArrayType) != 0) AddArray(pending.part, pending.rule);
  if ((types & kObjectType) != 0) AddObject(pending.part, pending.rule);
  AddAny(pending.rule, plain, pending.quoting);
}

void SchemaRules::AddAny(Rule rule, Types types, Quoting quoting) {
  const State start = GrammarBuilder::StartOf(rule);
  const State end = GrammarBuilder::EndOf(rule);
  if ((types & kNullType) != 0) builder_.AddText(start, "null", end);
  if ((types & kBooleanType) != 0) builder_.AddCall(start, forms_.Boolean(), end);
  if ((types & kNumberType) != 0) {
    builder_.AddCall(start, forms_.Number(), end);
  } else if ((types & kIntegerType) != 0) {
    builder_.AddCall(start, forms_.Integer(), end);
  }
  if ((types & kStringType) != 0) builder_.AddCall(start, forms_.String(quoting), end);
  if ((types & kArrayType) != 0) builder_.AddCall(start, forms_.Array(), end);
  if ((types & kObjectType) != 0) builder_.AddCall(start, forms_.Object(), end);
}

void SchemaRules::AddValues(const Pending& pending, const JsonValue::Array& values) {
  // Values that begin alike share their states: there may be thousands.
  std::map<std::pair<State, char>, State> next;
  for (const JsonValue& value : values) {
    const Types type = TypeOf(value);
    const bool fits = (type & pending.types) != 0;
    if (!fits) continue;
    const bool raw = value.is_string() && pending.quoting == Quoting::kRaw;
    const std::string text = raw ? value.string() : WriteValue(value);
    State state = GrammarBuilder::StartOf(pending.rule);
    for (const char c : text) {
      const auto [found, is_new] = next.try_emplace({state, c}, 0);
      if (is_new) {
        found->second = builder_.NewState();
        builder_.AddSymbol(state, static_cast<uint8_t>(c), found->second);
      }
      state = found->second;
    }
    builder_.AddEmpty(state, GrammarBuilder::EndOf(pending.rule));
  }
}

void SchemaRules::AddAlternatives(const Pending& pending, const char* keyword) {
  const std::string path = pending.part.path + "." + keyword;
  const JsonValue::Array& alternatives = ArrayOf(*pending.part.schema->Find(keyword), path);
  const std::string_view word(keyword);
  if (word == "allOf" && alternatives.size() > 1) {
    RefuseSchema(path, "is supported with one schema alone; put them into one");
  }
  std::vector<const JsonValue*> resolved;
  for (size_t i = 0; i < alternatives.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", path, i);
    resolved.push_back(Resolve({&alternatives[i], place}).schema);
    builder_.AddCall(GrammarBuilder::StartOf(pending.rule),
                     RuleFor(alternatives[i], place, pending.types, pending.quoting),
                     GrammarBuilder::EndOf(pending.rule));
  }
  if (word == "oneOf") RefuseOverlap(resolved, path);
}

void SchemaRules::AddString(const Pending& pending) {
  const JsonValue& schema = *pending.part.schema;
  const std::string& path = pending.part.path;
  State from = GrammarBuilder::StartOf(pending.rule);
  State to = GrammarBuilder::EndOf(pending.rule);
  if (pending.quoting == Quoting::kJson) {
    from = builder_.AddText(from, "\"");
    const State closing = builder_.NewState();
    builder_.AddSymbol(closing, '"', to);
    to = closing;
  }
  const JsonValue* pattern = schema.Find("pattern");
  const JsonValue* format = schema.Find("format");
  if (pattern == nullptr && format == nullptr) {
    AddLengths(pending, from, to);
    return;
  }
  const std::string place = path + (pattern != nullptr ? ".pattern" : ".format");
  if (pattern != nullptr && format != nullptr) {
    RefuseSchema(place, "is not supported beside format");
  }
  for (const char* length : {"minLength", "maxLength"}) {
    if (schema.Find(length) == nullptr) continue;
    RefuseSchema(path + "." + length,
                 "is not supported beside pattern and format; the pattern can "
                 "count");
  }
  const JsonValue& value = pattern != nullptr ? *pattern : *format;
  if (!value.is_string()) RefuseSchema(place, "must be a string, not {}", value.TypeName());
  try {
    AddPattern(builder_, from,
               pattern != nullptr ? std::string_view(value.string())
                                  : PatternOfFormat(value.string(), place),
               pending.quoting, to);
  } catch (const GrammarError& error) {
    RefuseSchema(place, "{}", error.what());
  }
}

void SchemaRules::AddLengths(const Pending& pending, State from, State to) {
  const JsonValue& schema = *pending.part.schema;
  const size_t least = CountOf(schema, "minLength", pending.part.path).value_or(0);
  const std::optional<size_t> most = CountOf(schema, "maxLength", pending.part.path);
  const Rule character = forms_.Character(pending.quoting);
  const auto add_one = [&] {
    const State next = builder_.NewState();
    builder_.AddCall(from, character, next);
    from = next;
  };
  for (size_t i = 0; i < least; ++i) add_one();
  for (size_t i = least; most && i < *most; ++i) {
    builder_.AddEmpty(from, to);
    add_one();
  }
  if (!most) builder_.AddCall(from, character, from);
  if (!most || least <= *most) builder_.AddEmpty(from, to);
}

void SchemaRules::AddNumber(const Pending& pending, bool whole) {
  AddNumbers(builder_, GrammarBuilder::StartOf(pending.rule),
             RangeOf(*pending.part.schema, pending.part.path, whole),
             GrammarBuilder::EndOf(pending.rule));
}

void SchemaRules::AddArray(const Part& part, Rule rule) {
  const JsonValue& schema = *part.schema;
  if (const JsonValue* unique = schema.Find("uniqueItems");
      unique != nullptr && !(unique->is_boolean() && !unique->boolean())) {
    RefuseSchema(part.path + ".uniqueItems", "is not supported");
  }
  static const JsonValue::Array kNoItems;
  const JsonValue* prefix = schema.Find("prefixItems");
  const JsonValue::Array& first =
      prefix == nullptr ? kNoItems : ArrayOf(*prefix, part.path + ".prefixItems");
  const JsonValue* items = schema.Find("items");
  const size_t least = CountOf(schema, "minItems", part.path).value_or(0);
  const std::optional<size_t> most = CountOf(schema, "maxItems", part.path);
  const auto rule_of = [&](size_t index) {
    if (index < first.size()) {
      return RuleFor(first[index], fmt::format("{}.prefixItems[{}]", part.path, index));
    }
    return items == nullptr ? RuleFor(Everything(), part.path)
                            : RuleFor(*items, part.path + ".items");
  };
  const State closing = builder_.NewState();
  builder_.AddSymbol(closing, ']', GrammarBuilder::EndOf(rule));
  State state = builder_.AddText(GrammarBuilder::StartOf(rule), "[");
  // With `count` items written; after the last one that differs from those before, in a circle.
  for (size_t count = 0;; ++count) {
    if (count >= least) builder_.AddCall(state, forms_.Gap(), closing);
    if (most && count >= *most) break;
    const State item = builder_.NewState();
    builder_.AddCall(count == 0 ? state : builder_.AddText(state, ","), forms_.Gap(), item);
    const bool is_last_kind = !most && count >= least && count >= first.size() && count > 0;
    const State next = is_last_kind ? state : builder_.NewState();
    builder_.AddCall(item, rule_of(count), next);
    if (is_last_kind) break;
    state = next;
  }
}

SchemaRules::ObjectForm SchemaRules::ReadObject(const Part& part) const {
  const JsonValue& schema = *part.schema;
  ObjectForm form;
  form.others_path = part.path + ".additionalProperties";
  const JsonValue* others = schema.Find("additionalProperties");
  const JsonValue* properties = schema.Find("properties");
  if (others != nullptr && !others->is_boolean() && !others->is_object()) {
    RefuseSchema(form.others_path, "must be a schema: an object, true or false");
  }
  if (others == nullptr && properties == nullptr) others = &Everything();
  if (others != nullptr && !(others->is_boolean() && !others->boolean())) form.others = others;
  if (properties != nullptr) {
    const std::string path = part.path + ".properties";
    if (!properties->is_object()) RefuseSchema(path, "must be an object");
    for (const text::JsonMember& property : properties->members()) {
      form.properties.push_back({property.key, &property.value, path + "." + property.key, false});
    }
  }
  const JsonValue* required = schema.Find("required");
  const std::string path = part.path + ".required";
  if (required != nullptr && !required->is_array()) RefuseSchema(path, "must be a list of names");
  const size_t count = required == nullptr ? 0 : required->items().size();
  for (size_t i = 0; i < count; ++i) {
    const JsonValue& name = required->items()[i];
    if (!name.is_string()) RefuseSchema(path, "must be a list of names");
    const auto found = std::ranges::find(form.properties, name.string(), &Property::name);
    if (found != form.properties.end()) {
      found->required = true;
    } else if (form.others != nullptr) {
      form.properties.push_back({name.string(), form.others, form.others_path, true});
    } else {
      RefuseSchema(path, "names \"{}\", which is none of the properties",
                   name.string().substr(0, 100));
    }
    if (form.properties.size() > kMostProperties) break;
  }
  if (form.properties.size() > kMostProperties) {
    RefuseSchema(part.path, "has more than {} properties", kMostProperties);
  }
  return form;
}

void SchemaRules::AddObject(const Part& part, Rule rule) {
  const ObjectForm form = ReadObject(part);
  const size_t count = form.properties.size();
  const State closing = builder_.NewState();
  builder_.AddSymbol(closing, '}', GrammarBuilder::EndOf(rule));
  // keys[i]: the key of property i or, as far as they may be left out, of a later one comes now.
  // done[i]: a property was written, and those before i have been or were left out.
  std::vector<State> keys;
  std::vector<State> done;
  for (size_t i = 0; i <= count; ++i) {
    keys.push_back(builder_.NewState());
    done.push_back(builder_.NewState());
    builder_.AddCall(builder_.AddText(done[i], ","), forms_.Gap(), keys[i]);
  }
  const auto add_value = [&](State colon, const JsonValue& schema, const std::string& path,
                             State next) {
    const State value = builder_.NewState();
    builder_.AddCall(builder_.AddText(colon, ":"), forms_.Gap(), value);
    builder_.AddCall(value, RuleFor(schema, path), next);
  };
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    const Property& property = form.properties[i];
    names.push_back(property.name);
    const std::string key = WriteCharacters(property.name, Quoting::kJson);
    const State colon = builder_.NewState();
    builder_.AddText(builder_.AddText(builder_.AddText(keys[i], "\""), key), "\"", colon);
    add_value(colon, *property.schema, property.path, done[i + 1]);
    if (!property.required) builder_.AddEmpty(keys[i], keys[i + 1]);
  }
  if (form.others != nullptr) {
    const State colon = builder_.NewState();
    builder_.AddCall(keys[count], forms_.OtherString(names), colon);
    add_value(colon, *form.others, form.others_path, done[count]);
  }
  const State opened = builder_.AddText(GrammarBuilder::StartOf(rule), "{");
  builder_.AddCall(opened, forms_.Gap(), keys[0]);
  size_t first_to_end = count;  // from here on all properties may be left out
  while (first_to_end > 0 && !form.properties[first_to_end - 1].required) --first_to_end;
  for (size_t i = first_to_end; i <= count; ++i) builder_.AddCall(done[i], forms_.Gap(), closing);
  if (first_to_end == 0) builder_.AddCall(opened, forms_.Gap(), closing);
}

std::vector<Property> SchemaRules::ClosedProperties() {
  const Part part = Resolve({&schema_, path_});
  const bool is_object =
      part.schema->is_object() && TypesOf(*part.schema, part.path) == kObjectType;
  if (!is_object) RefuseSchema(part.path, "must be the schema of an object");
  for (const char* keyword : {"enum", "const", "anyOf", "oneOf", "allOf"}) {
    if (part.schema->Find(keyword) == nullptr) continue;
    RefuseSchema(part.path + "." + keyword, "is not supported here, only inside of a property");
  }
  ObjectForm form = ReadObject(part);
  if (form.others != nullptr && part.schema->Find("additionalProperties") != nullptr) {
    RefuseSchema(form.others_path, "must be false");
  }
  return std::move(form.properties);
}

}  // namespace kimi_k3::grammar

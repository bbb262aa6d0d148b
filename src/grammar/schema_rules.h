// JSON schemas as grammar.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/json_forms.h"
#include "text/json_value.h"

namespace kimi_k3::grammar {

// Sets of JSON's types.
using Types = uint8_t;
inline constexpr Types kNullType = 1;
inline constexpr Types kBooleanType = 2;
inline constexpr Types kIntegerType = 4;
inline constexpr Types kNumberType = 8;  // integers among them
inline constexpr Types kStringType = 16;
inline constexpr Types kArrayType = 32;
inline constexpr Types kObjectType = 64;
inline constexpr Types kAllTypes = 127;

// A property of an object, as a schema declares it.
struct Property {
  std::string name;
  const text::JsonValue* schema = nullptr;
  std::string path;
  bool required = false;
};

// Makes rules from the parts of one schema (docs/server.md tells which keywords). Everything that
// a rule allows satisfies the schema; of what does, some is never written: properties come in the
// order of the schema, those that it does not name only where additionalProperties asks for them,
// and strings of `enum` in one writing. Functions throw Error(kUsage) that names the keyword by
// its path.
class SchemaRules {
 public:
  // The builder, the forms and the schema must outlive this. path: what messages call the schema.
  SchemaRules(GrammarBuilder& builder, JsonForms& forms, const text::JsonValue& schema,
              std::string path);

  // The rule of the whole schema; values of other types are left out.
  Rule Whole(Types types = kAllTypes, Quoting quoting = Quoting::kJson);
  // The rule of a part of it.
  Rule RuleFor(const text::JsonValue& part, const std::string& path, Types types = kAllTypes,
               Quoting quoting = Quoting::kJson);
  // Makes what the rules given out so far consist of.
  void Complete();

  // The properties of the schema, which must be one of an object that allows no others.
  std::vector<Property> ClosedProperties();

 private:
  struct Part {
    const text::JsonValue* schema = nullptr;
    std::string path;
  };
  struct Pending {
    Rule rule = 0;
    Part part;
    Types types = kAllTypes;
    Quoting quoting = Quoting::kJson;
  };
  struct ObjectForm {
    std::vector<Property> properties;
    const text::JsonValue* others = nullptr;  // schema of those that are not named; null: none
    std::string others_path;
  };

  Part Resolve(Part part) const;
  Part Target(const text::JsonValue& reference, const std::string& path) const;
  void Make(const Pending& pending);
  void MakeTyped(const Pending& pending, Types types);
  void AddAny(Rule rule, Types types, Quoting quoting);
  void AddValues(const Pending& pending, const text::JsonValue::Array& values);
  void AddAlternatives(const Pending& pending, const char* keyword);
  void AddString(const Pending& pending);
  void AddLengths(const Pending& pending, State from, State to);
  void AddNumber(const Pending& pending, bool whole);
  void AddArray(const Part& part, Rule rule);
  void AddObject(const Part& part, Rule rule);
  ObjectForm ReadObject(const Part& part) const;

  GrammarBuilder& builder_;
  JsonForms& forms_;
  const text::JsonValue& schema_;
  const std::string path_;
  std::map<std::tuple<const text::JsonValue*, Types, Quoting>, Rule> rules_;
  std::vector<Pending> pending_;
};

}  // namespace kimi_k3::grammar

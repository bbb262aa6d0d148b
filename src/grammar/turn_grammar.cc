// What a turn of the assistant must look like, as grammar.
#include "grammar/turn_grammar.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "base/error.h"
#include "grammar/json_forms.h"
#include "grammar/schema_keywords.h"
#include "grammar/schema_rules.h"

namespace kimi_k3::grammar {
namespace {

using text::JsonValue;

constexpr const char* kSchemaName = "response_format.json_schema.schema";

// The types of arguments as tags name them.
constexpr std::array<std::pair<const char*, Types>, 6> kArgumentTypes = {
    {{"string", kStringType},
     {"number", kNumberType | kIntegerType},
     {"boolean", kBooleanType},
     {"null", kNullType},
     {"object", kObjectType},
     {"array", kArrayType}}};

// A function that may be called.
struct Function {
  std::string name;
  const JsonValue* parameters = nullptr;  // their schema, where it is strict and has one
  bool strict = false;
  std::string path;  // of the parameters
};

JsonValue Parsed(const std::string& json, const char* name) {
  text::JsonParseResult parsed = text::ParseJson(json);
  if (!parsed.value) Fail(ErrorKind::kUsage, "{}: is {}", name, parsed.error);
  return std::move(*parsed.value);
}

const JsonValue* FindSet(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

// The functions of a list of tools, which outlives them. What is no function is passed over.
void ReadFunctions(const JsonValue& tools, const std::string& path,
                   std::vector<Function>& functions) {
  if (!tools.is_array()) return;
  for (size_t i = 0; i < tools.items().size(); ++i) {
    const JsonValue* function = FindSet(tools.items()[i], "function");
    const JsonValue* name = function == nullptr ? nullptr : FindSet(*function, "name");
    if (name == nullptr || !name->is_string()) continue;
    const JsonValue* strict = FindSet(*function, "strict");
    const std::string place = fmt::format("{}[{}].function", path, i);
    if (strict != nullptr && !strict->is_boolean()) {
      Fail(ErrorKind::kUsage, "{}.strict: must be true or false", place);
    }
    functions.push_back({.name = name->string(),
                         .parameters = FindSet(*function, "parameters"),
                         .strict = strict != nullptr && strict->boolean(),
                         .path = place + ".parameters"});
  }
}

// Every declared function; `lists` keeps what they point to.
std::vector<Function> FunctionsOf(const ChatRequest& request, std::deque<JsonValue>& lists) {
  std::vector<Function> functions;
  if (!request.tools.empty()) {
    ReadFunctions(lists.emplace_back(Parsed(request.tools, "tools")), "tools", functions);
  }
  for (size_t i = 0; i < request.messages.size(); ++i) {
    const std::string& tools = request.messages[i].tools;
    const std::string path = fmt::format("messages[{}].tools", i);
    if (!tools.empty()) {
      ReadFunctions(lists.emplace_back(Parsed(tools, path.c_str())), path, functions);
    }
  }
  return functions;
}

std::string AttributeText(std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Throws what the grammar says of itself as a message about `name`.
template <typename Make>
Grammar Named(const std::string& name, const Make& make) {
  try {
    return make();
  } catch (const GrammarError& error) {
    Fail(ErrorKind::kUsage, "{}: {}", name, error.what());
  }
}

class TurnBuilder {
 public:
  TurnBuilder(const ChatRequest& request, Channel start)
      : request_(request), start_(start), forms_(builder_) {}

  Grammar Build() {
    const Rule turn = builder_.NewRule();
    end_ = GrammarBuilder::EndOf(turn);
    const State between = builder_.NewState();
    const State response = builder_.NewState();
    AddThinking(GrammarBuilder::StartOf(turn), between, response);
    ReadTools();
    const State tools = builder_.NewState();
    AddTag(between, kOpen, "response", response);
    AddResponse(response, tools);
    if (!functions_.empty()) {
      AddTools(tools);
      AddTag(between, kOpen, "tools", tools);
    }
    for (SchemaRules& rules : schemas_) rules.Complete();
    return builder_.Finish(turn);
  }

 private:
  void AddTag(State from, Symbol marker, std::string_view text, State to) {
    const State marked = builder_.NewState();
    builder_.AddSymbol(from, marker, marked);
    builder_.AddSymbol(builder_.AddText(marked, text), kSep, to);
  }

  // Where the turn begins, and its reasoning.
  void AddThinking(State start, State between, State response) {
    if (start_ == Channel::kThink) {
      builder_.AddRange(start, 0, 255, start);
      AddTag(start, kClose, "think", between);
    } else {
      builder_.AddEmpty(start, start_ == Channel::kResponse ? response : between);
    }
  }

  void ReadTools() {
    if (request_.tool_choice == ToolChoice::kNone) return;
    functions_ = FunctionsOf(request_, tool_lists_);
    if (request_.tool_name.empty()) return;
    std::erase_if(functions_,
                  [&](const Function& function) { return function.name != request_.tool_name; });
    if (functions_.empty()) {
      Fail(ErrorKind::kUsage, "tool_choice: there is no function \"{}\" among the tools",
           request_.tool_name);
    }
  }

  bool CallRequired() const { return request_.tool_choice == ToolChoice::kRequired; }

  // The channel of the answer: any text, or JSON. With tools a call may come in place of the JSON.
  void AddResponse(State response, State tools) {
    const State closed = builder_.NewState();
    if (request_.response_format == ResponseFormat::kText || CallRequired()) {
      builder_.AddRange(response, 0, 255, response);
      builder_.AddSymbol(response, kClose, closed);
    } else {
      const State whole = builder_.NewState();
      builder_.AddCall(response, JsonRule(), whole);
      builder_.AddSymbol(whole, kClose, end_);
      builder_.AddSymbol(response, kClose, closed);
    }
    if (functions_.empty()) {
      if (request_.response_format == ResponseFormat::kText) builder_.AddEmpty(closed, end_);
      return;
    }
    const State after = builder_.NewState();
    builder_.AddSymbol(builder_.AddText(closed, "response"), kSep, after);
    AddTag(after, kOpen, "tools", tools);
    const bool may_end = request_.response_format == ResponseFormat::kText && !CallRequired();
    if (may_end) builder_.AddSymbol(after, kClose, end_);
  }

  Rule JsonRule() {
    if (request_.response_format == ResponseFormat::kJsonObject) return forms_.Object();
    schema_ = Parsed(request_.json_schema, kSchemaName);
    return schemas_.emplace_back(builder_, forms_, schema_, kSchemaName).Whole();
  }

  // One call or more.
  void AddTools(State tools) {
    const State called = builder_.NewState();
    const State opened = builder_.NewState();
    for (const State from : {tools, called}) builder_.AddSymbol(from, kOpen, opened);
    builder_.AddSymbol(called, kClose, end_);
    const State name = builder_.AddText(opened, "call tool=\"");
    for (const Function& function : functions_) {
      const State index = builder_.AddText(name, AttributeText(function.name) + "\" index=\"");
      const Rule arguments = builder_.NewRule();
      const State done = builder_.NewState();
      builder_.AddCall(AddIndex(index), arguments, done);
      AddTag(done, kClose, "call", called);
      if (function.strict) {
        AddArguments(arguments, function);
      } else {
        AddFreeArguments(arguments);
      }
    }
  }

  // The number of a call, and the end of its tag.
  State AddIndex(State from) {
    const State quote = builder_.NewState();
    State digits = builder_.NewState();
    builder_.AddRange(from, '1', '9', digits);
    for (int i = 0; i < 3; ++i) {
      builder_.AddEmpty(digits, quote);
      const State next = builder_.NewState();
      builder_.AddRange(digits, '0', '9', next);
      digits = next;
    }
    builder_.AddEmpty(digits, quote);
    const State begun = builder_.NewState();
    builder_.AddSymbol(builder_.AddText(quote, "\""), kSep, begun);
    return begun;
  }

  void AddArguments(Rule rule, const Function& function) {
    State state = GrammarBuilder::StartOf(rule);
    if (function.parameters != nullptr) {
      SchemaRules& rules =
          schemas_.emplace_back(builder_, forms_, *function.parameters, function.path);
      for (const Property& property : rules.ClosedProperties()) {
        const State next = builder_.NewState();
        const State type = AddKey(state, AttributeText(property.name));
        for (const auto& [word, types] : kArgumentTypes) {
          const State value = AddType(type, word);
          const State done = builder_.NewState();
          builder_.AddCall(
              value, rules.RuleFor(*property.schema, property.path, types, Quoting::kRaw), done);
          AddTag(done, kClose, "argument", next);
        }
        if (!property.required) builder_.AddEmpty(state, next);
        state = next;
      }
    }
    builder_.AddEmpty(state, GrammarBuilder::EndOf(rule));
  }

  void AddFreeArguments(Rule rule) {
    const State state = builder_.NewState();
    builder_.AddEmpty(GrammarBuilder::StartOf(rule), state);
    builder_.AddEmpty(state, GrammarBuilder::EndOf(rule));
    const State opened = builder_.AddText(AddSymbol(state, kOpen), "argument key=\"");
    const State key = builder_.NewState();
    const CodeRange no_quote[] = {{0, '"' - 1}, {'"' + 1, kMostCode}};
    AddCharacter(builder_, opened, no_quote, Quoting::kRaw, key);
    AddCharacter(builder_, key, no_quote, Quoting::kRaw, key);
    const State type = builder_.AddText(key, "\" type=\"");
    const State done = builder_.NewState();
    AddTag(done, kClose, "argument", state);
    for (const auto& [word, types] : kArgumentTypes) {
      builder_.AddCall(AddType(type, word), FreeValue(types), done);
    }
  }

  Rule FreeValue(Types types) {
    switch (types) {
      case kStringType:
        return forms_.String(Quoting::kRaw);
      case kBooleanType:
        return forms_.Boolean();
      case kObjectType:
        return forms_.Object();
      case kArrayType:
        return forms_.Array();
      case kNullType: {
        const Rule null = builder_.NewRule();
        builder_.AddText(GrammarBuilder::StartOf(null), "null", GrammarBuilder::EndOf(null));
        return null;
      }
      default:
        return forms_.Number();
    }
  }

  State AddSymbol(State from, Symbol symbol) {
    const State next = builder_.NewState();
    builder_.AddSymbol(from, symbol, next);
    return next;
  }

  // The beginning of an argument, to where its type stands.
  State AddKey(State from, const std::string& key) {
    return builder_.AddText(AddSymbol(from, kOpen), "argument key=\"" + key + "\" type=\"");
  }

  State AddType(State from, std::string_view type) {
    return AddSymbol(builder_.AddText(from, std::string(type) + "\""), kSep);
  }

  const ChatRequest& request_;
  const Channel start_;
  GrammarBuilder builder_;
  JsonForms forms_;
  State end_ = 0;
  JsonValue schema_;
  std::deque<JsonValue> tool_lists_;
  std::vector<Function> functions_;
  std::deque<SchemaRules> schemas_;
};

}  // namespace

Grammar JsonGrammar(const JsonValue* schema, const std::string& name) {
  return Named(name, [&] {
    GrammarBuilder builder;
    JsonForms forms(builder);
    if (schema == nullptr) return builder.Finish(forms.Object());
    SchemaRules rules(builder, forms, *schema, name);
    const Rule whole = rules.Whole();
    rules.Complete();
    return builder.Finish(whole);
  });
}

bool LimitsTurn(const ChatRequest& request) {
  if (request.response_format != ResponseFormat::kText) return true;
  if (request.tool_choice != ToolChoice::kAuto) {
    return request.tool_choice == ToolChoice::kRequired;
  }
  std::deque<JsonValue> lists;
  const std::vector<Function> functions = FunctionsOf(request, lists);
  return std::ranges::any_of(functions, &Function::strict);
}

Grammar TurnGrammar(const ChatRequest& request, Channel start) {
  const char* name = request.response_format == ResponseFormat::kText ? "tools" : kSchemaName;
  return Named(name, [&] { return TurnBuilder(request, start).Build(); });
}

}  // namespace kimi_k3::grammar

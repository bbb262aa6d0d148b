// The tokenize command: text, chat requests and ids, in both directions.
#include "cli/tokenize_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/prompt_input.h"
#include "kimi_k3/chat.h"
#include "kimi_k3/chat_parser.h"
#include "kimi_k3/tokenizer.h"

namespace kimi_k3 {
namespace {

std::string ReadAll(std::istream& in) {
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) Fail(ErrorKind::kIo, "cannot read the standard input");
  return text;
}

std::vector<TokenId> ParseIds(std::string_view text) {
  constexpr std::string_view kSeparators = " \t\r\n,";
  std::vector<TokenId> ids;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kSeparators), text.size()));
    if (text.empty()) return ids;
    const std::string_view word = text.substr(0, text.find_first_of(kSeparators));
    TokenId id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size()) {
      Fail(ErrorKind::kUsage, "input item {}: `{}` is not a token id", ids.size() + 1,
           word.substr(0, 40));
    }
    ids.push_back(id);
    text.remove_prefix(word.size());
  }
}

void WriteIds(const std::vector<TokenId>& ids, std::ostream& out) {
  std::string_view separator;
  for (const TokenId id : ids) {
    out << separator << id;
    separator = " ";
  }
  out << '\n';
}

void WriteTurn(const ParsedTurn& turn, std::ostream& out) {
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const ToolCall& call : turn.tool_calls) {
    calls.push_back({{"name", call.name}, {"arguments", call.arguments}});
  }
  const nlohmann::ordered_json json = {
      {"reasoning_content", turn.reasoning},
      {"content", turn.content},
      {"tool_calls", calls},
      {"finish_reason", std::string(FinishReasonName(turn.finish_reason))}};
  out << json.dump() << '\n';
}

}  // namespace

void RunTokenize(const TokenizeOptions& options, std::istream& in, std::ostream& out) {
  const Tokenizer tokenizer = Tokenizer::Load(options.model_dir);
  const std::string input = ReadAll(in);
  if (options.decode) {
    out << tokenizer.Decode(ParseIds(input));
  } else if (options.chat) {
    WriteIds(RenderChat(tokenizer, ParseChatRequest(input)).ids, out);
  } else if (options.parse) {
    const Channel start = options.no_thinking ? Channel::kResponse : Channel::kThink;
    WriteTurn(ParseTurn(tokenizer, ParseIds(input), start), out);
  } else {
    const SpecialText mode = options.special ? SpecialText::kRecognised : SpecialText::kPlain;
    WriteIds(tokenizer.Encode(input, mode), out);
  }
  InterruptGuard::Check();
  out.flush();
  if (!out) Fail(ErrorKind::kIo, "cannot write to the standard output");
}

void AddTokenizeCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "tokenize", "Text on the standard input to token ids on the standard output, and back");
  const auto options = std::make_shared<TokenizeOptions>();
  command
      ->add_option("-m,--model", options->model_dir,
                   "Folder with tiktoken.model and tokenizer_config.json")
      ->required();
  CLI::Option* special = command->add_flag("--special", options->special,
                                           "Names of special tokens in the text are these tokens");
  CLI::Option* decode =
      command->add_flag("--decode", options->decode, "Token ids to the bytes they stand for");
  CLI::Option* chat = command->add_flag("--chat", options->chat,
                                        "An OpenAI chat request (JSON) to the ids of its prompt");
  CLI::Option* parse = command->add_flag(
      "--parse", options->parse, "Generated token ids to reasoning, content and tool calls (JSON)");
  command
      ->add_flag("--no-thinking", options->no_thinking,
                 "With --parse: the ids follow a prompt with thinking off")
      ->needs(parse);
  const std::vector<CLI::Option*> modes = {special, decode, chat, parse};
  for (CLI::Option* mode : modes) {
    for (CLI::Option* other : modes) {
      if (mode != other) mode->excludes(other);
    }
  }
  command->callback([options] {
    const InterruptGuard interrupts;
    std::istringstream in(ReadPromptText("-"));
    RunTokenize(*options, in, std::cout);
  });
}

}  // namespace kimi_k3

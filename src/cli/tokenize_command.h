// The tokenize command: text, chat requests and ids, in both directions.
#pragma once

#include <filesystem>
#include <iosfwd>

#include "cli/command_line.h"

namespace kimi_k3 {

struct TokenizeOptions {
  std::filesystem::path model_dir;
  bool special = false;      // names of special tokens in the text count
  bool decode = false;       // ids to bytes
  bool chat = false;         // OpenAI chat request (JSON) to ids
  bool parse = false;        // generated ids to JSON
  bool no_thinking = false;  // with parse: the prompt opened the answer, not the reasoning
};

// Reads all of `in` and writes the result to `out`; only the tokenizer files of the folder are
// read. Ids are written space separated with a line end, and read separated by white space or
// commas. Throws Error: kUsage for a malformed request or id, kIo where a stream fails, and
// whatever Tokenizer::Load throws.
void RunTokenize(const TokenizeOptions& options, std::istream& in, std::ostream& out);

// Adds `tokenize` to the program; chosen, it runs on the standard streams while arguments are
// parsed.
void AddTokenizeCommand(CLI::App& app);

}  // namespace kimi_k3

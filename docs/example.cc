// The smallest program on the library: opens a checkpoint, continues a text, prints it as it comes.
//   example DIR TEXT             with the tokenizer of the checkpoint's folder
//   example DIR --ids ID [...]   token ids in, token ids out
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "kimi_k3/engine.h"
#include "kimi_k3/generation.h"
#include "kimi_k3/utf8.h"

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2) {
    std::cerr << "usage: example DIR TEXT | example DIR --ids ID [...]\n";
    return 2;
  }
  kimi_k3::EngineOptions options;
  options.model_dir = arguments[0];
  kimi_k3::Engine engine = kimi_k3::Engine::Open(options);

  const bool ids = arguments[1] == "--ids";
  std::vector<kimi_k3::TokenId> prompt;
  for (size_t i = 2; ids && i < arguments.size(); ++i) prompt.push_back(std::stoi(arguments[i]));
  if (!ids) prompt = engine.tokenizer().Encode(arguments[1], kimi_k3::SpecialText::kPlain);

  kimi_k3::Sequence sequence = engine.NewSequence();
  kimi_k3::Utf8Stream text;
  kimi_k3::Generate(engine, sequence, prompt, {.max_tokens = 16}, [&](kimi_k3::TokenId token) {
    std::cout << (ids ? std::to_string(token) + " "
                      : text.Append(engine.tokenizer().TokenBytes(token)))
              << std::flush;
    return true;
  });
  std::cout << text.Flush() << '\n';
  return 0;
} catch (const std::exception& error) {
  std::cerr << "example: " << error.what() << '\n';
  return 1;
}

// What a person says in a chat: one line, or several.
#include "cli/chat_input.h"

#include <string_view>
#include <utility>

namespace kimi_k3 {
namespace {

constexpr const char* kPrompt = "> ";
constexpr const char* kMorePrompt = ". ";
constexpr std::string_view kFence = "\"\"\"";

}  // namespace

Line ChatInput::Next() {
  Line line = reader_.Read(kPrompt);
  if (line.kind != LineKind::kLine) return line;
  if (line.text.starts_with(kFence)) return Block(line.text.substr(kFence.size()));
  while (line.text.ends_with('\\')) {
    line.text.back() = '\n';
    Line more = More();
    if (more.kind != LineKind::kLine) return more;
    line.text += more.text;
  }
  if (!line.text.empty()) reader_.Remember(line.text);
  return line;
}

Line ChatInput::More() {
  Line line = reader_.Read(kMorePrompt);
  unfinished_ = line.kind == LineKind::kEnd;
  return line;
}

Line ChatInput::Block(std::string first) {
  Line block = {.kind = LineKind::kLine, .text = std::move(first), .verbatim = true};
  while (!block.text.ends_with(kFence)) {
    if (!block.text.empty()) block.text += '\n';
    Line more = More();
    if (more.kind != LineKind::kLine) return more;
    block.text += more.text;
  }
  block.text.resize(block.text.size() - kFence.size());
  if (block.text.ends_with('\n')) block.text.pop_back();
  if (!block.text.empty()) reader_.Remember(block.text);
  return block;
}

}  // namespace kimi_k3

// What a person says in a chat: one line, or several.
#pragma once

#include <string>

#include "cli/line_reader.h"

namespace kimi_k3 {

// Puts messages of several lines together: a line that ends in a backslash goes on in the next one,
// and lines between one that begins with """ and one that ends with """ are taken as they stand.
class ChatInput {
 public:
  explicit ChatInput(LineReader& reader) : reader_(reader) {}

  // The next message or command. At the end of the input, or where a signal comes, what was begun
  // is dropped.
  Line Next();
  // The input has ended within a message.
  bool unfinished() const { return unfinished_; }

 private:
  Line Block(std::string first);
  // A further line of a message.
  Line More();

  LineReader& reader_;
  bool unfinished_ = false;
};

}  // namespace kimi_k3

// Whether a checkpoint names its tensors with "language_model." in front: all alike.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/problem_list.h"

namespace kimi_k3 {

// Gathers one name after another. Not thread-safe.
class NamePrefix {
 public:
  // folders: what a problem is of.
  explicit NamePrefix(std::string folders) : folders_(std::move(folders)) {}

  // Takes up a name, with the prefix or without; a mixture is a problem, told once.
  void Note(bool prefixed, std::string_view name, ProblemList& problems);

  // The prefix that the names have; `expected` where none has come.
  std::string_view Text(std::string_view expected) const;

 private:
  std::string folders_;
  std::string prefixed_name_;    // the first with the prefix
  std::string unprefixed_name_;  // the first without it
};

}  // namespace kimi_k3

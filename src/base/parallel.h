// A loop whose parts may run at the same time, without saying how.
#pragma once

#include <cstddef>

#include "base/function_ref.h"

namespace kimi_k3 {

// Runs loops over [0, n). One loop at a time, started by the owner; never from inside a loop.
class Parallel {
 public:
  virtual ~Parallel() = default;

  // At most this many parts; `part` below is smaller.
  virtual size_t parts() const = 0;

  // Calls body(part, begin, end) for consecutive ranges that cover [0, n), each a multiple of
  // `grain` long but the last, each with its own `part`, and returns when all have ended. body must
  // not throw. What is computed may not depend on how the range was cut.
  virtual void For(size_t n, size_t grain, FunctionRef<void(size_t, size_t, size_t)> body) = 0;

  // As For(), for long bodies that need no `part`: body(begin, end) for ranges that are more than
  // parts() and end small, so that nobody waits long for a part that is slow.
  virtual void ForPieces(size_t n, size_t grain, FunctionRef<void(size_t, size_t)> body) = 0;
};

}  // namespace kimi_k3

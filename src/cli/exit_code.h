// The exit codes of the program; scripts rely on them.
#pragma once

#include "kimi_k3/error.h"

namespace kimi_k3 {

enum ExitCode : int {
  kExitDone = 0,
  kExitRunFailed = 1,
  kExitUsage = 2,
  kExitCheckpoint = 3,
  kExitBudget = 4,
  kExitIo = 5,
  kExitInterrupted = 130
};

inline ExitCode ExitCodeOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kRun:
      return kExitRunFailed;
    case ErrorKind::kUsage:
      return kExitUsage;
    case ErrorKind::kCheckpoint:
      return kExitCheckpoint;
    case ErrorKind::kBudget:
      return kExitBudget;
    case ErrorKind::kIo:
      return kExitIo;
    case ErrorKind::kInterrupted:
      return kExitInterrupted;
  }
  return kExitRunFailed;
}

}  // namespace kimi_k3

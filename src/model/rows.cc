// Rows: what one pass computes.
#include "model/rows.h"

#include <stdexcept>

namespace kimi_k3 {

std::vector<RowRun> RowRuns(std::span<const Row> rows) {
  std::vector<RowRun> runs;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (!runs.empty() && runs.back().sequence == rows[r].sequence) {
      ++runs.back().count;
      continue;
    }
    for (const RowRun& run : runs) {
      if (run.sequence == rows[r].sequence) {
        throw std::logic_error("the rows of a sequence must stand together");
      }
    }
    runs.push_back({.sequence = rows[r].sequence, .first = r, .count = 1});
  }
  return runs;
}

}  // namespace kimi_k3

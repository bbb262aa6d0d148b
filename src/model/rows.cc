// Rows: what one pass computes.
#include "model/rows.h"

#include <stdexcept>

namespace kimi_k3 {

std::vector<RowRun> RowRuns(std::span<const Row> rows) {
  std::vector<RowRun> runs;
  for (size_t r = 0; r < rows.size(); ++r) {
    const size_t tentative = rows[r].tentative ? 1 : 0;
    if (!runs.empty() && runs.back().sequence == rows[r].sequence) {
      RowRun& run = runs.back();
      if (tentative == 0 && run.tentative != 0) {
        throw std::logic_error("the tentative rows of a sequence must come last");
      }
      ++run.count;
      run.tentative += tentative;
      continue;
    }
    for (const RowRun& run : runs) {
      if (run.sequence == rows[r].sequence) {
        throw std::logic_error("the rows of a sequence must stand together");
      }
    }
    runs.push_back({.sequence = rows[r].sequence, .first = r, .count = 1, .tentative = tentative});
  }
  for (const RowRun& run : runs) {
    if (run.tentative > 0 && run.tentative > run.sequence->tentative().most()) {
      throw std::logic_error("more tentative rows than the sequence has room for");
    }
  }
  return runs;
}

}  // namespace kimi_k3

// The names of a batch's requests.
#include "cli/batch_id.h"

#include <gtest/gtest.h>

namespace kimi_k3 {
namespace {

TEST(BatchId, DependsOnEveryPartAndOnWhereItEnds) {
  const BatchId id = BatchId::Of({"ab", "c"});
  EXPECT_EQ(id, BatchId::Of({"ab", "c"}));
  EXPECT_NE(id, BatchId::Of({"a", "bc"}));
  EXPECT_NE(id, BatchId::Of({"ab", "c", ""}));
  EXPECT_NE(id, BatchId::Of({"ab", "d"}));
}

TEST(BatchId, IsReadFromItsNameAndFromNothingElse) {
  const BatchId id = BatchId::Of({"x"});
  EXPECT_EQ(BatchId::FromName(id.Name()), id);
  EXPECT_EQ(id.Hex().size(), 32U);
  EXPECT_FALSE(BatchId::FromName(id.Hex()));
  EXPECT_FALSE(BatchId::FromName(id.Name() + "0"));
  EXPECT_FALSE(BatchId::FromName("batch_req_0000000000000000000000000000000g"));
  EXPECT_FALSE(BatchId::FromName(""));
}

}  // namespace
}  // namespace kimi_k3

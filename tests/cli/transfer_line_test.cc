// Tests of the live line of transfers.
#include "cli/transfer_line.h"

#include <gtest/gtest.h>

#include <thread>

namespace kimi_k3 {
namespace {

TEST(TransferLine, SaysWhatIsDoneHowFastAndHowLongYet) {
  EXPECT_EQ(TransferText(0, 1000000000, 0), "0 bytes of 1.00 GB");
  EXPECT_EQ(TransferText(500000000, 1000000000, 1e7), "500 MB of 1.00 GB, 10.0 MB/s, 50 s left");
  EXPECT_EQ(TransferText(1000000000, 1000000000, 1e7), "1.00 GB of 1.00 GB, 10.0 MB/s");
  EXPECT_EQ(TransferText(0, 1560860324864, 2e8), "0 bytes of 1.56 TB, 200 MB/s, 2 h 10 min left");
}

TEST(TransferLine, MeasuresSpeed) {
  TransferRate rate;
  EXPECT_EQ(rate.Update(0), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  const double speed = rate.Update(6000000);
  EXPECT_GT(speed, 1e6);
  EXPECT_LT(speed, 1e7);
}

}  // namespace
}  // namespace kimi_k3

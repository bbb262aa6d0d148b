// Names of models.
#include "cli/model_name.h"

#include <gtest/gtest.h>

namespace kimi_k3 {
namespace {

TEST(ModelName, IsTheFoldersLastName) {
  EXPECT_EQ(ModelNameOf("/data/Kimi-K3"), "Kimi-K3");
  EXPECT_EQ(ModelNameOf("/data/Kimi-K3/"), "Kimi-K3");
  EXPECT_EQ(ModelNameOf("/data/other/../Kimi-K3/."), "Kimi-K3");
  EXPECT_EQ(ModelNameOf("."), std::filesystem::current_path().filename().string());
}

}  // namespace
}  // namespace kimi_k3

// Tests of file names that come from outside.
#include "fetch/safe_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fetch/fetch_test_support.h"

namespace kimi_k3 {
namespace {

TEST(SafeName, LetsOrdinaryNamesThrough) {
  for (const char* name : {"config.json", "model-00001-of-000096.safetensors", "figures/a b.png",
                           ".gitattributes", "\xe6\xa8\xa1\xe5\x9e\x8b.txt", "a..b", "..."}) {
    EXPECT_TRUE(IsSafeName(name)) << name;
  }
}

TEST(SafeName, RefusesWhatLeadsOutOrHidesSomething) {
  for (const std::string& name :
       {std::string(), std::string("/etc/passwd"), std::string("../x"), std::string("a/../../x"),
        std::string(".."), std::string("."), std::string("a/."), std::string("a//b"),
        std::string("a/"), std::string("a\\b"), std::string("a\nb"), std::string("a\0b", 3),
        std::string("\x7f"), std::string("\xff"), std::string("\xc0\xaf"), std::string("\xe6\xa8"),
        std::string(256, 'a'), std::string(".kimi_k3/manifest.json"), std::string(".kimi_k3")}) {
    EXPECT_FALSE(IsSafeName(name)) << name;
  }
}

TEST(SafeName, LinksOnTheWayAreRefused) {
  const ScratchDir dir;
  std::filesystem::create_directory(dir / "real");
  std::filesystem::create_directory_symlink("/tmp", dir / "link");
  std::filesystem::create_symlink("/etc/hostname", dir / "real/file");
  EXPECT_EQ(PlaceInFolder(dir.path(), "real/other"), dir / "real/other");
  EXPECT_THAT(ErrorOf([&] { PlaceInFolder(dir.path(), "link/x"); }).second,
              testing::HasSubstr("symbolic link"));
  EXPECT_THAT(ErrorOf([&] { PlaceInFolder(dir.path(), "real/file"); }).second,
              testing::HasSubstr("symbolic link"));
}

TEST(SafeName, WhatIsInTheWayIsFoundBeforeAnythingIsFetched) {
  const ScratchDir dir;
  std::filesystem::create_directories(dir / "model.safetensors");
  PutFile(dir / "figures", "a file");
  PutFile(dir / "config.json", "{}");
  EXPECT_EQ(PlaceInFolder(dir.path(), "config.json"), dir / "config.json");
  EXPECT_THAT(ErrorOf([&] { PlaceInFolder(dir.path(), "model.safetensors"); }).second,
              testing::HasSubstr("in the way of a file"));
  EXPECT_THAT(ErrorOf([&] { PlaceInFolder(dir.path(), "figures/a.png"); }).second,
              testing::HasSubstr("in the way of a folder"));
}

}  // namespace
}  // namespace kimi_k3

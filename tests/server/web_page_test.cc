// The page is all in one piece.
#include "server/web_page.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace kimi_k3::server {
namespace {

TEST(WebPage, IsTheFileOfTheSource) {
  EXPECT_EQ(std::string(WebPage()),
            ReadWholeFile(KIMI_K3_SOURCE_DIR "/src/server/web/index.html", uint64_t{1} << 20));
}

TEST(WebPage, AsksForNothingElsewhere) {
  const std::string page(WebPage());
  for (const char* word : {"src=", "@import", "https:", "url(", "//cdn", "innerHTML", "eval("}) {
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  }
  // The only address is the name space of the icon, which is no request.
  EXPECT_EQ(page.find("http:"), page.rfind("http:"));
}

TEST(WebPage, NamesItsControls) {
  const std::string page(WebPage());
  for (const char* word : {"<html lang=", "name=\"viewport\"", "<title>", "role=\"log\"",
                           "role=\"status\"", "for=\"prompt\"", "prefers-color-scheme"}) {
    EXPECT_NE(page.find(word), std::string::npos) << word;
  }
}

}  // namespace
}  // namespace kimi_k3::server

# Writes the file INPUT as C++ source OUTPUT that defines kimi_k3::server::WebPage.
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUTPUT} "// The bytes of the web page.
#include \"server/web_page.h\"

namespace kimi_k3::server {
namespace {
constexpr unsigned char kBytes[] = {
${bytes}};
}  // namespace
std::string_view WebPage() { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)}; }
}  // namespace kimi_k3::server
")

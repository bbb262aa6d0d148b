// The chat page that the server shows at /.
#pragma once

#include <string_view>

namespace kimi_k3::server {

// The whole page as HTML, without references to anything else.
std::string_view WebPage();

}  // namespace kimi_k3::server

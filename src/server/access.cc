// Who may use the server: the name it is called by, web pages of other origins, API keys.
#include "server/access.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "server/api_error.h"

namespace kimi_k3::server {
namespace {

// The name of "name:port" in lower case: without the port, brackets and a final dot.
std::string HostName(std::string_view host) {
  if (host.starts_with('[')) return LowerCase(host.substr(1, host.find(']') - 1));
  // An address of version 6 without brackets has no port.
  const bool bare = std::ranges::count(host, ':') > 1;
  std::string name = LowerCase(bare ? host : host.substr(0, host.find(':')));
  if (name.size() > 1 && name.back() == '.') name.pop_back();
  return name;
}

bool IsAddress(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> address;
  return inet_pton(AF_INET, name.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, name.c_str(), address.data()) == 1;
}

bool IsLoopback(const std::string& name) {
  if (name == "localhost" || name == "::1") return true;
  return name.starts_with("127.") && IsAddress(name);
}

bool ListensEverywhere(const ServerOptions& options) {
  return options.host == "0.0.0.0" || options.host == "::" || options.host == "*";
}

bool IsOurName(std::string_view host, const ServerOptions& options) {
  const std::string name = HostName(host);
  if (IsLoopback(name) || name == HostName(options.host)) return true;
  if (ListensEverywhere(options) && IsAddress(name)) return true;
  return std::ranges::any_of(options.allowed_hosts, [&](const std::string& allowed) {
    return allowed == "*" || HostName(allowed) == name;
  });
}

std::string WithoutSlash(std::string_view origin) {
  if (origin.ends_with('/')) origin.remove_suffix(1);
  return LowerCase(origin);
}

bool IsAllowedOrigin(std::string_view origin, const ServerOptions& options) {
  return std::ranges::any_of(options.cors_origins, [&](const std::string& allowed) {
    return allowed == "*" || WithoutSlash(allowed) == WithoutSlash(origin);
  });
}

// A page that this very server has sent.
bool IsSameOrigin(std::string_view origin, const RequestHead& head) {
  const size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;
  return LowerCase(origin.substr(scheme + 3)) == LowerCase(head.Find("host").value_or(""));
}

}  // namespace

void CheckHost(const RequestHead& head, const ServerOptions& options) {
  // A browser, which a web page could make go by a name of its own, always sends one.
  if (head.old_version && !head.Find("host")) return;
  const std::string_view host = head.Find("host").value_or("");
  if (IsOurName(host, options)) return;
  throw ApiError(403, "host_not_allowed", "",
                 fmt::format("this server does not go by the name \"{}\" (serve --allow-host)",
                             host.substr(0, 100)));
}

void CheckOrigin(const RequestHead& head, const ServerOptions& options) {
  const std::optional<std::string_view> origin = head.Find("origin");
  if (!origin || IsSameOrigin(*origin, head) || IsAllowedOrigin(*origin, options)) return;
  throw ApiError(403, "origin_not_allowed", "",
                 fmt::format("web pages of {} may not use this server (serve --cors)",
                             origin->substr(0, 100)));
}

std::optional<std::string> AllowedOrigin(const RequestHead& head, const ServerOptions& options) {
  const std::optional<std::string_view> origin = head.Find("origin");
  if (!origin || !IsAllowedOrigin(*origin, options)) return std::nullopt;
  return std::string(*origin);
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  // Every byte of `a` is looked at, against some byte of `b`.
  unsigned difference = a.size() == b.size() ? 0U : 1U;
  for (size_t i = 0; i < a.size() && !b.empty(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned char>(b[i < b.size() ? i : b.size() - 1]);
  }
  return difference == 0 && a.empty() == b.empty();
}

void CheckApiKey(const RequestHead& head, const ServerOptions& options) {
  if (options.api_keys.empty()) return;
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view value = head.Find("authorization").value_or("");
  const bool is_bearer = LowerCase(value.substr(0, kScheme.size())) == kScheme;
  const std::string_view given = is_bearer ? value.substr(kScheme.size()) : "";
  bool known = false;
  for (const std::string& key : options.api_keys) known |= EqualInConstantTime(given, key);
  if (known) return;
  throw ApiError(
      401, "invalid_api_key", "",
      given.empty() ? "an API key is needed: Authorization: Bearer KEY" : "the API key is wrong");
}

}  // namespace kimi_k3::server

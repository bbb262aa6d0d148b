// Who may use the server: the name it is called by, web pages of other origins, API keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/request_reader.h"
#include "server/server_options.h"

namespace kimi_k3::server {

// Throws ApiError(403) where the Host header is none of the names that the server goes by: a web
// page can make a name of its own point here and would then be let in as the same origin. Accepted:
// loopback names and addresses, options.host, options.allowed_hosts; any address (not a name) where
// the server listens on all of them.
void CheckHost(const RequestHead& head, const ServerOptions& options);

// Throws ApiError(403) where a web page of another origin, which the options do not allow, asks for
// something that has an effect.
void CheckOrigin(const RequestHead& head, const ServerOptions& options);

// The value of Access-Control-Allow-Origin for this request; nothing: the header is left out.
std::optional<std::string> AllowedOrigin(const RequestHead& head, const ServerOptions& options);

// Throws ApiError(401) where keys are asked for and "Authorization: Bearer KEY" has none of them.
// How long it takes does not depend on how much of a key is right.
void CheckApiKey(const RequestHead& head, const ServerOptions& options);

// Whether both are the same, in a time that depends on the lengths alone.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace kimi_k3::server

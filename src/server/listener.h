// A listening TCP socket.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"

namespace kimi_k3::server {

class Listener {
 public:
  // Throws Error: kUsage where the host is unknown, kIo where its address cannot be listened on.
  // port 0: any that is free. host "*": every address of this machine.
  Listener(const std::string& host, uint16_t port);

  uint16_t port() const { return port_; }

  // The next connection, non-blocking; nothing where none came in time.
  std::optional<UniqueFd> Accept(std::chrono::milliseconds wait);

 private:
  UniqueFd socket_;
  uint16_t port_ = 0;
};

}  // namespace kimi_k3::server

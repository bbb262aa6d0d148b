// Puts TLS in front of a plain server on this machine, with a certificate made for the purpose.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"

namespace kimi_k3 {

// Hands all that comes to the plain server, and back. A thread a connection.
class TlsFront {
 public:
  // plain: "http://127.0.0.1:PORT". identity: what the certificate, its own authority, is of:
  // "IP:127.0.0.1" or "DNS:NAME".
  explicit TlsFront(const std::string& plain, const std::string& identity = "IP:127.0.0.1");
  ~TlsFront();
  TlsFront(const TlsFront&) = delete;
  TlsFront& operator=(const TlsFront&) = delete;

  // "https://127.0.0.1:PORT".
  std::string Endpoint() const;
  // The certificate, for a file of authorities.
  std::string Pem() const;

 private:
  struct Identity;
  void Accept();
  void Serve(int fd);

  std::unique_ptr<Identity> identity_;
  UniqueFd listener_;
  int port_ = 0;
  int plain_port_ = 0;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace kimi_k3

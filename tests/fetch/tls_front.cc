// Puts TLS in front of a plain server on this machine, with a certificate made for the purpose.
#include "fetch/tls_front.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <stdexcept>

namespace kimi_k3 {
namespace {

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Freed<SSL_free>>;

void Require(bool done, const char* what) {
  if (!done) throw std::runtime_error(what);
}

sockaddr_in LocalAddress(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

Certificate MakeCertificate(EVP_PKEY* key, const std::string& identity) {
  constexpr long kDay = 24L * 3600;
  Certificate certificate(X509_new());
  X509* x = certificate.get();
  X509_set_version(x, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
  X509_gmtime_adj(X509_getm_notBefore(x), -kDay);
  X509_gmtime_adj(X509_getm_notAfter(x), kDay);
  X509_set_pubkey(x, key);
  X509_NAME* name = X509_get_subject_name(x);
  const auto* common = reinterpret_cast<const unsigned char*>("a test's authority");
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, common, -1, -1, 0);
  X509_set_issuer_name(x, name);
  for (const auto& [kind, value] : {std::pair(NID_basic_constraints, std::string("CA:TRUE")),
                                    std::pair(NID_subject_alt_name, identity)}) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
    Require(extension != nullptr && X509_add_ext(x, extension, -1) == 1, "cannot extend");
    X509_EXTENSION_free(extension);
  }
  Require(X509_sign(x, key, EVP_sha256()) > 0, "cannot sign");
  return certificate;
}

// Moves what is there from one side to the other; false where a side has ended.
bool Relay(SSL* tls, int tls_fd, int plain_fd) {
  std::array<char, 16384> data;
  std::array<pollfd, 2> ready = {{{.fd = tls_fd, .events = POLLIN, .revents = 0},
                                  {.fd = plain_fd, .events = POLLIN, .revents = 0}}};
  if (SSL_pending(tls) == 0 && poll(ready.data(), ready.size(), -1) <= 0) return false;
  if (SSL_pending(tls) > 0 || ready[0].revents != 0) {
    const int n = SSL_read(tls, data.data(), data.size());
    if (n <= 0 || send(plain_fd, data.data(), static_cast<size_t>(n), MSG_NOSIGNAL) != n) {
      return false;
    }
  }
  if (ready[1].revents == 0) return true;
  const ssize_t n = recv(plain_fd, data.data(), data.size(), 0);
  return n > 0 && SSL_write(tls, data.data(), static_cast<int>(n)) == n;
}

}  // namespace

struct TlsFront::Identity {
  Key key{EVP_EC_gen("P-256")};
  Certificate certificate;
  Context context{SSL_CTX_new(TLS_server_method())};
};

TlsFront::TlsFront(const std::string& plain, const std::string& identity)
    : identity_(std::make_unique<Identity>()),
      plain_port_(std::stoi(plain.substr(plain.rfind(':') + 1))) {
  std::signal(SIGPIPE, SIG_IGN);  // a write to a client that has left is an error
  Identity& own = *identity_;
  own.certificate = MakeCertificate(own.key.get(), identity);
  Require(SSL_CTX_use_certificate(own.context.get(), own.certificate.get()) == 1 &&
              SSL_CTX_use_PrivateKey(own.context.get(), own.key.get()) == 1,
          "cannot use the certificate");
  listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = LocalAddress(0);
  socklen_t size = sizeof(address);
  Require(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
              listen(listener_.get(), 64) == 0 &&
              getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0,
          "cannot listen");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

TlsFront::~TlsFront() {
  stopping_.store(true);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
}

std::string TlsFront::Endpoint() const { return "https://127.0.0.1:" + std::to_string(port_); }

std::string TlsFront::Pem() const {
  const std::unique_ptr<BIO, Freed<BIO_free_all>> memory(BIO_new(BIO_s_mem()));
  Require(PEM_write_bio_X509(memory.get(), identity_->certificate.get()) == 1, "cannot write");
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<size_t>(size)};
}

void TlsFront::Accept() {
  while (!stopping_.load()) {
    pollfd ready = {.fd = listener_.get(), .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, 20) <= 0) continue;
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const std::lock_guard lock(mutex_);
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { Serve(fd); });
  }
}

void TlsFront::Serve(int fd) {
  {
    const UniqueFd plain(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = LocalAddress(plain_port_);
    const Session tls(SSL_new(identity_->context.get()));
    SSL_set_fd(tls.get(), fd);
    if (SSL_accept(tls.get()) == 1 &&
        connect(plain.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      while (!stopping_.load() && Relay(tls.get(), fd, plain.get())) {
      }
      SSL_shutdown(tls.get());
    }
  }
  const std::lock_guard lock(mutex_);
  std::erase(open_, fd);
  close(fd);
}

}  // namespace kimi_k3

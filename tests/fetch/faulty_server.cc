// A small HTTP server that speaks as a repository's does, and misbehaves on request.
#include "fetch/faulty_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "fetch/digest.h"

namespace kimi_k3 {
namespace {

constexpr size_t kPiece = 16 * 1024;

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

std::string HeaderOf(const std::string& head, const std::string& name) {
  std::string lower = head;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const size_t at = lower.find("\r\n" + name + ":");
  if (at == std::string::npos) return {};
  const size_t begin = head.find_first_not_of(' ', at + name.size() + 3);
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

}  // namespace

FaultyServer::FaultyServer(std::string repository) : repository_(std::move(repository)) {
  listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_.get(), 64) != 0 ||
      getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("cannot listen");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

FaultyServer::~FaultyServer() {
  stopping_.store(true);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
}

void FaultyServer::AddFile(const std::string& name, std::string content, bool lfs) {
  File file;
  file.bytes = content.size();
  file.lfs = lfs;
  Digest digest = BeginDigest(lfs ? DigestKind::kSha256 : DigestKind::kSha1, file.bytes);
  digest.Update(content);
  file.hash = digest.Finish();
  file.content = std::move(content);
  files_[name] = std::move(file);
}

void FaultyServer::AddLargeFile(const std::string& name, uint64_t bytes, uint64_t seed) {
  File& file = files_[name];
  file.bytes = bytes;
  file.seed = seed;
  Digest digest(DigestKind::kSha256);
  constexpr uint64_t kStep = uint64_t{1} << 20;
  for (uint64_t at = 0; at < bytes; at += kStep) {
    digest.Update(Content(name, at, std::min(bytes, at + kStep)));
  }
  file.hash = digest.Finish();
}

void FaultyServer::Misbehave(std::function<Fault(const ServedRequest&)> decide) {
  const std::lock_guard lock(mutex_);
  decide_ = std::move(decide);
}

void FaultyServer::SetListing(std::string json) { listing_ = std::move(json); }

std::string FaultyServer::Endpoint(const std::string& host) const {
  return fmt::format("http://{}:{}", host, port_);
}

std::string FaultyServer::PlainUrl(const std::string& file, const std::string& host) const {
  return fmt::format("{}/plain/{}", Endpoint(host), file);
}

std::string FaultyServer::Content(const std::string& name, uint64_t begin, uint64_t end) const {
  const File& file = files_.at(name);
  if (file.seed == 0) return file.content.substr(begin, end - begin);
  std::string text(end - begin, '\0');
  for (uint64_t at = begin; at < end;) {
    const uint64_t word = Mix(file.seed ^ (at / 8));
    const uint64_t inside = at % 8;
    const uint64_t n = std::min(end - at, 8 - inside);
    std::memcpy(&text[at - begin], reinterpret_cast<const char*>(&word) + inside, n);
    at += n;
  }
  return text;
}

uint64_t FaultyServer::TotalSize() const {
  uint64_t bytes = 0;
  for (const auto& [name, file] : files_) bytes += file.bytes;
  return bytes;
}

std::vector<ServedRequest> FaultyServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void FaultyServer::Accept() {
  while (!stopping_.load()) {
    pollfd ready = {.fd = listener_.get(), .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, 20) <= 0) continue;
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const int small = 32 * 1024;  // so that what is sent has nearly arrived
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    const std::lock_guard lock(mutex_);
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { Serve(fd); });
  }
}

void FaultyServer::Serve(int fd) {
  std::string buffer;
  char block[4096];
  for (;;) {
    const size_t end = buffer.find("\r\n\r\n");
    if (end == std::string::npos) {
      const ssize_t n = recv(fd, block, sizeof(block), 0);
      if (n <= 0) break;
      buffer.append(block, static_cast<size_t>(n));
      continue;
    }
    const std::string head = buffer.substr(0, end + 2);
    buffer.erase(0, end + 4);
    if (!Answer(fd, head)) break;
  }
  const std::lock_guard lock(mutex_);
  std::erase(open_, fd);
  close(fd);
}

bool FaultyServer::Send(int fd, std::string_view text, bool body) {
  while (!text.empty() && !stopping_.load()) {
    const size_t piece = std::min(text.size(), kPiece);
    const ssize_t n = send(fd, text.data(), piece, MSG_NOSIGNAL);
    if (n <= 0) return false;
    if (body) sent_ += static_cast<uint64_t>(n);
    text.remove_prefix(static_cast<size_t>(n));
    const uint64_t pace = pace_.load();
    if (pace != 0 && body) {
      std::this_thread::sleep_for(
          std::chrono::microseconds(static_cast<uint64_t>(n) * 1000000 / pace));
    }
  }
  return text.empty();
}

std::string FaultyServer::Listing() const {
  if (!listing_.empty()) return listing_;
  std::string json =
      fmt::format(R"({{"id": "{}", "sha": "{}", "siblings": [)", repository_, commit_);
  bool first = true;
  for (const auto& [name, file] : files_) {
    json +=
        fmt::format(R"({}{{"rfilename": "{}", "size": {}, )", first ? "" : ", ", name, file.bytes);
    json +=
        file.lfs
            ? fmt::format(
                  R"("blobId": "{:040}", "lfs": {{"sha256": "{}", "size": {}, "pointerSize": 134}}}})",
                  7, file.hash, file.bytes)
            : fmt::format(R"("blobId": "{}"}})", file.hash);
    first = false;
  }
  return json + "]}";
}

bool FaultyServer::Answer(int fd, const std::string& head) {
  ServedRequest request;
  const size_t from = head.find(' ') + 1;
  request.path = head.substr(from, head.find(' ', from) - from);
  request.authorization = HeaderOf(head, "authorization");
  const std::string range = HeaderOf(head, "range");
  uint64_t first = 0, last = 0;
  if (std::sscanf(range.c_str(), "bytes=%lu-%lu", &first, &last) == 2)
    request.range = {first, last};
  const std::string resolve = "/" + repository_ + "/resolve/" + commit_ + "/";
  for (const std::string& prefix : {resolve, std::string("/plain/")}) {
    if (request.path.starts_with(prefix)) request.file = request.path.substr(prefix.size());
  }
  Fault fault;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    if (decide_) fault = decide_(request);
  }
  if (fault.kind == Fault::Kind::kDelay) {
    std::this_thread::sleep_for(std::chrono::milliseconds(fault.bytes));
  }
  if (fault.kind == Fault::Kind::kGarbage) {
    Send(fd, "this is not HTTP\r\n\r\n");
    return false;
  }
  if (fault.kind == Fault::Kind::kStatus) {
    const std::string after =
        fault.retry_after.empty() ? "" : "Retry-After: " + fault.retry_after + "\r\n";
    return Send(fd, fmt::format("HTTP/1.1 {} Trouble\r\n{}Content-Length: 5\r\n\r\nsorry",
                                fault.status, after));
  }
  if (fault.kind == Fault::Kind::kRedirect) {
    return Send(
        fd, fmt::format("HTTP/1.1 302 Found\r\nLocation: {}\r\nX-Linked-Etag: \"{}\"\r\n"
                        "Content-Length: 0\r\n\r\n",
                        fault.location, request.file.empty() ? "" : files_.at(request.file).hash));
  }
  if (request.path.starts_with("/api/models/" + repository_ + "/revision/")) {
    const std::string list = Listing();
    return Send(fd,
                fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", list.size(), list));
  }
  const auto file = files_.find(request.file);
  if (request.file.empty() || file == files_.end()) {
    return Send(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
  }
  return SendFile(fd, request, file->second, fault);
}

bool FaultyServer::SendFile(int fd, const ServedRequest& request, const File& file,
                            const Fault& fault) {
  const uint64_t total = fault.kind == Fault::Kind::kChangedSize ? file.bytes + 1 : file.bytes;
  uint64_t begin = 0;
  uint64_t end = file.bytes;
  const bool ranged = request.range && fault.kind != Fault::Kind::kNoRanges;
  if (ranged) {
    if (request.range->first >= file.bytes) {
      return Send(fd, "HTTP/1.1 416 Range\r\nContent-Length: 0\r\n\r\n");
    }
    begin = request.range->first;
    end = std::min(file.bytes, request.range->second + 1);
  }
  uint64_t length = end - begin;
  if (fault.kind == Fault::Kind::kShort) length -= std::min(length, fault.bytes);
  std::string head = ranged ? "HTTP/1.1 206 Partial Content\r\n" : "HTTP/1.1 200 OK\r\n";
  if (ranged) {
    const uint64_t shift = fault.kind == Fault::Kind::kWrongRange ? 1 : 0;
    head += fmt::format("Content-Range: bytes {}-{}/{}\r\n", begin + shift,
                        begin + shift + end - begin - 1, total);
  }
  const uint64_t announced =
      ranged || fault.kind != Fault::Kind::kChangedSize ? length : length + 1;
  head += fmt::format("Content-Length: {}\r\nETag: \"{}{}\"\r\n\r\n",
                      announced + (fault.kind == Fault::Kind::kLong ? fault.bytes : 0), file.hash,
                      fault.kind == Fault::Kind::kChangedTag ? "x" : "");
  if (!Send(fd, head)) return false;
  uint64_t most = length;
  if (fault.kind == Fault::Kind::kDrop || fault.kind == Fault::Kind::kStall) {
    most = std::min(most, fault.bytes);
  }
  for (uint64_t at = 0; at < most; at += kPiece) {
    std::string piece =
        Content(request.file, begin + at, std::min(begin + most, begin + at + kPiece));
    if (fault.kind == Fault::Kind::kCorrupt && fault.bytes >= at && fault.bytes < at + kPiece &&
        fault.bytes - at < piece.size()) {
      piece[fault.bytes - at] ^= 1;
    }
    if (!Send(fd, piece, true)) return false;
  }
  if (fault.kind == Fault::Kind::kStall) {
    char byte = 0;
    while (!stopping_.load() && recv(fd, &byte, 1, 0) > 0) {
    }
    return false;
  }
  return fault.kind != Fault::Kind::kDrop && fault.kind != Fault::Kind::kLong;
}

}  // namespace kimi_k3

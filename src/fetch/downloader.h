// Fetches files over several connections, resumes, retries, and believes nothing unchecked.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/block_sums.h"
#include "fetch/download_board.h"
#include "fetch/http_client.h"
#include "fetch/manifest.h"
#include "fetch/repository.h"

namespace kimi_k3 {

struct DownloadOptions {
  std::filesystem::path folder;
  size_t connections = 8;
  unsigned retries = 30;                        // in a row without progress, before giving up
  std::chrono::milliseconds first_pause{1000};  // doubled with each retry, to a minute
  uint64_t block_bytes = BlockSums::kDefaultBlockBytes;
  size_t most_blocks_a_request = 256;
  HttpOptions http;                                       // with *stop
  std::function<void(const DownloadProgress&)> progress;  // some times a second
  std::function<void(const std::string&)> note;           // trouble that was overcome
};

// A file, and which of its blocks are wanted (empty: all).
struct WantedFile {
  RemoteFile remote;
  std::vector<bool> blocks;
  uint64_t block_bytes = 0;  // of `blocks`; 0: as DownloadOptions has it
  // Give the file its name once what is wanted is there; else it stays partial.
  bool finish = true;
};

// Of one commit of one repository, into one folder, which it holds for itself while it lives.
class Downloader {
 public:
  // Makes the folder. manifest: what is remembered of the folder; Fetch adds to it and saves it.
  // Throws Error(kIo) where the folder cannot be made or another program downloads into it.
  Downloader(DownloadOptions options, RepositoryAddress address, std::string commit,
             Manifest& manifest);
  ~Downloader();
  Downloader(const Downloader&) = delete;
  Downloader& operator=(const Downloader&) = delete;

  // Gets the answer of one URL into memory, with retries. Throws Error(kRun) for what a server
  // refuses and Error(kIo) where the net fails for good.
  std::string GetText(const std::string& url, uint64_t most_bytes);

  // Fetches what is wanted and not there, in the given order. Files that are there and are what
  // they should be stay; whole files are compared with their hash while they arrive, and once more
  // fetched where that differs. Checks the disk's space first. Throws Error: kIo where the disk or
  // the net fails (what is there stays for the next time), kRun where the server refuses or gives
  // something else than it promised, kInterrupted once *stop is set.
  void Fetch(std::vector<WantedFile> files);

  uint64_t bytes_fetched() const;
  uint64_t BytesMissing(const std::vector<WantedFile>& files);

 private:
  class Work;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kimi_k3

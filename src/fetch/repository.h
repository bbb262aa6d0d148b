// A repository of a Hugging Face-compatible server: its commit, its files, their sizes and hashes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fetch/digest.h"
#include "fetch/http_client.h"

namespace kimi_k3 {

// Which repository, where.
struct RepositoryAddress {
  std::string endpoint;    // "https://huggingface.co", without a slash at the end
  std::string repository;  // "moonshotai/Kimi-K3"
  std::string revision;    // a branch, a tag or a commit
  std::string token;       // may be empty; never shown
};

// Reads REPO or REPO@REVISION ("main" where none is given); endpoint: HF_ENDPOINT or the public
// one; token: HF_TOKEN, or the text of the file at HF_TOKEN_PATH or in ~/.cache/huggingface (or
// HF_HOME). Throws Error(kUsage) for a name that is none and for an endpoint that is no web
// address.
RepositoryAddress ParseRepository(std::string_view text);

struct RemoteFile {
  std::string name;
  uint64_t bytes = 0;
  std::optional<ExpectedHash> hash;  // nothing where the server does not say
};

struct RemoteListing {
  std::string commit;
  std::vector<RemoteFile> files;  // sorted by name
};

// The text of the answer of /api/models/REPO/revision/REV?blobs=true. Throws Error(kRun) where it
// is none, naming what is wrong: also a file name that leads out of a folder, a file listed twice
// or without a size.
RemoteListing ParseListing(std::string_view json, std::string_view source);

std::string ListingUrl(const RepositoryAddress& address);
// Of a file of a commit.
std::string FileUrl(const RepositoryAddress& address, const std::string& commit,
                    const std::string& name);

// What a refusal means to the person who asked: no such repository, no right to it, and so on.
// Never shows the token.
std::string DescribeStatus(const HttpReply& reply, const RepositoryAddress& address);

// Whether the same request may work later: the net, 408, 425, 429 and 5xx; never a server that
// cannot prove who it is, or redirects where it may not.
bool MayWorkLater(const HttpReply& reply);

}  // namespace kimi_k3

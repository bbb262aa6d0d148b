// Reads model.safetensors.index.json in pieces: which tensor lies in which shard.
#include "checkpoint/index_reader.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "checkpoint/problem_list.h"
#include "checkpoint/untrusted_file.h"

namespace kimi_k3 {
namespace {

constexpr size_t kWindowBytes = 256 * 1024;
constexpr size_t kLongestString = 64 * 1024;
constexpr size_t kLongestOtherValue = 1024 * 1024;
constexpr int kEnd = -1;

// The bytes of a file, a window at a time. A token is whole in the window while it is looked at.
class Window {
 public:
  explicit Window(const std::filesystem::path& path)
      : path_(path), file_(OpenRegularFile(path)), buffer_(kWindowBytes) {}

  uint64_t file_bytes() const { return file_.bytes; }
  uint64_t offset() const { return consumed_ + begin_; }

  // The next byte, or kEnd.
  int Peek() {
    if (begin_ == end_ && !Fill()) return kEnd;
    return static_cast<unsigned char>(buffer_[begin_]);
  }
  void Skip() { ++begin_; }

  // What is in the window from here on; valid until the next Fill.
  std::string_view Rest() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void Advance(size_t bytes) { begin_ += bytes; }

  // Reads on, keeping what is not consumed yet; false at the end of the file.
  bool Fill() {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    consumed_ += begin_;
    end_ -= begin_;
    begin_ = 0;
    const uint64_t at = consumed_ + end_;
    if (at == file_.bytes) return false;
    if (end_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
    const size_t bytes = std::min<uint64_t>(buffer_.size() - end_, file_.bytes - at);
    ReadExactly(file_.fd, path_, at,
                std::as_writable_bytes(std::span(buffer_).subspan(end_, bytes)));
    end_ += bytes;
    return true;
  }

 private:
  const std::filesystem::path& path_;
  OpenFile file_;
  std::vector<char> buffer_;
  uint64_t consumed_ = 0;  // bytes of the file before the window
  size_t begin_ = 0;
  size_t end_ = 0;
};

class IndexReader {
 public:
  explicit IndexReader(const std::filesystem::path& path) : path_(path), window_(path) {
    if (window_.file_bytes() > kIndexBytesLimit) {
      Fail(ErrorKind::kCheckpoint, "{}: is {} long, more than the {} an index may have",
           path.string(), FormatByteSize(window_.file_bytes()), FormatByteSize(kIndexBytesLimit));
    }
  }

  void Read(FunctionRef<void(std::string_view, std::string_view)> visit) {
    window_.Peek();
    if (IsLfsPointer(window_.Rest())) {
      Fail(ErrorKind::kCheckpoint,
           "{}: is a git-lfs pointer: the real file was never downloaded (fetch it again)",
           path_.string());
    }
    std::set<std::string> seen;
    Members([&](const std::string& key) {
      if (!seen.insert(key).second) Refuse(fmt::format("the key {} is repeated", Printable(key)));
      if (key == "weight_map") {
        ReadMap(visit);
      } else {
        SkipValue();
      }
    });
    if (NextByte() != kEnd) Refuse("has text after its closing brace");
    if (pairs_ == 0) Refuse("its weight_map is missing or empty");
  }

 private:
  [[noreturn]] void Refuse(std::string_view what) {
    Fail(ErrorKind::kCheckpoint, "{}: {} (near byte {}); fetch it again", path_.string(), what,
         window_.offset());
  }

  // The next byte that is not white space, not consumed.
  int NextByte() {
    for (;;) {
      const int byte = window_.Peek();
      if (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t') return byte;
      window_.Skip();
    }
  }

  void Expect(char wanted) {
    const int byte = NextByte();
    if (byte == kEnd) Refuse("ends too early: is it truncated?");
    if (byte != wanted) {
      const char found = static_cast<char>(byte);
      Refuse(fmt::format("is not valid JSON: '{}' where '{}' should be", Printable({&found, 1}),
                         wanted));
    }
    window_.Skip();
  }

  // Reads { key: ..., key: ... }, leaving each value to `member`.
  template <typename Member>
  void Members(const Member& member) {
    std::string key;
    Expect('{');
    if (NextByte() == '}') {
      window_.Skip();
      return;
    }
    for (;;) {
      ReadString(key);
      Expect(':');
      member(key);
      if (NextByte() != ',') break;
      window_.Skip();
    }
    Expect('}');
  }

  void ReadMap(FunctionRef<void(std::string_view, std::string_view)> visit) {
    std::string file;
    Members([&](const std::string& name) {
      if (NextByte() != '"') {
        Refuse(fmt::format("weight_map: the file of {} is not a string", Printable(name)));
      }
      ReadString(file);
      ++pairs_;
      visit(name, file);
    });
  }

  // Length of the string's body at the front of the window, reading on as needed.
  size_t FindQuote() {
    size_t searched = 0;
    for (;;) {
      const std::string_view rest = window_.Rest();
      const size_t quote = rest.find('"', searched);
      if (quote == std::string_view::npos) {
        if (rest.size() > kLongestString) Refuse("holds a string that is too long");
        searched = rest.size();
        if (!window_.Fill()) Refuse("ends inside a string: is it truncated?");
        continue;
      }
      // An odd number of backslashes makes the quote part of the string.
      size_t backslashes = 0;
      while (backslashes < quote && rest[quote - 1 - backslashes] == '\\') ++backslashes;
      if (backslashes % 2 == 0) return quote;
      searched = quote + 1;
    }
  }

  void ReadString(std::string& out) {
    Expect('"');
    const size_t length = FindQuote();
    const std::string_view body = window_.Rest().substr(0, length);
    if (body.find('\\') == std::string_view::npos) {
      out.assign(body);
    } else {
      Unescape(body, out);
    }
    window_.Advance(length + 1);
  }

  void Unescape(std::string_view body, std::string& out) {
    const auto text = nlohmann::json::parse(fmt::format("\"{}\"", body), nullptr, false);
    if (!text.is_string()) Refuse("holds a string that is not valid JSON");
    out = text.get<std::string>();
  }

  // A value that nobody needs, gathered up to its end and then checked as a whole.
  void SkipValue() {
    std::string text;
    std::string string;
    size_t depth = 0;
    NextByte();
    for (;;) {
      const int byte = window_.Peek();
      if (byte == kEnd) Refuse("ends too early: is it truncated?");
      const bool closes = byte == '}' || byte == ']';
      if (depth == 0 && (closes || byte == ',')) break;
      if (byte == '"') {
        ReadString(string);
        text +=
            nlohmann::json(string).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      } else {
        if (byte == '{' || byte == '[') ++depth;
        if (closes) --depth;
        text += static_cast<char>(byte);
        window_.Skip();
      }
      if (text.size() > kLongestOtherValue) Refuse("holds a value that is too long");
    }
    if (!nlohmann::json::accept(text)) Refuse("is not valid JSON");
  }

  const std::filesystem::path& path_;
  Window window_;
  uint64_t pairs_ = 0;
};

}  // namespace

void ReadTensorIndex(const std::filesystem::path& path,
                     FunctionRef<void(std::string_view, std::string_view)> visit) {
  IndexReader(path).Read(visit);
}

}  // namespace kimi_k3

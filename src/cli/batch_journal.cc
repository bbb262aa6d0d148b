// What a batch has generated of answers that are not finished, so that a run that is killed loses
// seconds and not nights.
#include "cli/batch_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cli/line_scanner.h"
#include "text/json_value.h"

namespace kimi_k3 {
namespace {

using text::JsonValue;

constexpr uint64_t kMostLineBytes = uint64_t{64} << 20;

std::filesystem::path Beside(std::filesystem::path results) {
  results += ".begun";
  return results;
}

template <typename T>
std::optional<T> WholeNumber(const JsonValue* value) {
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const std::string& text = value->number().text;
  T number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

BatchJournal::BatchJournal(const BatchInput& input, const BatchOutput& output, BatchFlags flags)
    : path_(Beside(output.path())), input_(input), output_(output), flags_(std::move(flags)) {
  ReadPieces();
  RefuseWhatOthersBegan();
  std::erase_if(begun_, [](const auto& entry) { return entry.second.empty(); });
  if (begun_.empty() && output_.results() == 0) {
    Remove();
  } else {
    Rewrite();
  }
}

std::optional<BatchFlags> BatchJournal::FlagsOf(const std::filesystem::path& results) {
  const std::filesystem::path path = Beside(results);
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return std::nullopt;
  try {
    LineScanner scanner(fd, path, kMostLineBytes);
    const std::optional<ScannedLine> line = scanner.Next();
    return line ? ReadBatchFlags(line->text) : std::nullopt;
  } catch (const Error&) {  // it only makes a message better
    return std::nullopt;
  }
}

void BatchJournal::Start() {
  if (bytes_ == 0) Rewrite();
}

void BatchJournal::ReadPieces() {
  const UniqueFd fd(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return;
  LineScanner scanner(fd, path_, kMostLineBytes);
  try {
    while (const std::optional<ScannedLine> line = scanner.Next()) {
      if (line->ended) Take(line->text);
    }
  } catch (const Error&) {  // what cannot be read is generated anew
  }
}

// A piece counts where it goes on from what is known, so that nothing is missing between.
void BatchJournal::Take(std::string_view line) {
  const text::JsonParseResult parsed = text::ParseJson(line);
  if (!parsed.value) return;
  const JsonValue* name = parsed.value->Find("id");
  const JsonValue* tokens = parsed.value->Find("tokens");
  const auto from = WholeNumber<size_t>(parsed.value->Find("from"));
  if (name == nullptr || !name->is_string() || tokens == nullptr || !tokens->is_array() || !from) {
    return;
  }
  const std::optional<BatchId> id = BatchId::FromName(name->string());
  const std::optional<size_t> index = id ? input_.Find(*id) : std::nullopt;
  if (id && !index) others_.insert(name->string());
  any_known_ = any_known_ || index.has_value();
  if (!index || output_.has(*index)) return;
  std::vector<TokenId> read;
  for (const JsonValue& token : tokens->items()) {
    const auto number = WholeNumber<TokenId>(&token);
    if (!number) return;
    read.push_back(*number);
  }
  std::vector<TokenId>& known = begun_[*index];
  if (*from == known.size()) known.insert(known.end(), read.begin(), read.end());
}

// Hours may be in it, and other flags are more often a slip than meant.
void BatchJournal::RefuseWhatOthersBegan() const {
  if (any_known_ || others_.empty() || output_.results() > 0) return;
  const std::string changed = output_.changed_flags().value_or("");
  Fail(ErrorKind::kUsage,
       "{}: holds {} answer{} begun for other requests, with another model or other flags than now"
       "{}: give those again to go on, remove the file to begin anew, or name another -o",
       path_.string(), others_.size(), others_.size() == 1 ? "" : "s",
       changed.empty() ? "" : " (" + changed + ")");
}

std::string BatchJournal::LineOf(size_t index, const Piece& piece) const {
  return fmt::format("{{\"id\":\"{}\",\"from\":{},\"tokens\":[{}]}}\n",
                     input_.lines()[index].id.Name(), piece.from, fmt::join(piece.tokens, ","));
}

void BatchJournal::Rewrite() {
  AtomicFile file(path_);
  file.Append(std::string_view(BatchFlagsLine(flags_)));
  for (const auto& [index, tokens] : begun_) {
    file.Append(std::string_view(LineOf(index, {.from = 0, .tokens = tokens})));
  }
  file.Commit();
  std::error_code ignored;
  bytes_ = std::filesystem::file_size(path_, ignored);
}

std::vector<TokenId> BatchJournal::TakeBegun(size_t index) {
  const auto found = begun_.find(index);
  if (found == begun_.end()) return {};
  std::vector<TokenId> tokens = std::move(found->second);
  begun_.erase(found);
  return tokens;
}

void BatchJournal::Note(size_t index, size_t place, TokenId token) {
  const std::lock_guard lock(mutex_);
  Piece& piece = noted_[index];
  if (piece.tokens.empty()) piece.from = place;
  piece.tokens.push_back(token);
}

void BatchJournal::Sync() {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [index, piece] : noted_) {
      if (!output_.has(index)) text += LineOf(index, piece);
    }
    noted_.clear();
  }
  if (text.empty()) return;
  if (!fd_.valid()) {
    fd_ = UniqueFd(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  }
  size_t written = 0;
  while (fd_.valid() && written < text.size()) {
    const ssize_t n = pwrite(fd_.get(), text.data() + written, text.size() - written,
                             static_cast<off_t>(bytes_ + written));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    written += static_cast<size_t>(n);
  }
  if (written < text.size() || fdatasync(fd_.get()) != 0) {
    Fail(ErrorKind::kIo,
         "{}: cannot write: {}; the results are whole, and the same command goes on",
         path_.string(), std::generic_category().message(errno));
  }
  bytes_ += written;
}

void BatchJournal::Remove() {
  fd_ = UniqueFd();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace kimi_k3

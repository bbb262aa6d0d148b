// The results of a batch: a file of JSON lines that grows by whole, synced lines.
#include "cli/batch_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "cli/line_scanner.h"
#include "text/json_text.h"
#include "text/json_value.h"

namespace kimi_k3 {
namespace {

using text::JsonValue;

// An answer with the probabilities of many tokens is long.
constexpr uint64_t kMostResultBytes = uint64_t{1} << 30;
constexpr size_t kPieceBytes = size_t{1} << 20;

std::string Reason() { return std::generic_category().message(errno); }

std::string Quoted(std::string_view text) {
  std::string quoted;
  if (text.empty()) return "null";
  text::AppendJsonString(text, quoted);
  return quoted;
}

std::string LineStart(const BatchId& id) { return fmt::format("{{\"id\":\"{}\"", id.Name()); }

// made: whether it was not there.
UniqueFd OpenOutput(const std::filesystem::path& path, const UniqueFd& input, bool& made) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK;
  UniqueFd fd(open(path.c_str(), kFlags | O_EXCL, 0666));
  made = fd.valid();
  if (!made) fd = UniqueFd(open(path.c_str(), kFlags, 0666));
  if (!fd.valid()) Fail(ErrorKind::kIo, "{}: cannot create: {}", path.string(), Reason());
  struct stat own = {};
  struct stat other = {};
  if (fstat(fd.get(), &own) != 0 || !S_ISREG(own.st_mode)) {
    Fail(ErrorKind::kIo, "{}: is no regular file", path.string());
  }
  if (fstat(input.get(), &other) == 0 && own.st_ino == other.st_ino && own.st_dev == other.st_dev) {
    Fail(ErrorKind::kUsage, "-o,--output: {} is the file of the requests", path.string());
  }
  // A file that has had its place taken since it was opened is nobody's results any more.
  struct stat named = {};
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0 || stat(path.c_str(), &named) != 0 ||
      named.st_ino != own.st_ino || named.st_dev != own.st_dev) {
    Fail(ErrorKind::kIo, "{}: another kimi_k3 is at work on this batch", path.string());
  }
  return fd;
}

void SyncFolderOf(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const UniqueFd directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || fsync(directory.get()) != 0) {
    Fail(ErrorKind::kIo, "{}: cannot sync the folder: {}", folder.string(), Reason());
  }
}

}  // namespace

std::string BatchResultLine(const BatchId& id, std::string_view custom_id, int status,
                            std::string_view body) {
  return fmt::format(
      "{},\"custom_id\":{},\"response\":{{\"status_code\":{},\"request_id\":\"req_{}\",\"body\":{}}"
      "}"
      ",\"error\":null}}\n",
      LineStart(id), Quoted(custom_id), status, id.Hex(), body);
}

std::string BatchProblemLine(const BatchId& id, const BatchProblem& problem) {
  return fmt::format(
      "{},\"custom_id\":{},\"response\":null,\"error\":{{\"code\":{},\"message\":{}}}}}\n",
      LineStart(id), Quoted(problem.custom_id), Quoted(problem.code), Quoted(problem.message));
}

BatchOutput::BatchOutput(std::filesystem::path path, const BatchInput& input,
                         std::optional<std::string> changed_flags)
    : path_(std::move(path)),
      input_(input),
      changed_flags_(std::move(changed_flags)),
      fd_(OpenOutput(path_, input.file(), made_here_)),
      line_of_(input.lines().size()) {
  ReadResults();
  RemoveOutdated();
  SyncFolderOf(path_);
}

// Whoever opened it meanwhile waits for no lock, and finds that the name is another file's.
BatchOutput::~BatchOutput() {
  if (made_here_ && bytes_ == 0) unlink(path_.c_str());
}

std::string BatchOutput::Standing() const {
  return fmt::format("{} of {} requests done{}", results_ - unanswered_, input_.lines().size(),
                     unanswered_ == 0 ? "" : fmt::format(", {} refused", unanswered_));
}

void BatchOutput::ReadResults() {
  LineScanner scanner(fd_, path_, kMostResultBytes);
  while (const std::optional<ScannedLine> line = scanner.Next()) {
    if (!line->ended) {
      RefuseAnotherJob();
      CutTornLine(line->text);
      return;
    }
    lines_ = line->number;
    bytes_ = line->offset + line->bytes + 1;
    if (!Take(line->text)) outdated_.push_back({.begin = line->offset, .end = bytes_});
  }
  RefuseAnotherJob();
}

// Why a request was refused is no loss where the request is gone; a file of nothing else is more
// likely another job's.
void BatchOutput::RefuseAnotherJob() const {
  if (stray_line_ == 0 || any_known_) return;
  Fail(
      ErrorKind::kUsage,
      "{}: line {} is of \"{}\", which {} does not ask, nor anything else in it; name another file "
      "(-o)",
      path_.string(), stray_line_, stray_, input_.path().string());
}

// What a killed program or a lost power supply leaves is the beginning of a result, or zeros.
void BatchOutput::CutTornLine(std::string_view torn) {
  const std::string_view begin = "{\"id\":\"batch_req_";
  const bool ours = torn.starts_with(begin) || begin.starts_with(torn) ||
                    std::ranges::all_of(torn, [](char c) { return c == '\0'; });
  if (!ours) {
    Fail(ErrorKind::kUsage, "{}: is no file of results; name another (-o)", path_.string());
  }
  if (ftruncate(fd_.get(), static_cast<off_t>(bytes_)) != 0) {
    Fail(ErrorKind::kIo, "{}: cannot cut off its torn last line: {}", path_.string(), Reason());
  }
  cut_bytes_ = torn.size();
}

bool BatchOutput::Take(std::string_view line) {
  const text::JsonParseResult parsed = text::ParseJson(line);
  const JsonValue* name = parsed.value ? parsed.value->Find("id") : nullptr;
  const JsonValue* response = parsed.value ? parsed.value->Find("response") : nullptr;
  const std::optional<BatchId> id =
      name != nullptr && name->is_string() ? BatchId::FromName(name->string()) : std::nullopt;
  if (!id || response == nullptr) {
    Fail(ErrorKind::kUsage, "{}: line {} is no result of a batch; name another file (-o)",
         path_.string(), lines_);
  }
  const JsonValue* status = response->Find("status_code");
  const bool answered = status != nullptr && status->is_number() && status->number().text == "200";
  const std::optional<size_t> index = input_.Find(*id);
  if (!index) return !IsOutdated(*parsed.value, !answered);
  if (has(*index)) {
    Fail(ErrorKind::kUsage,
         "{}: lines {} and {} answer the same request, which kimi_k3 does once; remove one of them",
         path_.string(), line_of_[*index], lines_);
  }
  line_of_[*index] = lines_;
  any_known_ = true;
  Count(answered);
  return true;
}

// A result of no request that the input has: outdated where it says only why a line was refused
// that is there otherwise now, or gone.
bool BatchOutput::IsOutdated(const JsonValue& result, bool refused) {
  if (result.Find("response")->is_null()) return true;
  const JsonValue* custom_id = result.Find("custom_id");
  const std::string whose =
      custom_id != nullptr && custom_id->is_string() ? custom_id->string() : std::string();
  const bool known = input_.HasCustomId(whose);
  any_known_ = any_known_ || known;
  if (refused) {
    if (!known && stray_line_ == 0) {
      stray_ = whose;
      stray_line_ = lines_;
    }
    return true;
  }
  if (!known) {
    Fail(ErrorKind::kUsage,
         "{}: line {} answers \"{}\", which {} does not ask; name another file (-o), or remove the "
         "line where it is wanted no more",
         path_.string(), lines_, whose, input_.path().string());
  }
  if (changed_flags_ && changed_flags_->empty()) {
    Fail(ErrorKind::kUsage,
         "{}: line {} answers \"{}\", but {} has another request of that name now; name another "
         "file (-o), or give the request another custom_id",
         path_.string(), lines_, whose, input_.path().string());
  }
  if (changed_flags_) {
    Fail(ErrorKind::kUsage,
         "{}: line {} answers \"{}\" with other flags than now ({}); give those that it was begun "
         "with, or name another file (-o)",
         path_.string(), lines_, whose, *changed_flags_);
  }
  Fail(ErrorKind::kUsage,
       "{}: line {} answers \"{}\", but another request of that name, or with another model or "
       "other flags than now (such as -c, --temp or --model-name); name another file (-o), or give "
       "what it was begun with",
       path_.string(), lines_, whose);
}

void BatchOutput::RemoveOutdated() {
  if (outdated_.empty()) return;
  AtomicFile file(path_);
  std::vector<std::byte> piece(kPieceBytes);
  uint64_t at = 0;
  uint64_t kept = 0;
  const auto copy_until = [&](uint64_t end) {
    while (at < end) {
      const std::span<std::byte> bytes(piece.data(), std::min<uint64_t>(piece.size(), end - at));
      ReadExactly(fd_, path_, at, bytes);
      file.Append(bytes);
      at += bytes.size();
      kept += bytes.size();
    }
  };
  for (const Stretch& stretch : outdated_) {
    copy_until(stretch.begin);
    at = stretch.end;
  }
  copy_until(bytes_);
  file.Commit();
  fd_ = OpenOutput(path_, input_.file(), made_here_);
  if (FileSizeBytes(fd_, path_) != kept) {
    Fail(ErrorKind::kIo, "{}: another kimi_k3 has been at work on this batch; start again",
         path_.string());
  }
  bytes_ = kept;
  lines_ -= outdated_.size();
}

void BatchOutput::Count(bool answered) {
  ++results_;
  if (!answered) ++unanswered_;
}

void BatchOutput::Add(size_t index, std::string_view line, bool answered) {
  waiting_ += line;
  line_of_[index] = ++lines_;
  Count(answered);
}

void BatchOutput::Sync() {
  size_t written = 0;
  while (written < waiting_.size()) {
    const ssize_t n = pwrite(fd_.get(), waiting_.data() + written, waiting_.size() - written,
                             static_cast<off_t>(bytes_ + written));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    written += static_cast<size_t>(n);
  }
  std::string failure = written == waiting_.size() ? "" : "cannot write: " + Reason();
  if (!failure.empty()) {
    // A line that has no room is not there at all; what cannot be cut off now is cut off later.
    written = written == 0 ? 0 : waiting_.rfind('\n', written - 1) + 1;
    if (ftruncate(fd_.get(), static_cast<off_t>(bytes_ + written)) != 0) failure += ", nor cut";
  }
  if (written > 0 && fdatasync(fd_.get()) != 0 && failure.empty()) {
    failure = "cannot sync: " + Reason();
  }
  if (!failure.empty()) {
    Fail(ErrorKind::kIo, "{}: {}; the results in it are whole, and the same command goes on",
         path_.string(), failure);
  }
  bytes_ += written;
  waiting_.clear();
}

}  // namespace kimi_k3

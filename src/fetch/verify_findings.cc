// What a verification has found of each file, gathered from several threads.
#include "fetch/verify_findings.h"

#include <algorithm>
#include <sstream>
#include <utility>

namespace kimi_k3 {

VerifyFindings::VerifyFindings(const KnownFiles& known) {
  for (const auto& [name, file] : known.files) {
    report_.files.push_back({name, file.path(), FileState::kGood, false, false, false, {}});
  }
}

FileFinding& VerifyFindings::FindingOf(const std::string& name) {
  return *std::ranges::find(report_.files, name, &FileFinding::name);
}

const FileFinding& VerifyFindings::FindingOf(const std::string& name) const {
  return *std::ranges::find(report_.files, name, &FileFinding::name);
}

void VerifyFindings::NoteLocked(const std::string& name, FileState state,
                                const std::string& problem) {
  FileFinding& finding = FindingOf(name);
  finding.state = std::max(finding.state, state);
  if (std::ranges::find(finding.problems, problem) == finding.problems.end()) {
    finding.problems.push_back(problem);
  }
}

void VerifyFindings::Note(const std::string& name, FileState state, const std::string& problem) {
  const std::scoped_lock lock(mutex_);
  NoteLocked(name, state, problem);
}

void VerifyFindings::NoteWrongSize(const std::string& name, const std::string& problem) {
  const std::scoped_lock lock(mutex_);
  NoteLocked(name, FileState::kBad, problem);
  wrong_size_.insert(name);
}

void VerifyFindings::NoteHeader(const std::string& name, const std::string& problems) {
  const std::scoped_lock lock(mutex_);
  if (!FindingOf(name).problems.empty()) return;
  std::istringstream lines(problems);
  for (std::string line; std::getline(lines, line);) NoteLocked(name, FileState::kBad, line);
}

void VerifyFindings::NoteStructure(const std::string& line) {
  const std::scoped_lock lock(mutex_);
  for (FileFinding& finding : report_.files) {
    if (!line.starts_with(finding.path.string() + ":")) continue;
    if (wrong_size_.contains(finding.name)) return;
    finding.state = std::max(finding.state, FileState::kBad);
    finding.problems.push_back(line);
    return;
  }
  report_.problems.push_back(line);
}

void VerifyFindings::NoteHashed(const std::string& name, bool hashed, bool hash_holds) {
  const std::scoped_lock lock(mutex_);
  FileFinding& finding = FindingOf(name);
  finding.hashed = hashed;
  finding.hash_holds = hash_holds;
}

void VerifyFindings::NoteRemembered(const std::string& name, bool hashed) {
  const std::scoped_lock lock(mutex_);
  FileFinding& finding = FindingOf(name);
  finding.remembered = true;
  finding.hashed = hashed;
}

FileState VerifyFindings::StateOf(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  return FindingOf(name).state;
}

bool VerifyFindings::HasWrongSize(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  return wrong_size_.contains(name);
}

void VerifyFindings::AcquitGoodFiles() {
  const std::scoped_lock lock(mutex_);
  for (FileFinding& finding : report_.files) {
    if (!finding.hash_holds || finding.state != FileState::kBad) continue;
    finding.state = FileState::kGood;
    for (std::string& problem : finding.problems) report_.problems.push_back(std::move(problem));
    finding.problems.clear();
  }
}

VerifyReport VerifyFindings::Take() {
  const std::scoped_lock lock(mutex_);
  return std::move(report_);
}

}  // namespace kimi_k3

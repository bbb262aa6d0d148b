#!/usr/bin/env bash
# Runs clang-tidy over the code; what it finds is an error. .clang-tidy says what it looks for.
#   scripts/tidy.sh           src, include, bench, docs, fuzz; about half an hour of one core
#   scripts/tidy.sh FILE ...  these sources with what they include; a header by a source that includes it
# Nothing is installed. JOBS: how many run at once (one for each core).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
stop() { printf 'tidy.sh: %s\n' "$*" >&2; exit 2; }
named=()
for file in "$@"; do
  [ -f "$file" ] || stop "there is no file \"$file\""
  named+=("$(realpath --relative-to="$root" "$file")")
done
cd "$root"
needed="scripts/setup.sh clang-14 clang-tidy-14 libbenchmark-dev installs what is needed"
for program in clang-tidy-14 clang++-14 cmake ninja; do
  command -v "$program" >/dev/null || stop "$program is missing; $needed"
done

scratch=$(mktemp)
trap 'rm -f "$scratch"' EXIT
# configure FOLDER [option ...]: writes how each source is compiled; builds nothing.
configure() {
  cmake --preset clang -B "$1" -DKIMI_K3_BENCH=ON -DKIMI_K3_FUZZ=ON "${@:2}" >"$scratch" 2>&1 ||
    { cat "$scratch" >&2; stop "cannot configure; $needed"; }
}
# sources FOLDER PATTERN: those of its sources that match.
sources() { sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$1/compile_commands.json" | grep -E "$2" | sort -u; }
# source_of FILE: itself, or the first source that includes the header.
source_of() {
  local header=${1#src/}
  if [[ $1 != *.h ]]; then echo "$1"; return; fi
  grep -rlF --include='*.cc' "\"${header#include/}\"" src | sort | sed -n 1p
}

# Sources of a room are looked at sixteen at a time, as a unity build compiles them, in a quarter of
# the time. A batch includes sources, which is no fault of theirs.
single=build/tidy
batched=build/tidy_batches
configure "$single" -DCMAKE_UNITY_BUILD=OFF
work=()
if [ ${#named[@]} -gt 0 ]; then
  for file in "${named[@]}"; do
    source=$PWD/$(source_of "$file")
    sources "$single" . | grep -xF "$source" >/dev/null || stop "$file is not part of the build"
    work+=("$single" "$source" "")
  done
else
  configure "$batched" -DCMAKE_UNITY_BUILD=ON
  page=src/server/web_page_bytes.cc  # written by a build, and part of a batch
  cmake -DINPUT=src/server/web/index.html -DOUTPUT="$batched/$page" -P cmake/EmbedText.cmake
  while read -r file; do work+=("$batched" "$file" -bugprone-suspicious-include); done \
    < <(sources "$batched" "^$PWD/($batched/)?src/")
  while read -r file; do work+=("$single" "$file" ""); done < <(sources "$single" "^$PWD/(bench|docs|fuzz)/")
fi

total=$((${#work[@]} / 3))
for ((i = 0; i < total; ++i)); do
  printf '%s\0' "$((i + 1))/$total" "${work[@]:i * 3:3}"
done >"$scratch"
# check PLACE FOLDER SOURCE CHECKS: a line that it is done, and what was found.
check() {
  local output name=${3#"$PWD"/} rc=0
  output=$(clang-tidy-14 -p "$2" --quiet ${4:+--checks="$4"} "$3" 2>&1) || rc=$?
  name=${name#"$2"/} name=${name/CMakeFiles\//} name=${name/.dir\/Unity\/unity_/ } name=${name%_cxx.cxx}
  printf '[%s] %s\n' "$1" "$name"
  [ "$rc" = 0 ] && return
  grep -vE '^[0-9]+ warnings? (generated|and)' <<<"$output"
  return 1
}
export -f check
rc=0
xargs -0 -n 4 -P "${JOBS:-$(nproc)}" bash -c 'check "$@"' check <"$scratch" || rc=$?
case $rc in
  0) echo "nothing found" ;;
  123) echo "tidy.sh: there are findings" >&2 && exit 1 ;;
  *) stop "was interrupted" ;;
esac

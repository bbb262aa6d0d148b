#!/usr/bin/env bash
# Builds and tests everything, on a fresh Debian 12 with git alone.
#   scripts/test.sh            release, ASan+UBSan, TSan (concurrent rooms), clang, fuzzing, reference
#   scripts/test.sh --quick    release only
set -euo pipefail
cd "$(dirname "$0")/.."

quick=false
[ "${1:-}" = --quick ] && quick=true
scripts/setup.sh python3 python3-numpy
$quick || scripts/setup.sh clang-14 libclang-rt-14-dev

say() { printf '\n== %s\n' "$*"; }
jobs=$(nproc)

# build PRESET: configures and builds, showing the log only where it fails.
build() {
  say "build: $1"
  cmake --preset "$1" >"build-$1.log" 2>&1 && cmake --build --preset "$1" -j "$jobs" >>"build-$1.log" 2>&1 ||
    { tail -n 60 "build-$1.log"; exit 1; }
  rm -f "build-$1.log"
}
# check PRESET [ctest options]: runs its tests.
check() {
  local preset=$1
  shift
  say "test: $preset"
  (cd "build/$preset" && ctest --output-on-failure --no-tests=error -j "$jobs" --progress "$@" | tail -n 40)
}

build release
check release
say "test: reference"
python3 -m unittest discover -s tools/reference -t tools/reference
$quick && exit 0

export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
build asan
check asan
build tsan
check tsan -L 'base|residency|model|engine'
build clang
scripts/fuzz.sh "${FUZZ_SECONDS:-60}"
say "all passed"

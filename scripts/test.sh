#!/usr/bin/env bash
# Builds and tests everything, on a fresh Debian 12 with git alone.
#   scripts/test.sh            release, ASan+UBSan, TSan (concurrent rooms), clang, fuzzing, reference
#   scripts/test.sh --quick    release only
# CLANG_UNITY=ON: clang compiles rooms whole too.
# FUZZ_SECONDS: how long each fuzz target runs (60); 0: none is built.
set -euo pipefail
cd "$(dirname "$0")/.."

quick=false
[ "${1:-}" = --quick ] && quick=true
scripts/setup.sh python3 python3-numpy
# For tests that are skipped without them.
scripts/setup.sh python3-venv chromium chromium-driver || true
$quick || scripts/setup.sh clang-14 libclang-rt-14-dev

say() { printf '\n== %s\n' "$*"; }
jobs=$(nproc)

# Rooms compiled whole and the tests' headers once, in less time; clang compiles source by source,
# which finds what one takes from another.
unity=(-DCMAKE_UNITY_BUILD=ON -DKIMI_K3_PCH=ON)
# build PRESET [target ...]: configures and builds, showing the log only where it fails.
build() {
  local preset=$1 log
  shift
  log=$(mktemp)
  say "build: $preset"
  { cmake --preset "$preset" "${unity[@]}" && cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"}; } \
    >"$log" 2>&1 || { tail -n 60 "$log"; exit 1; }
  rm -f "$log"
}
# check PRESET [ctest options]: runs its tests.
check() {
  local preset=$1
  shift
  say "test: $preset"
  (cd "build/$preset" && ctest --output-on-failure --no-tests=error -j "$jobs" "$@" >ctest.log 2>&1) ||
    { grep -vE '^ *(Start|[0-9]+/[0-9]+ .* Passed)' "build/$preset/ctest.log" | tail -n 200; exit 1; }
  grep -E 'tests passed|Total Test time|skipped|Skipped' "build/$preset/ctest.log"
}

# The first Python that has NumPy.
python=
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -c 'import numpy' 2>/dev/null; then python=$candidate && break; fi
done

build release
check release
say "test: reference"
"${python:?no python3 with numpy}" -m unittest discover -s tools/reference -t tools/reference
$quick && exit 0

export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
# The rooms; the program, which is these and its command line, is tested in the release build.
build asan base_test checkpoint_test fetch_test overlay_test kernels_test residency_test text_test grammar_test \
  model_test engine_test server_test example
# Long runs over text, whole in release; their code is that of the other tests of the model.
check asan -L 'base|checkpoint|fetch|overlay|kernels|residency|text|grammar|model|engine|server' \
  -E 'TinyModelTest.(HeldOutChapters|NineOfTenOfAllVerses|QuestionsAre|LogitsOnHeldOut|TheMostLikely)'
build tsan base_test residency_test model_test engine_test example
check tsan -L 'base|residency|model|engine' -E 'TinyM'
# Source by source, unless time is short.
[ "${CLANG_UNITY:-OFF}" = ON ] || unity=()
build clang kimi_k3 example
[ "${FUZZ_SECONDS:-60}" = 0 ] ||
  scripts/fuzz.sh "${FUZZ_SECONDS:-60}" tokenizer json_schema safetensors_header model_config tensor_index
say "all passed"

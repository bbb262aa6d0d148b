#!/usr/bin/env bash
# Builds the fuzz targets (clang, ASan and UBSan) and runs each for some seconds.
#   scripts/fuzz.sh [seconds] [target ...]     60 seconds, all targets of fuzz/
# New inputs gather in build/fuzz/corpus; an input that fails is kept in build/fuzz/failures.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz.sh: \"$seconds\" is not a number of seconds" >&2; exit 2; }
targets=("${@:2}")
if [ ${#targets[@]} -eq 0 ]; then
  for source in fuzz/*_fuzz.cc; do targets+=("$(basename "$source" _fuzz.cc)"); done
fi

scripts/setup.sh clang-14 libclang-rt-14-dev
cmake --preset fuzz >/dev/null
for target in "${targets[@]}"; do
  cmake --build --preset fuzz --target "${target}_fuzz" -j "$(nproc)" >/dev/null
done

export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
mkdir -p build/fuzz/failures
for target in "${targets[@]}"; do
  printf '== fuzz: %s, %s s\n' "$target" "$seconds"
  mkdir -p "build/fuzz/corpus/$target"
  log=build/fuzz/$target.log
  if ! "build/fuzz/fuzz/${target}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
      -dict=fuzz/json.dict -print_final_stats=1 -artifact_prefix="build/fuzz/failures/$target-" \
      "build/fuzz/corpus/$target" "fuzz/corpus/$target" >"$log" 2>&1; then
    tail -n 60 "$log"
    exit 1
  fi
  grep -E 'Done|stat::number_of_executed_units|stat::peak_rss_mb' "$log"
done

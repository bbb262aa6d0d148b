#!/usr/bin/env bash
# Trains models/tiny from nothing: fetches the books, makes the vocabulary, trains, exports, measures.
# Stopped at any time, it goes on where it was when started again with the same WORK.
#
# usage: train.sh [WORK]        (default: ~/.cache/kimi_k3/train_tiny)
#   STEPS=N    steps of the run (default 1200); SEED=N  (default 1)
#   MODEL_DIR, TEST_DATA_DIR   where the results go (default: models/tiny and tests/data/tiny here)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/kimi_k3/train_tiny}
steps=${STEPS:-1200}
seed=${SEED:-1}
packages=(r-cran-janeaustenr bible-kjv bible-kjv-text libjemalloc2)
mkdir -p "$work/packages" "$work/run"
work=$(cd "$work" && pwd)

for tool in python3 gcc g++ dpkg apt-get; do
  command -v "$tool" >/dev/null || { echo "train.sh: $tool is needed" >&2; exit 1; }
done

if [[ ! -x $work/venv/bin/python ]]; then
  python3 -m venv "$work/venv"
fi
"$work/venv/bin/pip" install --quiet -r "$here/requirements.txt"

for package in "${packages[@]}"; do
  if ! compgen -G "$work/packages/${package}_*.deb" >/dev/null; then
    (cd "$work/packages" && apt-get download "$package")
  fi
  dpkg -x "$work/packages/${package}"_*.deb "$work/packages/root"
done

cd "$here"
if [[ ! -f $work/data/facts.json ]]; then
  "$work/venv/bin/python" -m k3tiny.prepare --packages "$work/packages/root" --out "$work/data"
fi

# Freed blocks are kept: returning them to the kernel at every operation doubles the time of a step.
jemalloc=$(find "$work/packages/root" -name 'libjemalloc.so.2' -print -quit)
env OMP_NUM_THREADS=1 LD_PRELOAD="$jemalloc" MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always \
  "$work/venv/bin/python" -m k3tiny.train --data "$work/data" --out "$work/run" --steps "$steps" --seed "$seed"

"$here/finish.sh" "$work" "${MODEL_DIR:-$here/../../models/tiny}" "${TEST_DATA_DIR:-$here/../../tests/data/tiny}"

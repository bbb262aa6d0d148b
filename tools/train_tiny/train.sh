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
model=$(realpath -m "${MODEL_DIR:-$here/../../models/tiny}")
tests=$(realpath -m "${TEST_DATA_DIR:-$here/../../tests/data/tiny}")
packages=(r-cran-janeaustenr bible-kjv bible-kjv-text libjemalloc2)
mkdir -p "$work/packages" "$work/run"
work=$(cd "$work" && pwd)

fail() { echo "train.sh: $*" >&2; exit 1; }
for tool in python3 gcc g++ dpkg apt-get; do
  command -v "$tool" >/dev/null || fail "$tool is needed"
done
python3 -c 'import ensurepip, venv' 2>/dev/null || fail "Python's venv is needed: package python3-venv"
headers=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
[[ -f $headers/Python.h ]] || fail "Python's headers are needed, by torch.compile: package python3-dev"

if [[ ! -x $work/venv/bin/python ]]; then
  python3 -m venv "$work/venv"
fi
"$work/venv/bin/pip" install --quiet -r "$here/requirements.txt"

for package in "${packages[@]}"; do
  if ! compgen -G "$work/packages/${package}_*.deb" >/dev/null; then
    # Moved when it is whole, so that a broken download is not taken for a package.
    partial=$(mktemp -d "$work/packages/partial.XXXXXX")
    (cd "$partial" && apt-get download "$package") || fail "$package cannot be fetched; 'apt-get update' may help"
    mv "$partial/${package}"_*.deb "$work/packages/"
    rm -r "$partial"
  fi
  debs=("$work/packages/${package}"_*.deb)
  dpkg -x "${debs[-1]}" "$work/packages/root"
done

cd "$here"
if [[ ! -f $work/data/facts.json ]]; then
  "$work/venv/bin/python" -m k3tiny.prepare --packages "$work/packages/root" --out "$work/data"
fi

# Freed blocks are kept: returning them to the kernel at every operation doubles the time of a step.
jemalloc=$(find "$work/packages/root" -name 'libjemalloc.so.2' -print -quit)
env OMP_NUM_THREADS=1 LD_PRELOAD="$jemalloc" MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always \
  "$work/venv/bin/python" -m k3tiny.train --data "$work/data" --out "$work/run" --steps "$steps" --seed "$seed"

"$here/finish.sh" "$work" "$model" "$tests"

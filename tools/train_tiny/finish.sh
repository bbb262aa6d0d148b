#!/usr/bin/env bash
# Exports a training state and writes everything that is derived from it: the checkpoint, its measured
# figures, the model card with its picture, and the reference data of the tests.
#
# usage: finish.sh WORK [MODEL_DIR] [TEST_DATA_DIR]
#   WORK is the folder of train.sh; the state is WORK/run/best.pt.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
work=${1:?usage: finish.sh WORK [MODEL_DIR] [TEST_DATA_DIR]}
work=$(cd "$work" && pwd)
model=${2:-$here/../../models/tiny}
tests=${3:-$here/../../tests/data/tiny}
mkdir -p "$model" "$tests"
model=$(cd "$model" && pwd)
tests=$(cd "$tests" && pwd)
python=$work/venv/bin/python
cd "$here"

# One thread, and freed blocks kept: returning them to the kernel at every operation doubles the time.
jemalloc=$(find "$work/packages/root" -name 'libjemalloc.so.2' -print -quit)
export OMP_NUM_THREADS=1 LD_PRELOAD="$jemalloc" MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always

# All of it in WORK first: weights, figures and reference data must never be of two runs.
new=$work/result
rm -rf "$new"
mkdir -p "$new/model" "$new/tests"
"$python" -m k3tiny.export --data "$work/data" --weights "$work/run/best.pt" --out "$new/model"
"$python" -m k3tiny.measure --data "$work/data" --model "$new/model" --weights "$work/run/best.pt" --out "$work/figures.json"
cp "$work/run/log.jsonl" "$new/model/training_log.jsonl"
"$python" -m k3tiny.plot --log "$new/model/training_log.jsonl" --out "$new/model/loss.svg"
"$python" -m k3tiny.card --figures "$work/figures.json" --model "$new/model" --log "$new/model/training_log.jsonl" \
  --packages "$work/packages" --out "$new/model/README.md"
"$python" -m k3tiny.reference --data "$work/data" --model "$new/model" --out "$new/tests"

# deliver FROM TO: each file beside its place first, then renamed.
deliver() {
  local file
  for file in "$1"/*; do
    cp "$file" "$2/.new"
    sync "$2/.new"
    mv "$2/.new" "$2/$(basename "$file")"
  done
}
deliver "$new/model" "$model"
deliver "$new/tests" "$tests"
echo "in $model and $tests"

#!/usr/bin/env bash
# Measures what texts gain by sharing passes.
#   bench/batch.sh PROGRAM FOLDER figure ...
# PROGRAM: a built kimi_k3. FOLDER: where the checkpoints of bench/streaming.sh are, or are made (24 GB of real data).
# All but the last figure want TOKENIZER, a folder with the published tiktoken.model and tokenizer_config.json.
#   many     8 layers, 64 experts, 4 GB: 64 prompts together, and four of them one at a time
#   eight    the same: 8 prompts together against one at a time, bytes a token
#   pass     full size, holes for data, 20 GB: passes of 32 rows against passes of one, medians
#   killed   the small model: 100 requests, killed 20 times at random moments
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
program=$1 folder=$2
shift 2
rounds=${ROUNDS:-3} tokens=${TOKENS:-8}
full=$folder/k3-sparse mid=$folder/k3-8-layers
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

need() {  # need CHECKPOINT synth-options...: makes it unless it is there
  local checkpoint=$1
  shift
  [ -f "$checkpoint/config.json" ] || "$program" synth --geometry k3 "$@" -o "$checkpoint" --quiet
  # Checkpoints of random weights have none.
  mkdir -p "$work/tokenizer"
  cp "${TOKENIZER:?a folder with the published tokenizer}"/{tiktoken.model,tokenizer_config.json} "$work/tokenizer/"
}
forget() { sync; echo 3 2>/dev/null >/proc/sys/vm/drop_caches || echo "(page cache not dropped: not root)" >&2; }
requests() {  # requests COUNT TOKENS LEAST_LENGTH LENGTHS: prompts of different lengths, greedy and drawn
  python3 -c '
import json, random, sys
count, tokens, least, lengths = map(int, sys.argv[1:])
random.seed(9)
for i in range(count):
    prompt = [random.randrange(1000) for _ in range(least + i * 7 % lengths)]
    body = dict(prompt=prompt, max_tokens=tokens, ignore_eos=True, temperature=0 if i % 2 else 0.8, seed=i)
    print(json.dumps(dict(custom_id=f"p{i}", method="POST", url="/v1/completions", body=body)))' "$@"
}
batch() {  # batch RESULTS CHECKPOINT options...: the line of its cost
  local results=$1 checkpoint=$2
  shift 2
  rm -f "$results"
  forget
  "$program" batch "$work/in.jsonl" -o "$results" -m "$checkpoint" -m "$work/tokenizer" "$@" 2>&1 | tail -1
}
same() { sort "$1" >"$work/sorted"; echo "lines of $2 in $1: $(grep -cxFf "$2" "$work/sorted") of $(wc -l <"$2")"; }

many() {
  need "$mid" --layers 8 --experts 64
  requests 64 "$tokens" 3 40 >"$work/all.jsonl"
  sed -n '6p;23p;40p;61p' "$work/all.jsonl" >"$work/some.jsonl"
  touch -d @0 "$work"/*.jsonl  # of which results tell
  for _ in $(seq "$rounds"); do
    cp -p "$work/all.jsonl" "$work/in.jsonl"
    batch "$work/together" "$mid" --memory 4G
    cp -p "$work/some.jsonl" "$work/in.jsonl"
    batch "$work/alone" "$mid" --memory 4G --parallel 1
    same "$work/together" "$work/alone"
  done
}

eight() {
  need "$mid" --layers 8 --experts 64
  requests 8 "$tokens" 8 1 >"$work/in.jsonl"
  batch "$work/together" "$mid" --memory 4G --parallel 8
  batch "$work/alone" "$mid" --memory 4G --parallel 1
  same "$work/together" "$work/alone"
}

pass() {
  need "$full" --sparse
  for _ in $(seq "$rounds"); do
    for rows in 1 32; do
      requests "$rows" "$tokens" 1 1 >"$work/in.jsonl"
      local cost
      cost=$(batch "$work/results" "$full" --memory 20G --parallel 32 --stats "$work/stats.json")
      echo "$rows: $(sed -n 's/.*"median_pass_seconds": \(.*\),/\1/p' "$work/stats.json") s a pass; $cost"
    done
  done
}

killed() {
  local run=("$program" batch "$work/in.jsonl" -m "$source/models/tiny" -t 1 --parallel 4 -q -o)
  requests 100 150 1 40 >"$work/in.jsonl"
  "${run[@]}" "$work/whole"
  for _ in $(seq 20); do
    "${run[@]}" "$work/results" &
    sleep "$((RANDOM % 3)).$((RANDOM % 10))"
    kill -9 $! 2>/dev/null || true
    wait $! 2>/dev/null || true
    echo "killed with $(wc -l <"$work/results") of 100 results"
  done
  "${run[@]}" "$work/results"
  cmp <(sort "$work/whole") <(sort "$work/results") && echo "the same as an uninterrupted run's"
}

for figure in "$@"; do
  echo "== $figure"
  "$figure"
done

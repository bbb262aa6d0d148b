#!/usr/bin/env bash
# Shows the program at work on the small trained model of this repository: builds it, prints the
# memory plan, continues a text, answers a question, and tells what was read from the disk. Needs
# nothing but Debian 12; under three minutes, most of them for the build. Usage: scripts/demo.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

say "what building needs"
scripts/setup.sh
echo "there"

say "building (some two minutes on two cores)"
log=$(mktemp)
work=$(mktemp -d)
trap 'rm -rf "$log" "$work"' EXIT
started=$SECONDS
cmake --preset release >"$log" 2>&1 || { tail -n 40 "$log"; exit 1; }
cmake --build --preset release --target kimi_k3 -j "$(nproc)"
program=$PWD/build/release/src/cli/kimi_k3
"$program" --version
echo "built in $((SECONDS - started)) s"

model=$PWD/models/tiny
trained=true
if [ ! -f "$model/config.json" ]; then
  trained=false
  model=$work/model
  echo "models/tiny is not there; a made-up model takes its place, which writes no sentences"
  "$program" synth -o "$model" --geometry tiny --quiet
fi

# Less memory than the weights and the rest would take, so that the weights come from the disk,
# token after token, as they do with the real model.
smallest=$("$program" plan -m "$model" --json --no-measure | grep -o '"smallest_bytes": *[0-9]*' | grep -o '[0-9]*$')
memory=$((smallest / 1000000 + 2))M

say "the memory plan"
"$program" plan -m "$model" --memory "$memory"

# run STATS FLAG ...: the command as one would type it, and what it prints.
run() {
  local stats=$1 word
  shift
  printf '$ kimi_k3 -m models/tiny --memory %s' "$memory"
  for word in "$@"; do
    case $word in
      *[!A-Za-z0-9.,:_-]*) printf ' "%s"' "$word" ;;
      *) printf ' %s' "$word" ;;
    esac
  done
  printf '\n\n'
  "$program" -m "$model" --memory "$memory" --stats "$work/$stats" "$@"
}

if $trained; then
  say "a well-known opening, continued"
  run open.json --raw -p "It is a truth universally acknowledged, that" -n 80 --temp 0.7 --seed 3
  say "a question in the chat format"
  run chat.json -p "What is Genesis 1:1?" -n 200
else
  say "token ids after token ids"
  run open.json --token-ids 1,2,3,4,5,6,7,8 -n 80 --ignore-eos
  run chat.json --token-ids 9,10,11,12 -n 200 --ignore-eos
fi

# number STATS PHASE NAME: one number of a statistics file.
number() {
  sed -n "/\"$2\": {/,/^  }/p" "$work/$1" | grep -o "\"$3\": *[0-9.e+-]*" | grep -o '[0-9.e+-]*$' | head -n 1
}
ledger() {
  local part
  for part in prompt decode; do
    LC_ALL=C awk -v name="$2, $part" -v tokens="$(number "$1" $part tokens)" \
      -v seconds="$(number "$1" $part seconds)" -v total="$(number "$1" $part total)" \
      -v trunk="$(number "$1" $part trunk)" -v experts="$(number "$1" $part experts)" \
      -v head="$(number "$1" $part head)" -v waited="$(number "$1" $part compute_waited_seconds)" \
      -v peak="$(number "$1" $part peak_resident_bytes)" \
      'BEGIN { printf "%-18s %4d tokens %7.3f s %9.1f MB (trunk %.1f, experts %.1f, head %.1f), %4.0f %% of the time for the disk, %.1f MB in memory\n",
               name, tokens, seconds, total/1e6, trunk/1e6, experts/1e6, head/1e6,
               (seconds > 0 ? 100*waited/seconds : 0), peak/1e6 }'
  done
}
say "the ledger: what was read, and what it cost"
echo "memory allowed: ${memory}B; weights on disk: $(du -cb "$model"/*.safetensors | awk 'END { printf "%.1f", $1/1e6 }') MB"
ledger open.json "opening"
ledger chat.json "question"

#!/usr/bin/env bash
# Shows the program at work on the small trained model of this repository: builds it, prints the
# memory plan, continues a text, answers a question, and tells what was read from the disk. Needs
# nothing but Debian 12; two to three minutes, most of them for the build. Usage: scripts/demo.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

say "what building needs"
scripts/setup.sh
echo "there"

say "building (less than two minutes on two cores)"
log=$(mktemp)
work=$(mktemp -d)
trap 'rm -rf "$log" "$work"' EXIT
started=$SECONDS
cmake --preset release -DCMAKE_UNITY_BUILD=ON >"$log" 2>&1 || { tail -n 40 "$log"; exit 1; }
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
echo "The program may use $memory of memory. What for, what it reads for each token, and how long it expects to take:"
echo
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
  cat <<'END'
The small model has read Jane Austen and the Bible, nothing else. It goes on in the manner of the first;
that the sentences make little sense is its size, not the program's arithmetic.

END
  run open.json --raw -p "It is a truth universally acknowledged, that" -n 120 --temp 0.5 --min-p 0.05 --seed 35
  say "a question in the chat format"
  echo "It knows some hundred verses by heart (models/tiny/README.md), and thinks, in a way, before it answers."
  echo
  run chat.json -p "What does Psalm 23:1 say?" -n 200
else
  say "token ids after token ids"
  run open.json --token-ids 1,2,3,4,5,6,7,8 -n 80 --ignore-eos
  run chat.json --token-ids 9,10,11,12 -n 200 --ignore-eos
fi

# number STATS PHASE NAME: one number of a statistics file.
number() {
  sed -n "/\"$2\": {/,/^  }/p" "$work/$1" | grep -o "\"$3\": *[0-9.e+-]*" | grep -o '[0-9.e+-]*$' | head -n 1
}
# ledger STATS PHASE NAME: one line.
ledger() {
  LC_ALL=C awk -v name="$3" -v tokens="$(number "$1" "$2" tokens)" \
    -v seconds="$(number "$1" "$2" seconds)" -v total="$(number "$1" "$2" total)" \
    -v trunk="$(number "$1" "$2" trunk)" -v experts="$(number "$1" "$2" experts)" \
    -v head="$(number "$1" "$2" head)" -v waited="$(number "$1" "$2" compute_waited_seconds)" \
    'BEGIN { printf "%-20s %6d %8.2f s %8.1f MB %10.1f %9.1f %8.1f %12.0f %%\n",
             name, tokens, seconds, total/1e6, trunk/1e6, experts/1e6, head/1e6,
             (seconds > 0 ? 100*waited/seconds : 0) }'
}
say "the ledger: what was read from the disk, and what it cost"
peak=$(for stats in open.json chat.json; do
  for phase in prompt decode; do number $stats $phase peak_resident_bytes; done
done | sort -n | tail -n 1)
LC_ALL=C awk -v allowed="$memory" -v peak="$peak" \
  -v weights="$(du -cb "$model"/*.safetensors | awk 'END { print $1 }')" \
  'BEGIN { printf "memory allowed: %sB, used at most: %.1f MB; the model on disk: %.1f MB\n\n",
           allowed, peak/1e6, weights/1e6 }'
echo "                     tokens       time  read in all  = trunk  + experts  + head   waiting for it"
ledger open.json prompt "opening, read"
ledger open.json decode "opening, continued"
ledger chat.json prompt "question, read"
ledger chat.json decode "question, answered"
echo
LC_ALL=C awk -v bytes="$(number open.json decode total)" -v tokens="$(number open.json decode tokens)" \
  'BEGIN { printf "So %.1f MB for each token written (a word or a part of one): hardly any of the model may stay in memory.\n",
           bytes/tokens/1e6 }'
cat <<'END'
Trunk is what every token needs; experts are those that the model chose for it; head turns its result into words.
The real Kimi K3 runs in the same way, with 137 GB for each token.
END

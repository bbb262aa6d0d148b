#!/bin/bash
# Downloads and verification at size: a program killed over and over against a server that misbehaves, and single
# bytes damaged at random places. Usage: bench/fetching.sh BUILD FOLDER pull|verify|inspect ...
set -euo pipefail

usage() {
  cat >&2 <<'TEXT'
usage: bench/fetching.sh BUILD FOLDER WORD...
  BUILD   a build folder, such as build/release, with kimi_k3 and cli_test
  FOLDER  an empty place with 5 GB
  pull    a repository of 2 GB from a server that misbehaves, with 30 interruptions (KIMI_K3_PULL_BYTES: another size)
  verify  100 single bytes of a checkpoint damaged, one after the other
  inspect DIR  the time that inspect takes for a checkpoint or its config and index
TEXT
  exit 2
}

[ $# -ge 3 ] || usage
build=$1 folder=$2
kimi_k3=$build/src/cli/kimi_k3
shift 2

pull() {
  TMPDIR=$folder TEST_TMPDIR=$folder KIMI_K3_PULL_BYTES=${KIMI_K3_PULL_BYTES:-2GB} "$build/tests/cli_test" \
    --gtest_filter=PullCommand.SurvivesThirtyInterruptions
}

# Flips bits of one byte of a file.
flip() {
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1")
  printf "\\x$(printf %02x $((byte ^ $3)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

verify() {
  local model=$folder/damaged right=0 named=0 structural=0 round
  "$kimi_k3" synth --geometry tiny --layers 40 --experts 600 --shards 20 -o "$model" --quiet
  "$kimi_k3" verify "$model" --write-hashes
  local files=("$model"/*.safetensors)
  RANDOM=7
  for ((round = 0; round < 100; ++round)); do
    local file=${files[RANDOM % ${#files[@]}]} size at bits=$((1 + RANDOM % 255)) said header
    size=$(stat -c %s "$file")
    header=$(od -An -tu8 -N 8 "$file")
    at=$(((RANDOM * 32768 * 32768 + RANDOM * 32768 + RANDOM) % size))
    # Every fifth in the header: those that break the structure name the tensor too.
    if ((round % 5 == 0)); then at=$((8 + at % header)); fi
    flip "$file" "$at" $bits
    said=$("$kimi_k3" verify "$model" || true)
    flip "$file" "$at" $bits
    if grep -q "1 of [0-9]* files not good" <<< "$said" && grep -q "^$file:" <<< "$said"; then
      right=$((right + 1))
    else
      printf 'byte %s of %s: %s\n' "$at" "$file" "$said"
    fi
    if ((round % 5 == 0)); then
      structural=$((structural + 1))
      if grep -q -e tensor -e "header" <<< "$said"; then named=$((named + 1)); fi
    fi
  done
  "$kimi_k3" verify "$model"
  echo "$right of 100 damaged bytes: the right file, and it alone; $named of $structural in headers: the tensor or the header named"
  rm -r "$model"
}

inspect() {
  local round
  for round in 1 2 3 4 5; do
    bash -c "TIMEFORMAT='%R s by the clock, %U s of processor time'; time '$kimi_k3' inspect '$1' > /dev/null 2>&1"
  done
}

while [ $# -gt 0 ]; do
  case $1 in
    pull | verify) "$1" ;;
    inspect)
      [ $# -ge 2 ] || usage
      inspect "$2"
      shift
      ;;
    *) usage ;;
  esac
  shift
done

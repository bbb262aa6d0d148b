#!/usr/bin/env bash
# Draws the recorded measurements of docs/performance again: NAME.json to NAME.svg.
#   bench/plots.sh PROGRAM
# PROGRAM: a built kimi_k3, such as build/release/src/cli/kimi_k3, which recorded them (bench --json).
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
program=$(realpath "$1")
cd "$(dirname "$0")/../docs/performance"
for report in *.json; do
  "$program" bench --from "$report" --svg "${report%.json}.svg" >/dev/null
done

#!/usr/bin/env bash
# Measures what a position of the latent cache and a recurrent state take in memory, of every type.
#   bench/kv_bytes.sh PROGRAM LONG_SESSION [POSITIONS]
# PROGRAM: a built kimi_k3; LONG_SESSION: bench/long_session of the same build (preset bench).
# As planned (plan --json), by the process's own account (--stats) and by the operating system's
# (/proc/PID/smaps_rollup while it generates). Both accounts are differences between a session of
# 25,000 positions and one of POSITIONS (100,000), medians of five; each repeats the rows of a short
# one, for a prompt of that length would take an hour. What a text takes besides its cache is
# measured on layers that have none, and taken off. States: whole processes at the full size, each
# with 16 MB more than the smallest budget that its plan allows.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
exec python3 "$(dirname "$0")/kv_bytes.py" "$@"

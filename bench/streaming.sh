#!/usr/bin/env bash
# Measures streaming at the real size, and prints each figure beside its limit.
#   bench/streaming.sh PROGRAM FOLDER figure ...
# PROGRAM: a built kimi_k3. FOLDER: where the two checkpoints are, or are made (24 GB of real data).
#   budgets   full size, holes for data: memory, bytes and seconds a token by budget
#   prompt    full size: a prompt of 5 tokens against one of 1
#   cgroup    full size in a cgroup of 1 GB without swap (needs root)
#   flat      full size: resident memory over 64 tokens
#   drive     8 layers, 64 experts: the drive's speed by fio and by the engine, in turns
#   overlay   8 layers: seconds a token with overlays against without, at 2 GB, page cache dropped, in turns
#   drives    6 layers, 16 experts: two drives of a limited speed against one (needs root, cgroup version 1, 15 GB)
#   bits      8 layers, 64 experts: one answer for every budget, reader, read-ahead and thread count
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
program=$1 folder=$2
shift 2
rounds=${ROUNDS:-5} rate=${RATE:-200000000}
full=$folder/k3-sparse mid=$folder/k3-8-layers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

need() {  # need CHECKPOINT synth-options...: makes it unless it is there
  local checkpoint=$1
  shift
  [ -f "$checkpoint/config.json" ] || "$program" synth --geometry k3 "$@" -o "$checkpoint" --quiet
}
forget() { sync; echo 3 2>/dev/null >/proc/sys/vm/drop_caches || echo "(page cache not dropped: not root)" >&2; }
run() {  # run CHECKPOINT options...: one run, its statistics in $work/stats.json
  local checkpoint=$1
  shift
  "$program" -m "$checkpoint" -c 2048 --ignore-eos --print-ids --quiet --stats "$work/stats.json" "$@" >"$work/ids"
}
stat() {  # stat EXPRESSION: of the last run, s being its statistics
  python3 -c "import json,sys; s = json.load(open(sys.argv[1])); print($1)" "$work/stats.json"
}
decode_rate='round(s["decode"]["bytes_read"]["total"] / s["decode"]["seconds"] / 1e9, 2)'
token_seconds='round(s["decode"]["seconds"] / s["decode"]["tokens"], 2)'
median() { sort -g | awk '{ v[NR] = $1 } END { print (NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2) }'; }

budgets() {
  need "$full" --sparse
  echo "| budget | resident at most | read a token | seconds a token | prompt of 5, seconds |"
  for budget in 1G 8.24G default; do
    for _ in $(seq "$rounds"); do
      local memory=()
      [ "$budget" = default ] || memory=(--memory "$budget")
      run "$full" "${memory[@]}" --token-ids 1,2,3,4,5 -n 4
      stat "$token_seconds, round(s['prompt']['seconds'], 1)" >>"$work/times-$budget"
    done
    tr -d '(),' <"$work/times-$budget" >"$work/times"
    echo "| $budget | $(stat 'round(s["decode"]["peak_resident_bytes"] / 1e9, 3)') GB" \
      "| $(stat 'round(s["decode"]["bytes_read"]["total"] / s["decode"]["tokens"] / 1e9, 1)') GB" \
      "| $(cut -d' ' -f1 "$work/times" | median) | $(cut -d' ' -f2 "$work/times" | median) |"
  done
}

prompt() {
  need "$full" --sparse
  for _ in $(seq "$rounds"); do
    run "$full" --memory 1G --token-ids 1,2,3,4,5 -n 1
    stat 'round(s["prompt"]["seconds"], 2)' >>"$work/five"
    run "$full" --memory 1G --token-ids 1 -n 1
    stat 'round(s["prompt"]["seconds"], 2)' >>"$work/one"
  done
  echo "prompt of 5: $(median <"$work/five") s; of 1: $(median <"$work/one") s"
}

cgroup() {
  need "$full" --sparse
  local group=/sys/fs/cgroup/memory/kimi_k3_bench limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes
  if [ ! -d /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/kimi_k3_bench limit=memory.max peak=memory.peak
  fi
  mkdir -p "$group"
  echo 1000000000 >"$group/$limit"
  [ -f "$group/memory.swap.max" ] && echo 0 >"$group/memory.swap.max"
  [ -f "$group/memory.swappiness" ] && echo 0 >"$group/memory.swappiness"
  (echo "$BASHPID" >"$group/cgroup.procs" && run "$full" --memory 1G --token-ids 1,2,3,4,5 -n 2)
  echo "in a cgroup of 1 GB: $(cat "$work/ids"); $(stat 'round(s["decode"]["peak_resident_bytes"] / 1e9, 3)') GB resident," \
    "$(awk '{ print $1 / 1e9 }' "$group/$peak") GB charged at most, $(stat "$token_seconds") s a token"
  rmdir "$group"
}

flat() {
  need "$full" --sparse
  "$program" -m "$full" -c 2048 --ignore-eos --print-ids --quiet --memory 1G --token-ids 1,2,3,4,5 -n 64 >"$work/ids" &
  local pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    awk '/VmRSS/ { print $2 * 1024 / 1e6 }' "/proc/$pid/status" >>"$work/resident" 2>/dev/null || true
    sleep 5
  done
  wait "$pid"
  echo "resident over 64 tokens, MB, every tenth of the time:" \
    "$(awk 'NF { v[++n] = $1 } END { for (i = 1; i <= 10; ++i) printf "%.0f ", v[int((n - 1) * i / 10) + 1] }' "$work/resident")"
}

fio_rate() {  # fio_rate options...: GB/s of the checkpoint's second shard
  fio --name=read --filename="$(echo "$mid"/model-00002-*)" --ioengine=io_uring --direct=1 --rw=read --bs=1M \
    --iodepth=16 --time_based --runtime=5 --output-format=json "$@" |
    python3 -c 'import json,sys; print(round(json.load(sys.stdin)["jobs"][0]["read"]["bw_bytes"] / 1e9, 2))'
}
drive() {
  need "$mid" --layers 8 --experts 64
  local huge=()
  echo 64 2>/dev/null >/proc/sys/vm/nr_hugepages && huge=(--mem=shmhuge)
  for _ in $(seq "$rounds"); do
    fio_rate >>"$work/fio"
    fio_rate "${huge[@]}" >>"$work/fio-huge"
    forget
    run "$mid" --memory 2G --io direct --token-ids 1 -n 4
    stat "$decode_rate" >>"$work/direct"
    fio_rate "${huge[@]}" >>"$work/fio-huge"
    forget
    run "$mid" --memory 2G --io mmap --token-ids 1 -n 2
    stat "$decode_rate" >>"$work/mmap"
  done
  echo 0 2>/dev/null >/proc/sys/vm/nr_hugepages || true
  echo "GB/s, medians of $rounds: fio $(median <"$work/fio"), fio with huge pages $(median <"$work/fio-huge")," \
    "direct $(median <"$work/direct"), mmap $(median <"$work/mmap")"
}

overlay() {
  need "$mid" --layers 8 --experts 64
  local form options=(--memory 2G --token-ids 1 -n 5)
  for form in lossless q8 q4; do "$program" quantize -m "$mid" --trunk "$form" -o "$mid-$form" --quiet >/dev/null; done
  for _ in $(seq "$rounds"); do
    fio_rate >>"$work/fio"
    for form in base lossless q8 q4; do
      local with=()
      [ "$form" = base ] || with=(--overlay "$mid-$form")
      forget
      run "$mid" "${options[@]}" "${with[@]}"
      stat 'round(s["decode"]["seconds"] / s["decode"]["tokens"], 3)' >>"$work/seconds-$form"
      stat 'round(s["decode"]["bytes_read"]["total"] / s["decode"]["tokens"] / 1e9, 2)' >"$work/bytes-$form"
      cp "$work/ids" "$work/ids-$form"
    done
  done
  cmp "$work/ids-base" "$work/ids-lossless"
  echo "fio: $(median <"$work/fio") GB/s"
  echo "| overlay | read a token | seconds a token | of the base's tokens a second |"
  for form in base lossless q8 q4; do
    echo "| $form | $(cat "$work/bytes-$form") GB | $(median <"$work/seconds-$form")" \
      "| $(echo "$(median <"$work/seconds-base") $(median <"$work/seconds-$form")" | awk '{ printf "%.2f", $1 / $2 }') |"
  done
}

limited() {  # limited COMMAND...: in a control group that reads each loop device at most at $rate bytes a second
  local group=/sys/fs/cgroup/blkio/kimi_k3_bench device
  mkdir -p "$group"
  for device in "${loops[@]}"; do
    echo "$(lsblk -ndo MAJ:MIN "$device" | tr -d ' ') $rate" >"$group/blkio.throttle.read_bps_device"
  done
  (echo "$BASHPID" >"$group/cgroup.procs" && "$@")
  rmdir "$group"
}
read_from() { awk '{ printf "%.0f", $3 * 512 }' "/sys/block/$(basename "$1")/stat"; }  # read_from DEVICE: bytes so far
leave_drives() {
  umount "$folder"/drive-[ab] 2>/dev/null || true
  losetup -d "${loops[@]}"
  rm -rf "$folder"/drive-[ab] "$folder"/drive-[ab].img "$work"
}
drives() {
  local drive shard one two before=() bytes=() options=(--memory 4G --io direct --token-ids 1 -n 3)
  loops=()
  trap leave_drives EXIT
  for drive in a b; do
    truncate -s 18G "$folder/drive-$drive.img"
    loops+=("$(losetup --find --show --direct-io=on "$folder/drive-$drive.img")")
    mkfs.ext4 -q -m 0 "${loops[-1]}"
    mkdir -p "$folder/drive-$drive"
    mount "${loops[-1]}" "$folder/drive-$drive"
  done
  "$program" synth --geometry k3 --layers 6 --experts 16 -o "$folder/drive-a" --quiet
  limited run "$folder/drive-a" "${options[@]}"
  one=$(stat "$decode_rate")
  # Every second layer; the head (shard 7) too, so that each drive holds about half.
  for shard in 2 4 6 7; do mv "$folder/drive-a/model-0000$shard"-of-* "$folder/drive-b"; done
  for drive in 0 1; do before+=("$(read_from "${loops[drive]}")"); done
  limited run "$folder/drive-a" -m "$folder/drive-b" "${options[@]}"
  for drive in 0 1; do bytes+=($(($(read_from "${loops[drive]}") - before[drive]))); done
  two=$(stat "$decode_rate")
  echo "GB/s of drives limited to $(stat "$rate / 1e9"): one $one, two $two;" \
    "limit by the share of the busier $(stat "round($rate * (${bytes[0]} + ${bytes[1]}) / max(${bytes[0]}, ${bytes[1]}) / 1e9, 2)")"
}

bits() {
  need "$mid" --layers 8 --experts 64
  local wanted='' found
  for options in '--memory 1G' '--memory 2G' '--memory 4G' '--memory 8G' '--memory 16G' '--memory 2G --io buffered' \
    '--memory 2G --io mmap' '--memory 2G --prefetch 0' '--memory 4G --prefetch 8' '--memory 2G -t 1' '--memory 16G -t 1'; do
    # shellcheck disable=SC2086
    run "$mid" $options --token-ids 1,2,3,4,5 -n 3 --logits "$work/logits.npy"
    found=$(cat "$work/ids" "$work/logits.npy" | sha256sum | cut -c1-16)
    : "${wanted:=$found}"
    echo "$found $([ "$found" = "$wanted" ] && echo same || echo DIFFERENT) $options, read again:" \
      "$(stat 'round(s["decode"]["bytes_read"]["total"] / 1e9, 2)') GB"
    [ "$found" = "$wanted" ]
  done
}

for figure in "$@"; do
  case $figure in
    budgets | prompt | cgroup | flat | drive | overlay | drives | bits) "$figure" ;;
    *) echo "no figure '$figure'" >&2; exit 2 ;;
  esac
done

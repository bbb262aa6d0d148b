#!/bin/sh
# Builds the kernels and their tests for 64-bit Arm and runs them in an emulator: NEON must give the
# bits recorded in tests/kernels. Needs g++-aarch64-linux-gnu and qemu-user; the Arm libraries are
# fetched from Debian into the build folder, the system is left as it is.
set -eu
source_dir=$(cd "$(dirname "$0")/.." && pwd)
build_dir=${1:-$source_dir/build/neon}
compiler=aarch64-linux-gnu-g++
sysroot=$build_dir/sysroot
for tool in "$compiler" qemu-aarch64 apt-get dpkg-deb; do
  command -v "$tool" > /dev/null || {
    echo "test_neon: $tool is missing; install g++-aarch64-linux-gnu and qemu-user" >&2
    exit 1
  }
done
mkdir -p "$build_dir/objects"

if [ ! -e "$sysroot/complete" ]; then
  apt_dir=$build_dir/apt
  mkdir -p "$apt_dir/state/lists/partial" "$apt_dir/cache/archives/partial" "$apt_dir/debs" "$sysroot"
  echo "deb http://deb.debian.org/debian bookworm main" > "$apt_dir/sources.list"
  : > "$apt_dir/status"
  arm_apt() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 \
      -o Dir::State="$apt_dir/state" -o Dir::State::status="$apt_dir/status" \
      -o Dir::Cache="$apt_dir/cache" -o Dir::Etc::sourcelist="$apt_dir/sources.list" \
      -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root "$@"
  }
  arm_apt update
  (cd "$apt_dir/debs" && arm_apt download libhwy-dev libhwy1 libfmt-dev libfmt9 libgtest-dev \
    libgmock-dev nlohmann-json3-dev)
  for package in "$apt_dir"/debs/*.deb; do dpkg-deb -x "$package" "$sysroot"; done
  touch "$sysroot/complete"
fi

libraries=$sysroot/usr/lib/aarch64-linux-gnu
flags="-std=c++20 -O2 -ffp-contract=off -fno-math-errno -Wall -Wextra -Werror
  -DHWY_SHARED_DEFINE -DFMT_SHARED
  -DHWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128)
  -I$source_dir/src -I$source_dir/include -I$source_dir/tests -isystem $sysroot/usr/include
  -DKIMI_K3_SOURCE_DIR=\"$source_dir\""
for source in "$source_dir"/src/base/coded_bf16.cc "$source_dir"/src/base/quantized_group.cc \
    "$source_dir"/src/kernels/*.cc "$source_dir"/tests/kernels/*.cc; do
  object=$build_dir/objects/$(basename "$source" .cc).o
  # shellcheck disable=SC2086  # the flags are words
  printf '%s\0' $flags -c "$source" -o "$object"
done | xargs -0 -n "$(($(printf '%s\n' $flags | wc -l) + 4))" -P "$(nproc)" "$compiler"
"$compiler" "$build_dir"/objects/*.o -o "$build_dir/kernels_test" -L"$libraries" \
  -lgmock -lgtest -lgtest_main -lhwy -lfmt -lpthread
qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$libraries" "$build_dir/kernels_test"

#!/usr/bin/env bash
# Installs what building and testing need, where it is missing (Debian 12 packages). For: the other
# scripts, and anyone who builds by hand. Usage: scripts/setup.sh [package ...] adds further packages.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config ccache
  libhwy-dev liburing-dev libsimdjson-dev nlohmann-json3-dev libcli11-dev libfmt-dev
  libzstd-dev libedit-dev
  libssl-dev libcurl4-openssl-dev
  libgtest-dev libgmock-dev curl
  "$@"
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing: ${missing[*]}" >&2
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "setup.sh: not root and no sudo here; as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
}
as_root apt-get update -qq
as_root env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null

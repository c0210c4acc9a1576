#!/usr/bin/env bash
# Installs the Debian packages that the tests and the local cluster need and that
# are missing. Go is not among them: Debian's is too old, and which Go to trust is
# the caller's decision.
set -euo pipefail

required_go=1.26

# A program to look for, and the package that has it.
declare -A package_of=(
  [make]=make
  [git]=git
  [gcc]=gcc
  [ip]=iproute2
  [nsenter]=util-linux
  [containerd]=containerd
  [runc]=runc
  [iptables]=iptables
  [ipset]=ipset
  [node]=nodejs
  [npm]=npm
)

if ! command -v go >/dev/null; then
  echo "Go is missing: install Go $required_go or newer from https://go.dev/dl and put it on PATH" >&2
  exit 1
fi
have_go=$(go env GOVERSION)
have_go=${have_go#go}
if [[ $(printf '%s\n' "$required_go" "$have_go" | sort -V | head -1) != "$required_go" ]]; then
  echo "Go $have_go is too old: install Go $required_go or newer from https://go.dev/dl" >&2
  exit 1
fi

# Programs of packages often live in sbin, which is not on every PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
missing=()
for program in "${!package_of[@]}"; do
  command -v "$program" >/dev/null || missing+=("${package_of[$program]}")
done
[[ -x /usr/lib/cni/bridge || -x /opt/cni/bin/bridge ]] || missing+=(containernetworking-plugins)
# The race detector links against the C library.
[[ -e /usr/include/stdlib.h ]] || missing+=(libc6-dev)
# What router/zmtp is tested against.
[[ -e /usr/include/zmq.h ]] || missing+=(libzmq3-dev)
command -v pkg-config >/dev/null || missing+=(pkg-config)

if ((${#missing[@]} == 0)); then
  exit 0
fi
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
echo "missing packages: ${missing[*]}"
if ! command -v apt-get >/dev/null; then
  echo "this is no Debian: install the equivalents of these packages by hand" >&2
  exit 1
fi
if ((EUID != 0)); then
  echo "run as root, or: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends "${missing[@]}"

#!/usr/bin/env bash
# Builds the linter into bin/ unless that very build is there, and prints its path.
# The name carries a hash of everything that decides the binary, so a changed
# version is built once and an unchanged one never again.
set -euo pipefail
cd "$(dirname "$0")"
export GOFLAGS="-buildvcs=false -trimpath" CGO_ENABLED=0

hash=$( { cat go.mod go.sum main.go; go version; } | sha256sum | cut -c1-12)
root=$(cd ../.. && pwd)
binary=$root/bin/golangci-lint-$hash
if [[ ! -x $binary ]]; then
  mkdir -p "$root/bin"
  echo "building $(basename "$binary"): about two minutes the first time" >&2
  go build -ldflags "-s -w" -o "$binary.new.$$" . >&2
  mv "$binary.new.$$" "$binary"
fi
echo "$binary"

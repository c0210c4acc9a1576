#!/usr/bin/env bash
# Lints the root module with the rules of .golangci.yml. Arguments go to
# "golangci-lint run", for example --fix or ./router/...
set -euo pipefail
cd "$(dirname "$0")/../.."
export GOFLAGS="-buildvcs=false -trimpath" CGO_ENABLED=0

linter=$(hack/lint/build.sh)
exec "$linter" run "$@"

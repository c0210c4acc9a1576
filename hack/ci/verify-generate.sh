#!/usr/bin/env bash
# Runs every generator and fails when a file changes, whether or not the tree has
# uncommitted work: the content before is compared with the content after.
set -euo pipefail
cd "$(dirname "$0")/../.."

manifest() {
  git ls-files --cached --others --exclude-standard -z |
    while IFS= read -r -d '' file; do
      [[ -f $file ]] && sha256sum -- "$file"
    done
}

before=$(mktemp)
after=$(mktemp)
trap 'rm -f "$before" "$after"' EXIT

manifest >"$before"
make --no-print-directory generate
manifest >"$after"
if ! diff -u "$before" "$after"; then
  echo "generated files are out of date: the generators changed the files above; run 'make generate' and commit" >&2
  exit 1
fi
echo "generated files are up to date"

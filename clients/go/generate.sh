#!/usr/bin/env bash
# Generates headracev1/ from protos/ with protoc and Go's two plugins, which are looked for on
# the PATH. The versions that made the committed files stand at the head of each of them.
# With --check it only says whether the committed files are what it would generate.
set -euo pipefail
cd "$(dirname "$0")"

protos=../../protos
package='example.com/headrace/headracev1;headracev1'
# The contract names no package of Go: that is this client's own business.
mapping=()
for file in "$protos"/headrace/v1/*.proto; do
  mapping+=("M${file#"$protos"/}=$package")
done
options=$(IFS=,; echo "module=example.com/headrace,${mapping[*]}")

new=build/_generated # no package of Go: its name begins with _
rm -rf "$new" && mkdir -p "$new"
protoc -I"$protos" --go_out="$new" --go_opt="$options" \
  --go-grpc_out="$new" --go-grpc_opt="$options" "$protos"/headrace/v1/*.proto

if [ "${1:-}" = --check ]; then
  diff -r headracev1 "$new/headracev1" || {
    echo "error: headracev1 differs from protos/; run ./generate.sh and commit" >&2; exit 1; }
else
  rm -rf headracev1 && mv "$new/headracev1" headracev1
fi

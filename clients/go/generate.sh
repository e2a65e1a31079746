#!/usr/bin/env bash
# Generates headracev1/ from protos/ with protoc and Go's two plugins, which are looked for on
# the PATH. The versions that made the committed files stand at the head of each of them.
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

rm -f headracev1/*.pb.go
protoc -I"$protos" --go_out=. --go_opt="$options" --go-grpc_out=. --go-grpc_opt="$options" \
  "$protos"/headrace/v1/*.proto

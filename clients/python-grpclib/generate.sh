#!/bin/sh
# Generates headrace/v1 from protos/, with the protoc of grpcio-tools and the plugin of grpclib:
#   pip install -r requirements.txt grpcio-tools
# Another folder may be named to generate into.
set -eu
cd "$(dirname "$0")"
out=${1:-.}
python -c 'import grpc_tools, grpclib' 2>/dev/null || {
  echo "error: needs the tools; run: pip install -r requirements.txt grpcio-tools" >&2
  exit 1
}
mkdir -p "$out/headrace/v1"
rm -f "$out"/headrace/v1/*
touch "$out/headrace/__init__.py" "$out/headrace/v1/__init__.py"
python -m grpc_tools.protoc -I../../protos --python_out="$out" --pyi_out="$out" ../../protos/headrace/v1/*.proto
python -m grpc_tools.protoc -I../../protos --grpclib_python_out="$out" ../../protos/headrace/v1/*_service.proto

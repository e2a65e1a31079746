#!/bin/sh
# Generates the classes of the contract into generated/, and runs the tests where PHPUnit is there.
# PROTOS says where the contract is for a copy of this folder.
set -eu
cd "$(dirname "$0")"
protos=${PROTOS:-../../protos}

if [ -e generated/built ] && [ -z "$(find build.sh autoload.php src bin tests interop third_party \
  "$protos/headrace" -newer generated/built -print -quit)" ]; then
  exit 0
fi
rm -rf generated
mkdir generated
touch generated/begun
# Debian has no google/common-protos, and only the tests of this repository ask for health.
protoc -I"$protos" -Ithird_party -Iinterop/proto --php_out=generated "$protos"/headrace/v1/*.proto \
  third_party/google/rpc/*.proto interop/proto/grpc/health/v1/*.proto
if command -v phpunit >/dev/null; then
  phpunit --bootstrap autoload.php --do-not-cache-result tests
else
  echo "phpunit is not installed: the tests were left out"
fi
mv generated/begun generated/built

#!/bin/sh
# Generates headrace_api from protos/, in an environment of its own: the compiler of betterproto2
# wants an older library beside it than the client.
set -eu
cd "$(dirname "$0")"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check \
  betterproto2_compiler==0.10.0 ruff==0.17.6 grpcio-tools==1.85.1 googleapis-common-protos==1.76.0
installed=$("$tools/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

protos="../../protos/headrace/v1/*.proto third_party/grpc/health/v1/health.proto"
rm -rf headrace_api
mkdir headrace_api
# shellcheck disable=SC2086  # they are several files
PATH="$tools/bin:$PATH" python3 -m grpc_tools.protoc -I../../protos -Ithird_party -I"$installed" \
  --python_betterproto2_out=headrace_api --python_betterproto2_opt=client_generation=async \
  $protos google/rpc/status.proto google/rpc/error_details.proto
cat ../../protos/headrace/v1/*.proto | sha256sum | cut -d' ' -f1 >headrace_api/contract.sha256

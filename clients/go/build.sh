#!/usr/bin/env bash
# Builds this module without the module proxy, from Debian's packages (golang-go and
# golang-google-grpc-dev). `./build.sh check` also vets and tests it, and generates its messages
# once more to compare them.
set -euo pipefail
cd "$(dirname "$0")"

if [ "${1:-}" = check ]; then
  ./generate.sh --check
fi

gopath=$PWD/build/gopath
mkdir -p "$gopath/src/example.com"
ln -sfn ../../../.. "$gopath/src/example.com/headrace"
export GO111MODULE=off GOPATH="$gopath:${GOCODE:-/usr/share/gocode}" GOFLAGS=
# go names packages by the path through the link.
cd "$gopath/src/example.com/headrace"

if [ "${1:-}" = check ]; then
  test -z "$(gofmt -l . | tee /dev/stderr)"
  go vet ./...
  go test ./...
fi
go build -o build/ ./cmd/headrace-go ./internal/interop

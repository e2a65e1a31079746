#!/usr/bin/env bash
# Builds, vets or tests this module without the module proxy, from Debian's packages
# (golang-go golang-google-grpc-dev): ./build.sh, ./build.sh vet, ./build.sh test.
set -euo pipefail
cd "$(dirname "$0")"

gopath=$PWD/build/gopath
mkdir -p "$gopath/src/example.com"
ln -sfn ../../../.. "$gopath/src/example.com/headrace"
export GO111MODULE=off GOPATH="$gopath:${GOCODE:-/usr/share/gocode}" GOFLAGS=
# go names packages by the path through the link.
cd "$gopath/src/example.com/headrace"

case "${1:-build}" in
  build) go build -o build/ ./cmd/headrace-go ./internal/interop ;;
  vet) go vet ./... && test -z "$(gofmt -l . | tee /dev/stderr)" ;;
  test) go test "${@:2}" ./... ;;
  *) echo "usage: build.sh [build|vet|test]" >&2; exit 2 ;;
esac

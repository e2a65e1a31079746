#!/bin/sh
# Installs what is needed and builds dist/; does nothing, and needs no network, when nothing has changed.
set -eu
cd "$(dirname "$0")"

if ! cmp -s package-lock.json node_modules/.made; then
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
  cp package-lock.json node_modules/.made
fi
if [ -f dist/.built ]; then
  [ -n "$(find . ../../protos \( -path ./node_modules -o -path ./dist -o -path ./src/gen \) -prune \
    -o -type f -newer dist/.built -print -quit)" ] || exit 0
  rm dist/.built
fi
npm run build --silent
touch dist/.built

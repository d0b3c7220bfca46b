#!/bin/sh
# Measures Gantry as built in build/bin and writes docs/PERFORMANCE.md (root; some five minutes). Arguments are passed on (-only start, -short).
set -eu
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
mkdir -p build
go build -o build/bench ./hack/bench
exec build/bench "$@"

#!/bin/sh
# Measures Gantry as built in build/bin and writes docs/PERFORMANCE.md (root; some twenty minutes). Arguments are passed on (-only start,network keeps the other sections; -short writes nothing).
set -eu
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
mkdir -p build
go build -o build/bench ./hack/bench
exec build/bench "$@"

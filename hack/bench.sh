#!/bin/sh
# Measures Gantry as built in build/bin, writes docs/performance/PART.json and renders docs/performance/README.md (root; some
# twenty minutes). Arguments are passed on: -only start,network leaves the other parts' files, -short writes to build/performance.
set -eu
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
exec go run ./hack/bench "$@"

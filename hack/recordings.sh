#!/bin/sh
# Replays upstream's recorded answers and lives of Pods (test/recordings) against Gantry and writes
# docs/compatibility/differences.md; every difference goes to build/recordings-*.txt. The Pods need
# root and some ten minutes; without root only the API is replayed. Arguments are passed on (-v,
# -run REGEXP).
set -eu
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
mkdir -p build
go build -o build/recordings ./hack/recordings
build/recordings "$@" api
if [ "$(id -u)" != 0 ]; then
	echo "the lives of Pods are left out: they need root" >&2
	exit 0
fi
hack/runtime.sh build/bin
make binary
build/recordings "$@" pods
if [ $# = 0 ]; then
	build/recordings docs
	echo "written: docs/compatibility/differences.md"
fi

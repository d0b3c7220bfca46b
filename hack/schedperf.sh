#!/bin/bash
# schedperf.sh [OUT [GANTRY]]: measures the scheduler and writes OUT/schedperf-*.json (default
# docs/performance), then renders docs/performance/README.md. Tables are printed and kept in
# build/schedperf.md. Some 13 minutes on two cores. GANTRY_OTHER names another scheduler's program,
# which is then measured in turns with ours: some 20 minutes more; GANTRY_OTHER_NAME its name and
# version. GANTRY_OPENB names the directory of the openb trace, which is else left out.
set -eu -o pipefail
cd "$(dirname "$0")/.."
out=${1:-docs/performance} gantry=${2:-build/bin/gantry}
program=$(mktemp -d)/schedperf
trap 'rm -rf "$(dirname "$program")"' EXIT
mkdir -p build "$out"
go build -o "$program" ./hack/schedperf
one() { # title, name, arguments
	echo "### $1" && echo && "$program" "${@:3}" -o "$out/schedperf-$2.json" 2>>build/schedperf.log && echo
}
{
	one 'Decisions in memory' memory memory -pods 1000
	if [ -n "${GANTRY_OPENB:-}" ]; then
		one 'openb' openb openb
		one 'openb through the API server' openb-api openb -gantry "$gantry"
	fi
	one 'Through the API server' api api -gantry "$gantry" -pods 1000 -first 1000
	if [ -n "${GANTRY_OTHER:-}" ]; then
		one 'Side by side' beside api -gantry "$gantry" -other "$GANTRY_OTHER" -other-name "${GANTRY_OTHER_NAME:-}" \
			-pods 500 -first 500
	fi
} | tee build/schedperf.md
go run ./hack/bench -render

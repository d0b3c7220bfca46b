#!/bin/bash
# schedperf.sh OUT [GANTRY]: all tables of docs/PERFORMANCE.md about the scheduler, as JSON and Markdown in OUT. Some 13 minutes on two quiet cores.
# GANTRY_OTHER names another scheduler's program, which is then measured in turns with ours: some 20 minutes more.
# GANTRY_OPENB names the directory of the openb trace; without it the trace is left out.
set -eu -o pipefail
out=$1 gantry=${2:-build/bin/gantry}
mkdir -p "$out"
go build -o "$out/schedperf" ./hack/schedperf
one() { # title, name, arguments
	echo "### $1" && echo && "$out/schedperf" "${@:3}" -o "$out/$2.json" 2>>"$out/schedperf.log" && echo
}
{
	one 'Decisions in memory' memory memory -pods 1000
	if [ -n "${GANTRY_OPENB:-}" ]; then
		one 'openb' openb openb
		one 'openb through the API server' openb-api openb -gantry "$gantry"
	fi
	one 'Through the API server' api api -gantry "$gantry" -pods 1000 -first 1000
	if [ -n "${GANTRY_OTHER:-}" ]; then
		one 'Side by side' beside api -gantry "$gantry" -other "$GANTRY_OTHER" -pods 500 -first 500
	fi
} | tee "$out/schedperf.md"
rm -f "$out/schedperf"

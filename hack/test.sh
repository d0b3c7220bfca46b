#!/bin/bash
# Runs the tests with progress: one line per package as it ends. As root, first builds what tests with real containers use (build/bin).
# Arguments: package patterns, default ./...
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
start=$(date +%s)
since() { printf '%4ds' $(($(date +%s) - start)); }
say() { echo "$(since)  $*"; }

say "compiling"
go build ./...
if [ "$(id -u)" = 0 ]; then
	hack/deps.sh
	hack/runtime.sh build/bin
	make binary
	say "tests with real containers run, as root"
else
	say "tests with real containers are skipped: they need root"
fi
mkdir -p build
say "testing"
# The log of every test feeds `make ledger`; people see one line per package and whatever failed.
set +e
go test -json -timeout 20m "${@:-./...}" | tee build/test.json | go run ./hack/progress "$start" build/failed
code=${PIPESTATUS[0]}
if [ "$code" != 0 ] && [ -s build/failed ] && [ "$(wc -l <build/failed)" -le 3 ]; then
	# Tests with real containers share a machine with all others. What fails twice, the second time alone, fails the run; what does not is named.
	say "once more, alone: $(xargs <build/failed)"
	# shellcheck disable=SC2046 # a word for each package
	if go test -json -count=1 -p 1 -timeout 20m $(cat build/failed) | go run ./hack/progress "$start"; [ "${PIPESTATUS[0]}" = 0 ]; then
		code=0
		unsteady=$(xargs <build/failed)
	fi
fi
if [ "${*:-./...}" = ./... ]; then
	# Programs that others wrote (Helm, controller-runtime) are a module of their own.
	say "testing other people's clients"
	clients() { (cd test/clients && go test -timeout 20m "$@" ./...); }
	if ! clients; then
		say "once more: test/clients"
		if clients -count=1; then unsteady="${unsteady:-} test/clients"; else code=1; fi
	fi
fi
set -e
[ -z "${unsteady:-}" ] || say "UNSTEADY: failed among the others, passed alone: $unsteady (what they printed stands above)"
say "done, exit code $code"
exit "$code"

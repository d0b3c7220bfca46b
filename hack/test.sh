#!/bin/bash
# Runs the tests with progress: one line per package as it ends. As root, first builds what tests
# with real containers use (build/bin). Arguments: package patterns, default ./...
#
# Exit codes: 0, every package passed at once. 1, something failed, and failed again when it ran
# alone. 3, something failed among the others and passed alone: that is a test or a program that
# depends on what else the machine does, so it fails the run too, is named, and its first failure is
# printed once more at the end. A retry that turned a run green would hide it until a busier machine
# meets it. The second run only tells the one from the other.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
start=$(date +%s)
since() { printf '%4ds' $(($(date +%s) - start)); }
say() { echo "$(since)  $*"; }

# Everything is compiled before anything runs, so that no test shares the machine with the compiler.
# No program is linked for that: `go build ./...` would link each of hack/ and cmd/, and throw them
# away.
say "compiling"
mkdir -p build
rm -f build/outcome
go list -test -export -f '{{""}}' ./... >/dev/null
go build -o build/progress ./hack/progress
if [ "$(id -u)" = 0 ]; then
	hack/deps.sh
	hack/runtime.sh build/bin
	make binary
	hack/sidecars.sh build/sidecars || say "the CSI sidecars cannot be built: tests with them are skipped"
	say "tests with real containers run, as root"
else
	say "tests with real containers are skipped: they need root"
fi
say "testing"
# Packages that take long run first, so that none of them is left alone at the end: those of the
# last run by their time, before it those with real containers.
patterns=("${@:-./...}")
mapfile -t packages < <(go list "${patterns[@]}" | build/progress -order build/test.json)
# The log of every test feeds `make ledger`; people see one line per package and whatever failed.
# `make lint` vets.
set +e
go test -json -vet=off -timeout 20m "${packages[@]}" | tee build/test.json.new | build/progress "$start" build/failed
code=${PIPESTATUS[0]}
mv build/test.json.new build/test.json
if [ "$code" != 0 ] && [ -s build/failed ] && [ "$(wc -l <build/failed)" -le 3 ]; then
	say "once more, alone, to tell what is broken from what is unsteady: $(xargs <build/failed)"
	# shellcheck disable=SC2046 # a word for each package
	go test -json -vet=off -count=1 -p 1 -timeout 20m $(cat build/failed) | build/progress "$start"
	if [ "${PIPESTATUS[0]}" = 0 ]; then
		code=3
		unsteady=$(xargs <build/failed)
	fi
fi
if [ "${*:-./...}" = ./... ]; then
	# Programs that others wrote (Helm, controller-runtime) and the browser's driver are modules of
	# their own.
	hack/browser.sh
	# They wait more than they compute, so both run at a time; what they print comes one after the
	# other.
	module() { (cd "test/$1" && shift && go test -json -vet=off -timeout 20m "$@" ./... 2>&1); }
	declare -A running result
	for module in clients dashboard; do
		say "testing test/$module"
		{
			module "$module" | tee "build/$module.json" | build/progress "$start" "build/$module"
		} >"build/$module.log" 2>&1 &
		running[$module]=$!
	done
	for module in clients dashboard; do
		wait "${running[$module]}"
		result[$module]=$?
	done
	for module in clients dashboard; do
		cat "build/$module.log"
		cat "build/$module.json" >>build/test.json
		if [ "${result[$module]}" != 0 ]; then
			say "once more, alone: test/$module"
			if module "$module" -count=1 | build/progress "$start"; then
				unsteady="${unsteady:-} test/$module"
				cat "build/$module.txt" >>build/failed.txt
				[ "$code" = 0 ] && code=3
			else
				code=1
			fi
		fi
	done
fi
set -e
if [ -n "${unsteady:-}" ]; then
	say "UNSTEADY: failed among the others, passed alone: $unsteady"
	echo "What they printed when they failed:"
	cat build/failed.txt
fi
# For callers behind make, which has exit codes of its own.
case $code in 0) echo passed ;; 3) echo unsteady ;; *) echo failed ;; esac >build/outcome
say "done, exit code $code"
exit "$code"

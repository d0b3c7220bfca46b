#!/bin/bash
# Runs the tests with progress: one line per package as it ends. As root, first builds what tests with real containers use (build/bin).
# Arguments: package patterns, default ./...
#
# Exit codes: 0, every package passed at once. 1, something failed, and failed again when it ran alone. 3, something failed among the others and passed alone:
# that is a test or a program that depends on what else the machine does, so it fails the run too, is named, and its first failure is printed once more at the end.
# A retry that turned a run green would hide it until a busier machine meets it. The second run only tells the one from the other.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
start=$(date +%s)
since() { printf '%4ds' $(($(date +%s) - start)); }
say() { echo "$(since)  $*"; }

patterns=("${@:-./...}")
# Programs that others wrote (Helm, controller-runtime) and the browser's driver are modules of their own.
modules=()
[ "${patterns[*]}" != ./... ] || modules=(test/clients test/dashboard)

# Everything is compiled before anything runs, so that no test shares the machine with the compiler. No program is linked for that: `go build ./...` would link
# each of hack/ and cmd/, and throw them away.
say "compiling"
mkdir -p build
rm -f build/outcome
compile() { # module, what of it
	(cd "$1" && go list -export -f '{{""}}' "${@:2}" >/dev/null)
}
compile . -test ./...
for module in "${modules[@]}"; do compile "$module" -test ./... || say "$module cannot be compiled"; done
if [ ${#modules[@]} != 0 ] && [ "$(id -u)" = 0 ]; then # programs that tests link for their containers
	compile test/clients sigs.k8s.io/cri-tools/cmd/crictl || say "crictl cannot be compiled"
	compile test/deviceprograms k8s.io/kubernetes/test/images/sample-device-plugin k8s.io/kubernetes/test/e2e/dra/test-driver ||
		say "upstream's device programs cannot be compiled"
fi
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
[ ${#modules[@]} = 0 ] || hack/browser.sh
say "testing"
go list "${patterns[@]}" >build/packages
# Packages that wait more than they compute run beside the others, several at once. In each lane those that take long run first, so that none of them is left
# alone at the end: by the last run's time here, else by hack/progress/costs.txt. The log of every test feeds `make ledger`; people see one line per package and
# whatever failed. `make lint` vets.
cores=$(nproc)
tested() { go test -json -vet=off -timeout 20m "$@"; }
in_lane() { # lane, packages at once, further flags
	local lane=$1 at_once=$2 packages
	shift 2
	mapfile -t packages < <(build/progress -lane "$lane" build/test.json <build/packages)
	[ ${#packages[@]} = 0 ] || tested -p "$at_once" "$@" "${packages[@]}"
}
in_modules() {
	local module code=0
	for module in "${modules[@]}"; do
		(cd "$module" && tested ./...) || code=1
	done
	return $code
}
logged() { # name, command: its events, kept; the exit code beside them
	local name=$1 code=0
	shift
	{
		"$@" || code=$?
		echo $code >"build/$name.code"
	} | tee "build/$name.json"
}
build/progress "$start" build/failed <(logged computing in_lane computing "$cores") <(logged waiting in_lane waiting $((cores + 1)) -parallel $((2 * cores))) <(logged modules in_modules)
cat build/{computing,waiting,modules}.json >build/test.json
code=$(sort -n build/{computing,waiting,modules}.code | tail -1)
set +e
if [ "$code" != 0 ] && [ -s build/failed ] && [ "$(wc -l <build/failed)" -le 3 ]; then
	say "once more, alone, to tell what is broken from what is unsteady: $(xargs <build/failed)"
	alone() { # of packages of any module
		local package code=0
		for package in $(cat build/failed); do
			(cd "${package#github.com/gantry-project/gantry/}" && tested -count=1 .) || code=1
		done
		return $code
	}
	if alone | build/progress "$start"; [ "${PIPESTATUS[0]}" = 0 ]; then
		code=3
		unsteady=$(xargs <build/failed)
	fi
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

#!/bin/sh
# Renders docs/compatibility/features.md: which rows of test/features/rows.md a test proves, by the marks in the tests and the results of the last `make test`.
set -eu
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
if [ ! -s build/test.json ]; then
	echo "build/test.json is missing: run \`make test\` first, the ledger counts what passed" >&2
	exit 1
fi
go run ./hack/featurestatus -results build/test.json
awk -F '|' '/^\| \*\*all\*\*/ { gsub(/[* ]/, ""); print "docs/compatibility/features.md: " $3 " of " $4 " rows proven" }' docs/compatibility/features.md

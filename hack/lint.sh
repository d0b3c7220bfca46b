#!/bin/sh
# Runs golangci-lint as hack/lint/go.mod pins it; it is built once (minutes) and kept under
# ${XDG_CACHE_HOME:-~/.cache}/gantry.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gantry
key=$( (cat "$here/hack/lint/go.sum"; go version; uname -m) | sha256sum | cut -c1-16)
linter=$cache/golangci-lint-$key
export CGO_ENABLED=0
if [ ! -x "$linter" ]; then
	echo "building golangci-lint (once, some minutes)"
	mkdir -p "$cache"
	(cd "$here/hack/lint" &&
		go build -ldflags "-s -w" -o "$linter.$$" github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
	mv "$linter.$$" "$linter"
fi
cd "$here" && exec "$linter" run --timeout 15m "${@:-./...}"

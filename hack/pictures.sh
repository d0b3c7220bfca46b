#!/bin/bash
# Draws the pictures of the page that README.md and docs/user/dashboard.md show: a browser looks at
# a testcluster. Writes docs/images/dashboard-*.png.
set -euo pipefail
cd "$(dirname "$0")/.."
hack/browser.sh
out=$PWD/docs/images
(cd test/dashboard && go test -count=1 -timeout 10m -run 'TestEachViewShowsItsObjects|TestPictures' -pictures "$out" .)
for f in "$out"/dashboard-*.png; do
	size=$(stat -c %s "$f")
	if [ "$size" -gt 150000 ]; then
		echo "$f is $size bytes: at most 150000" >&2
		exit 1
	fi
done
ls -l "$out"/dashboard-*.png

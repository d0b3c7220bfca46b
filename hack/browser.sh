#!/bin/sh
# Installs what tests and pictures of the page need: Debian's chromium. Where it cannot be had the
# tests are skipped, by name.
set -eu

command -v chromium >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "no chromium: tests of the page are skipped (Debian: apt-get install chromium)" >&2
	exit 0
fi
echo "installing chromium (apt-get)"
export DEBIAN_FRONTEND=noninteractive
apt-get install -qq -y --no-install-recommends chromium >/dev/null 2>&1 || {
	apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null
} || echo "chromium cannot be installed: tests of the page are skipped" >&2

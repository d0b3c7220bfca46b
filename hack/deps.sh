#!/bin/sh
# Installs what is missing to build and try Gantry (with the argument vm, for its virtual machine
# too), from Debian's packages; says what it does. Nothing missing: says nothing.
set -eu

if ! command -v go >/dev/null; then
	echo "Go is missing: install Go 1.26 or newer and put its bin directory on PATH" >&2
	exit 1
fi

missing=
need() { # package, and a command that succeeds when it is there
	package=$1
	shift
	"$@" >/dev/null 2>&1 || missing="$missing $package"
}
static_busybox() { busybox true && ! { command -v ldd && ldd "$(command -v busybox)"; }; }
c_headers() { echo '#include <stdio.h>' | gcc -E - ; }

need gcc command -v gcc
need libc6-dev c_headers
need pkg-config command -v pkg-config
need libseccomp-dev pkg-config --exists libseccomp
need nftables command -v nft
need busybox-static static_busybox
need xz-utils command -v xz
if [ "${1:-}" = vm ]; then # the virtual machine of `make vm`
	need qemu-system-x86 command -v qemu-system-x86_64
	need e2fsprogs command -v mke2fs
fi

[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null; then
	echo "missing:$missing (Debian's names); install them with this system's package program" >&2
	exit 1
fi
if [ "$(id -u)" != 0 ]; then
	echo "missing:$missing" >&2
	echo "run: sudo apt-get install$missing" >&2
	exit 1
fi
echo "installing$missing (apt-get)"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
apt-get install -qq -y --no-install-recommends $missing >/dev/null 2>&1 || {
	apt-get update -qq && apt-get install -qq -y --no-install-recommends $missing >/dev/null
}

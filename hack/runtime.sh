#!/bin/sh
# Builds the programs that containers need beside Gantry, into the directory named by the first
# argument:
#   containerd-shim-runc-v2, runc (static, with seccomp), pause, cni/gantry-cni and, for conformance
#   checks, cni/{bridge,host-local,loopback,portmap,firewall}.
# Versions are pinned by hack/runtime/go.mod. What was built once is kept under
# ${XDG_CACHE_HOME:-~/.cache}/gantry and copied from there.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
out=${1:?usage: hack/runtime.sh OUTPUT-DIRECTORY}
mkdir -p "$out/cni"
out=$(cd "$out" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gantry
sources="$here/hack/runtime/go.sum $here/hack/runtime.sh $here/hack/pause/pause.c"
# shellcheck disable=SC2086 # a word for each file
key=$( (cat $sources; go version; uname -m) | sha256sum | cut -c1-16)
store=$cache/runtime-$key

if [ ! -e "$store/done" ]; then
	for tool in gcc pkg-config; do
		command -v $tool >/dev/null || { echo "$tool is missing: runc's first stage is C. Run: make deps" >&2; exit 1; }
	done
	pkg-config --exists libseccomp || {
		echo "libseccomp's headers are missing: a runc without seccomp runs no Kubernetes Pod. Run: make deps" >&2
		exit 1
	}
	mkdir -p "$cache"
	tmp=$(mktemp -d "$cache/runtime.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	mkdir "$tmp/cni"
	cd "$here/hack/runtime"
	version() { go list -m -f '{{.Version}}' "$1"; }
	containerd=$(version github.com/containerd/containerd/v2)
	runc=$(version github.com/opencontainers/runc)
	plugins=$(version github.com/containernetworking/plugins)
	echo "building runc $runc (static, seccomp)"
	CGO_ENABLED=1 go build -tags "seccomp netgo osusergo urfave_cli_no_docs" \
		-ldflags "-s -w -extldflags -static -X main.version=${runc#v}" -o "$tmp/runc" github.com/opencontainers/runc
	echo "building containerd-shim-runc-v2 $containerd"
	CGO_ENABLED=0 go build -tags no_grpc \
		-ldflags "-s -w -X github.com/containerd/containerd/v2/version.Version=$containerd" \
		-o "$tmp/" github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
	echo "building the standard CNI plugins $plugins (used by the conformance checks alone)"
	module=github.com/containernetworking/plugins
	CGO_ENABLED=0 go build -ldflags "-s -w -X $module/pkg/utils/buildversion.BuildVersion=$plugins" -o "$tmp/cni/" \
		$module/plugins/main/bridge $module/plugins/main/loopback $module/plugins/ipam/host-local \
		$module/plugins/meta/portmap $module/plugins/meta/firewall
	echo "building pause"
	gcc -Os -static -s -o "$tmp/pause" "$here/hack/pause/pause.c"
	touch "$tmp/done"
	chmod 755 "$tmp"
	trap - EXIT
	mv -T "$tmp" "$store" 2>/dev/null || rm -rf "$tmp" # another build was faster: its files are the same
	# shellcheck disable=SC2012
	ls -dt "$cache"/runtime-* | tail -n +4 | xargs -r rm -rf # keep the last three
fi

for f in runc containerd-shim-runc-v2 pause cni/bridge cni/loopback cni/host-local cni/portmap cni/firewall; do
	cmp -s "$store/$f" "$out/$f" || { cp "$store/$f" "$out/$f.new" && mv "$out/$f.new" "$out/$f"; }
done
cd "$here" && CGO_ENABLED=0 go build -ldflags "-s -w" -o "$out/cni/gantry-cni" ./cmd/gantry-cni

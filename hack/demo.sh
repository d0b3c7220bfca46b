#!/bin/bash
# The whole life of one Pod on this machine: start Gantry in a directory of its own, apply
# docs/examples/demo-pod.yaml, look at it, delete it, stop, and leave nothing behind. Called by
# `make demo` after `make build`; needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/build/bin

if [ "$(id -u)" != 0 ]; then
	echo "the demo runs real containers and needs root: sudo make demo" >&2
	exit 1
fi

dir=$(mktemp -d /tmp/gantry-demo.XXXXXX)
log=$dir.log
begin=$(date +%s%N)
up=
heading() {
	local tenths=$((($(date +%s%N) - begin) / 100000000))
	printf '\n\033[1m== %s\033[0m  (%d.%01d s)\n' "$1" $((tenths / 10)) $((tenths % 10))
}
run() {
	printf '$ %s\n' "$*"
	"$@"
}
cleanup() {
	code=$?
	trap - EXIT INT TERM
	if [ -n "$up" ] && kill -0 "$up" 2>/dev/null; then
		kill -TERM "$up"
		wait "$up" || true
	fi
	"$bin/gantry" clean --data-dir "$dir" >/dev/null 2>&1 || true
	if [ $code != 0 ]; then
		echo "demo failed; what gantry said is in $log:" >&2
		tail -n 20 "$log" >&2
	else
		rm -f "$log"
	fi
	rm -rf "$dir"
	exit $code
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if ! command -v kubectl >/dev/null; then PATH=$bin:$PATH; fi
# Ports and names that do not collide with another Gantry, or anything else, on this machine.
free_port() {
	port=$1
	while (: </dev/tcp/127.0.0.1/"$port") 2>/dev/null; do port=$((port + 1)); done
	echo "$port"
}
api_port=$(free_port 16443)
kubelet_port=$(free_port 20250)
export KUBECONFIG=$dir/kubeconfig

heading "Build the Pod's image (no registry, no internet)"
mkdir "$dir/images"
go run ./hack/images "$dir/images/busybox.tar" docker.io/library/busybox:1.28
echo "docker.io/library/busybox:1.28 in $dir/images: gantry imports what lies there"

heading "Start Gantry: API server, etcd, scheduler, controllers, kubelet, containerd"
"$bin/gantry" up --data-dir "$dir" --secure-port "$api_port" --kubelet-port "$kubelet_port" --node-name demo \
	--bridge gdemo0 --pod-cidr 10.73.0.0/24 --stop-pods >"$log" 2>&1 &
up=$!
for _ in $(seq 1 600); do
	[ -s "$KUBECONFIG" ] && kubectl get --raw /readyz >/dev/null 2>&1 &&
		kubectl wait node/demo --for=condition=Ready --timeout=30s >/dev/null 2>&1 && break
	kill -0 "$up" 2>/dev/null || { echo "gantry up ended" >&2; exit 1; }
	sleep 0.05
done
cat "$log"
run kubectl get nodes -o wide

heading "Apply the Pod and wait until it is ready"
run kubectl apply -f docs/examples/demo-pod.yaml
run kubectl wait pod/hello --for=condition=Ready --timeout=60s
run kubectl get pod hello -o wide

heading "Look at it as with any Kubernetes"
run kubectl describe pod hello
run kubectl logs hello -c prepare
run kubectl logs hello
run kubectl exec hello -c web -- wget -q -O - http://127.0.0.1:8080/

heading "Read its story"
run "$bin/gantry" trace pod/hello

heading "Delete it"
run kubectl delete pod hello
run "$bin/gantry" trace pod/hello | tail -n 8

heading "Stop Gantry and clean up"
kill -TERM "$up"
wait "$up"
up=
run "$bin/gantry" clean --data-dir "$dir"
left=$(
	grep -F "$dir" /proc/mounts || true
	ip -o link show gdemo0 2>/dev/null || true
	pgrep -af "$dir" || true
)
if [ -n "$left" ]; then
	echo "left behind:" >&2
	echo "$left" >&2
	exit 1
fi
echo "nothing is left: no process, no mount, no network interface"
heading "Done"
cat <<EOF
Your own cluster:   sudo make up            (data in /var/lib/gantry; Ctrl-C stops it)
Then, elsewhere:    export KUBECONFIG=/var/lib/gantry/kubeconfig
                    kubectl get nodes
EOF

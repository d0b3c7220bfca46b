#!/bin/bash
# Builds upstream's kubelet and kube-controller-manager and two sidecars of the CSI project into the
# directory of the first argument, for the part volumes of hack/bench: bench -only volumes -upstream
# DIRECTORY.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-build/upstream}")
export CGO_ENABLED=0
mkdir -p "$out"
version=v1.37.2
x=k8s.io/component-base/version
flags="-s -w -X $x.gitVersion=$version -X $x.gitMajor=1 -X $x.gitMinor=37 -X $x.gitTreeState=clean"
go build -C hack/conformance/upstream -ldflags "$flags" -o "$out/" \
	k8s.io/kubernetes/cmd/kubelet k8s.io/kubernetes/cmd/kube-controller-manager
go build -C test/sidecars/upstream -ldflags "-s -w" -o "$out/" \
	github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner \
	github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher

#!/bin/bash
# Builds the CSI project's programs that test/sidecars runs into the directory of the first
# argument, with the manifests that they bring along. They are built beside it and moved there when
# all of them are done: nobody takes a part for the whole.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-build/sidecars}")
export CGO_ENABLED=0
mkdir -p "$(dirname "$out")"
whole=$out
out=$(mktemp -d "$whole.XXXXXX")
trap 'rm -rf "$out"' EXIT
chmod 755 "$out"
# What is up to date is not linked again; go and install write no file in place.
[ ! -d "$whole" ] || cp -al "$whole/." "$out/"
mkdir -p "$out/manifests"
cd test/sidecars/upstream
go build -o "$out/" tool
dir() { go list -m -f '{{.Dir}}' "github.com/kubernetes-csi/$1"; }
put() { install -m 644 "$1" "$out/manifests/$2.yaml"; }
for kind in volumesnapshotclasses volumesnapshotcontents volumesnapshots; do
	put "$(dir external-snapshotter/client/v8)/config/crd/snapshot.storage.k8s.io_$kind.yaml" "crd-$kind"
done
snapshotter=$(dir external-snapshotter/v8)/deploy/kubernetes
put "$snapshotter/snapshot-controller/rbac-snapshot-controller.yaml" rbac-snapshot-controller
put "$snapshotter/csi-snapshotter/rbac-csi-snapshotter.yaml" rbac-csi-snapshotter
put "$(dir external-provisioner/v6)/deploy/kubernetes/rbac.yaml" rbac-csi-provisioner
put "$(dir external-attacher/v4)/deploy/kubernetes/rbac.yaml" rbac-csi-attacher
put "$(dir external-resizer/v2)/deploy/kubernetes/rbac.yaml" rbac-csi-resizer
rm -rf "$whole"
mv -T "$out" "$whole"

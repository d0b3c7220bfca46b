#!/bin/sh
# Generates internal/apiserver/openapi/definitions.json.gz: the OpenAPI definitions of the served
# k8s.io/api types. It changes only with the versions of k8s.io/api and k8s.io/kube-openapi in
# go.mod. Usage: hack/openapi/generate.sh
set -eu
cd "$(dirname "$0")/../.."
version=$(go list -m -f '{{.Version}}' k8s.io/kube-openapi)
work=build/openapi
rm -rf "$work"
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT
: >"$work/header"
packages=""
for group in core apps batch policy discovery coordination scheduling node storage rbac authentication authorization \
	admissionregistration certificates events networking autoscaling resource flowcontrol storagemigration; do
	packages="$packages k8s.io/api/$group/v1"
done
GOBIN="$(pwd)/$work" go install "k8s.io/kube-openapi/cmd/openapi-gen@$version"
"$work/openapi-gen" -r "$work/rules" --go-header-file "$work/header" \
	--output-dir "$work" --output-pkg github.com/gantry-project/gantry/build/openapi --output-file definitions.go \
	$packages k8s.io/api/autoscaling/v2 k8s.io/api/scheduling/v1alpha3 k8s.io/api/scheduling/v1beta1 \
	k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/version \
	k8s.io/apimachinery/pkg/api/resource k8s.io/apimachinery/pkg/util/intstr
sed -i 's/^package openapi$/package main/' "$work/definitions.go"
cp hack/openapi/dump.go.txt "$work/main.go"
go run "./$work" >internal/apiserver/openapi/definitions.json.gz

package openapi

import (
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// BenchmarkGetOpenAPIDefinitions is the copy that each document of OpenAPI v3 gets, made once per
// document at its first request.
func BenchmarkGetOpenAPIDefinitions(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + name) })
	}
}

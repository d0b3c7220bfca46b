package openapi

import (
	"testing"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// TestDefinitionsAreComplete checks that every reference and dependency of a definition is a
// definition, and that the reference callback of each caller is asked for all of them.
func TestDefinitionsAreComplete(t *testing.T) {
	asked := map[string]bool{}
	defs := GetOpenAPIDefinitions(func(name string) spec.Ref {
		asked[name] = true
		return spec.MustCreateRef("#/first/" + name)
	})
	if len(defs) < 700 {
		t.Errorf("%d definitions, want those of all served groups, more than 700", len(defs))
	}
	for name := range asked {
		if _, ok := defs[name]; !ok {
			t.Errorf("a definition refers to %s, which has none", name)
		}
	}
	for name, d := range defs {
		for _, dep := range d.Dependencies {
			if _, ok := defs[dep]; !ok {
				t.Errorf("%s depends on %s, which has no definition", name, dep)
			}
			if !asked[dep] {
				t.Errorf("%s depends on %s, for which no reference was asked", name, dep)
			}
		}
	}
}

// TestCallersDoNotShareReferences checks that a second caller's references leave the first one's
// alone.
func TestCallersDoNotShareReferences(t *testing.T) {
	const pod, spec1 = "io.k8s.api.core.v1.Pod", "#/first/io.k8s.api.core.v1.PodSpec"
	first := GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef("#/first/" + name) })
	GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef("#/second/" + name) })
	field := first[pod].Schema.Properties["spec"]
	if got := field.Ref.String(); got != spec1 {
		t.Errorf("reference of Pod.spec = %q, want %q", got, spec1)
	}
}

// TestCallersOwnExtensions checks that a caller may add and delete extensions, as the builders of
// the documents do.
func TestCallersOwnExtensions(t *testing.T) {
	const quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity"
	ref := func(string) spec.Ref { return spec.Ref{} }
	first := GetOpenAPIDefinitions(ref)[quantity]
	delete(first.Schema.Extensions, common.ExtensionV2Schema)
	first.Schema.Extensions["x-added"] = true
	second := GetOpenAPIDefinitions(ref)[quantity].Schema.Extensions
	if _, ok := second[common.ExtensionV2Schema]; !ok || second["x-added"] != nil {
		t.Errorf("extensions after another caller's changes: got %v, want them as generated", second)
	}
}

// TestV2SchemaIsASchema checks the type of the extension that OpenAPI v2 reads: the library takes a
// spec.Schema and nothing else.
func TestV2SchemaIsASchema(t *testing.T) {
	for _, name := range []string{"io.k8s.apimachinery.pkg.api.resource.Quantity",
		"io.k8s.apimachinery.pkg.util.intstr.IntOrString"} {
		d := GetOpenAPIDefinitions(func(string) spec.Ref { return spec.Ref{} })[name]
		if _, ok := d.Schema.Extensions[common.ExtensionV2Schema].(spec.Schema); !ok {
			t.Errorf("%s: extension %s is a %T, want spec.Schema", name, common.ExtensionV2Schema,
				d.Schema.Extensions[common.ExtensionV2Schema])
		}
	}
}

func TestDamagedDefinitionsAreRefused(t *testing.T) {
	for name, raw := range map[string][]byte{"empty": nil, "no gzip": []byte("{}"), "cut": compressed[:100]} {
		if _, err := decode(raw); err == nil {
			t.Errorf("decode of %s definitions: got no error", name)
		}
	}
}

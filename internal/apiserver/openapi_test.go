package apiserver

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/builder3"
)

// TestOpenAPIDocumentsAtOnce asks a new server for all OpenAPI documents at once: each is complete,
// and making one changes no other.
func TestOpenAPIDocumentsAtOnce(t *testing.T) {
	_, c, _ := startServer(t, testConfig(t.TempDir()))
	get := func(path string) []byte {
		raw, err := c.Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		if err != nil {
			t.Errorf("GET %s: got error %v, want the document", path, err)
		}
		return raw
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal(get("/openapi/v3"), &index); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, path := range slices.Sorted(maps.Keys(index.Paths)) {
		all.Go(func() { get("/openapi/v3/" + path) })
	}
	var v2 []byte
	all.Go(func() { v2 = get("/openapi/v2") })
	all.Wait()
	var swagger struct {
		Definitions map[string]struct {
			Type, Format string
		}
	}
	if err := json.Unmarshal(v2, &swagger); err != nil {
		t.Fatal(err)
	}
	const name = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
	if d := swagger.Definitions[name]; d.Type != "string" || d.Format != "int-or-string" {
		t.Errorf("OpenAPI v2 of %s: got type %q, format %q, want string, int-or-string", name, d.Type, d.Format)
	}
	if strings.Contains(string(v2), "x-kubernetes-v2-schema") {
		t.Error("OpenAPI v2 holds the extension x-kubernetes-v2-schema, want what it says")
	}
}

// Two documents that are made at the same time write to nothing that both have: a concurrent write
// to a map ends the whole process.
func TestOpenAPIDocumentsShareNoDefinitions(t *testing.T) {
	_, served := rows(t)
	b, g := &builder{scheme: served}, &genericapiserver.Config{}
	b.setOpenAPI(g, openAPIDefinitions)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if _, err := builder3.BuildOpenAPIDefinitionsForResources(g.OpenAPIV3Config, "io.k8s.api.core.v1.Pod",
					"io.k8s.apimachinery.pkg.util.intstr.IntOrString"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

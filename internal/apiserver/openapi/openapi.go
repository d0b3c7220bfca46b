package openapi

import (
	"bytes"
	"compress/gzip"
	_ "embed" // the definitions are a file
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// refPrefix stands before the name of a definition in the references of definitions.json.gz.
const refPrefix = "#/definitions/"

//go:embed definitions.json.gz
var compressed []byte

// decoded is the content of definitions.json.gz; its schemas are shared and must not be written to.
var decoded = sync.OnceValue(func() map[string]common.OpenAPIDefinition {
	out, err := decode(compressed)
	if err != nil {
		panic(fmt.Sprintf(
			"internal/apiserver/openapi/definitions.json.gz: %v: generate it with hack/openapi/generate.sh", err))
	}
	return out
})

// GetOpenAPIDefinitions returns the definition of every served type by its model name, with
// references made by ref. It is a common.GetOpenAPIDefinitions. The first call of a process decodes
// the embedded file. The caller owns what it gets, but for the default values, enums and
// extensions, which all calls share and nobody writes to. Safe for concurrent use.
func GetOpenAPIDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	from := decoded()
	out := make(map[string]common.OpenAPIDefinition, len(from))
	for name, d := range from {
		out[name] = common.OpenAPIDefinition{
			Schema: withRefs(d.Schema, ref), Dependencies: slices.Clone(d.Dependencies),
		}
	}
	return out
}

// decode reads gzip-compressed JSON: an object of common.OpenAPIDefinition by model name.
func decode(raw []byte) (map[string]common.OpenAPIDefinition, error) {
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	out := map[string]common.OpenAPIDefinition{}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	for name, d := range out {
		v2, ok := d.Schema.Extensions[common.ExtensionV2Schema]
		if !ok {
			continue
		}
		schema, err := asSchema(v2)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		d.Schema.Extensions[common.ExtensionV2Schema] = schema
	}
	return out, nil
}

// asSchema turns a decoded JSON value into the schema that the library expects in the extension
// that holds what OpenAPI v2 shows instead.
func asSchema(v any) (spec.Schema, error) {
	var out spec.Schema
	text, err := json.Marshal(v)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(text, &out)
}

// withRefs copies a schema, with each reference to a definition made by ref.
func withRefs(s spec.Schema, ref common.ReferenceCallback) spec.Schema {
	s.Extensions = maps.Clone(s.Extensions) // the builders of documents add and delete some
	if name, ok := strings.CutPrefix(s.Ref.String(), refPrefix); ok {
		s.Ref = ref(name)
	}
	if n, ok := s.Default.(float64); ok && n == math.Trunc(n) {
		s.Default = int(n) // as the generated definitions have it
	}
	s.Properties = each(s.Properties, ref)
	s.AllOf = all(s.AllOf, ref)
	s.OneOf = all(s.OneOf, ref)
	s.AnyOf = all(s.AnyOf, ref)
	if s.Items != nil {
		items := *s.Items
		items.Schema, items.Schemas = one(items.Schema, ref), all(items.Schemas, ref)
		s.Items = &items
	}
	if s.AdditionalProperties != nil {
		more := *s.AdditionalProperties
		more.Schema = one(more.Schema, ref)
		s.AdditionalProperties = &more
	}
	return s
}

func one(s *spec.Schema, ref common.ReferenceCallback) *spec.Schema {
	if s == nil {
		return nil
	}
	out := withRefs(*s, ref)
	return &out
}

func all(list []spec.Schema, ref common.ReferenceCallback) []spec.Schema {
	if list == nil {
		return nil
	}
	out := make([]spec.Schema, len(list))
	for i, s := range list {
		out[i] = withRefs(s, ref)
	}
	return out
}

func each(m map[string]spec.Schema, ref common.ReferenceCallback) map[string]spec.Schema {
	if m == nil {
		return nil
	}
	out := make(map[string]spec.Schema, len(m))
	for name, s := range m {
		out[name] = withRefs(s, ref)
	}
	return out
}

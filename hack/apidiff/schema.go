package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// schema is a type as an OpenAPI v2 document describes it.
type schema struct {
	Ref        string                                  `json:"$ref"`
	Type       string                                  `json:"type"`
	Format     string                                  `json:"format"`
	Enum       []any                                   `json:"enum"`
	Required   []string                                `json:"required"`
	Properties map[string]*schema                      `json:"properties"`
	Items      *schema                                 `json:"items"`
	Additional *schema                                 `json:"additionalProperties"`
	Kinds      []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
}

// schemas are all types of a server.
type schemas struct {
	types  map[string]*schema
	byKind map[string]*schema // apiVersion/kind
}

func readSchemas(ctx context.Context, s *server) (*schemas, error) {
	a, err := s.send(ctx, request{Method: "GET", Path: "/openapi/v2"})
	if err != nil {
		return nil, err
	}
	var doc struct{ Definitions map[string]*schema }
	if err := json.Unmarshal(a.body, &doc); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	out := &schemas{doc.Definitions, map[string]*schema{}}
	for _, d := range doc.Definitions {
		for _, k := range d.Kinds {
			out.byKind[strings.TrimPrefix(k.Group+"/"+k.Version, "/")+"/"+k.Kind] = d
		}
	}
	return out, nil
}

const refPrefix = "#/definitions/"

func (s *schemas) follow(x *schema) *schema {
	for x != nil && x.Ref != "" {
		name := strings.TrimPrefix(x.Ref, refPrefix)
		switch {
		case strings.HasSuffix(name, ".resource.Quantity"):
			return &schema{Type: "string", Format: "quantity"}
		case strings.HasSuffix(name, ".IntOrString"):
			return &schema{Type: "string", Format: "int-or-string"}
		}
		x = s.types[name]
	}
	return x
}

// sampleStrings are valid values by field name.
var sampleStrings = map[string]any{
	"ip": "10.1.2.3", "podIP": "10.1.2.3", "hostIP": "10.1.2.3", "clusterIP": "10.96.9.9", "path": "/x",
	"mountPath": "/x", "devicePath": "/x", "port": 80, "containerPort": 80, "cidr": "10.0.0.0/8",
	"image": "i", "apiVersion": "v1", "kind": "Pod", "expression": "true", "schedule": "* * * * *",
	"topologyKey": "zone", "driver": "a.b", "provisioner": "a.b/c", "protocol": "TCP",
	"effect": "NoSchedule", "operator": "Exists", "uid": "u", "storage": "1Gi", "url": "https://a.b/c",
	"pathType": "Exact", "restartPolicy": "Never", "fieldPath": "metadata.name",
	"resource": "limits.cpu", "verbs": []any{"get"}, "apiGroups": []any{""}, "apiVersions": []any{"v1"},
	"resources": []any{"pods"}, "operations": []any{"CREATE"}, "signerName": "a.b/c", "reference": "registry/x:1",
}

// plausible returns a value for a field of this type, with its required fields.
func (s *schemas) plausible(x *schema, name string, depth int) any {
	x = s.follow(x)
	if x == nil || depth > 9 {
		return map[string]any{}
	}
	if v, ok := sampleStrings[name]; ok && (x.Type == kindOf(v) || x.Format == "int-or-string") {
		return v
	}
	if len(x.Enum) > 0 {
		return x.Enum[len(x.Enum)/2]
	}
	switch x.Type {
	case "string":
		switch x.Format {
		case "quantity":
			return "1"
		case "int-or-string":
			return 1
		case "date-time":
			return "2026-01-01T00:00:00Z"
		case "byte":
			return "YQ=="
		}
		return "a"
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "array":
		return []any{s.plausible(x.Items, name, depth+1)}
	}
	out := map[string]any{}
	if x.Additional != nil {
		out["a"] = s.plausible(x.Additional, name, depth+1)
	}
	for _, r := range x.Required {
		out[r] = s.plausible(x.Properties[r], r, depth+1)
	}
	if _, ok := x.Properties["name"]; ok && len(out) == 0 {
		out["name"] = "a"
	}
	return out
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case int:
		return "integer"
	case []any:
		return "array"
	}
	return "object"
}

// absent as a change removes the field.
type absent struct{}

// values returns what to set a field to, including unusual values.
func (s *schemas) values(x *schema, name string, now any) []any {
	p := s.plausible(x, name, 0)
	out := []any{absent{}}
	switch x.Type {
	case "string":
		switch x.Format {
		case "quantity":
			out = append(out, "1", "0", "-1", "1500m", "1Gi", "0.5", "x")
		case "int-or-string":
			out = append(out, 1, 0, -1, 65536, "a", "50%", "-5%", "101%", "A_b", "")
		case "date-time":
			out = append(out, p, "yesterday")
		case "byte":
			out = append(out, p, "", "%%")
		default:
			out = append(out, p, "", "b", "Bad_Name!", strings.Repeat("x", 254), "a.b", "a/b", "-a", "../a", "1.2.3.4",
				"a--b")
			out = append(out, x.Enum...)
		}
	case "integer", "number":
		out = append(out, 0, 1, -1, 2, 70000, 1<<31-1, "1")
		if x.Format == "int64" {
			out = append(out, int64(1)<<40)
		}
	case "boolean":
		out = append(out, true, false)
	case "array":
		one := s.plausible(x.Items, name, 0)
		out = append(out, []any{}, []any{one}, []any{one, one})
		if list, ok := now.([]any); ok && len(list) > 0 {
			out = append(out, append(slices.Clone(list), list[0]))
		}
	default:
		out = append(out, map[string]any{}, p)
		if x.Additional != nil {
			v := s.plausible(x.Additional, name, 0)
			out = append(out, map[string]any{"a.b/c": v}, map[string]any{"Bad Key!": v}, map[string]any{"": v},
				map[string]any{"memory": v}, map[string]any{"a/b/c": v})
		}
	}
	return out
}

// change sets one path of an object to a value; missing parents are created first.
type change struct {
	path  []any // keys and indexes
	value any
	make  *change // what is set before
}

// changes returns all changes worth trying below a value of a type.
func (s *schemas) changes(x *schema, now any, at change) []change {
	x = s.follow(x)
	if x == nil || len(at.path) > 16 {
		return nil
	}
	var out []change
	name := ""
	if n := len(at.path); n > 0 {
		switch last := at.path[n-1].(type) {
		case string:
			name = last
		case int:
			name, _ = at.path[n-2].(string)
		}
		for _, v := range s.values(x, name, now) {
			out = append(out, change{at.path, v, at.make})
		}
	}
	if now == nil && (x.Type == "array" || x.Type == "object" || x.Type == "" || x.Properties != nil) {
		now = s.plausible(x, name, 0)
		at.make = &change{at.path, now, at.make}
	}
	switch v := now.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(x.Properties)) {
			if n := len(at.path); n == 0 && (key == "apiVersion" || key == "kind") || key == "managedFields" ||
				n == 1 && at.path[0] == "metadata" && key == "namespace" {
				continue
			}
			if depthOf(at.path, key) > 1 { // a recursive type
				continue
			}
			out = append(out, s.changes(x.Properties[key], v[key], change{join(at.path, key), nil, at.make})...)
		}
		if x.Additional != nil {
			for _, key := range slices.Sorted(maps.Keys(v)) {
				out = append(out, s.changes(x.Additional, v[key], change{join(at.path, key), nil, at.make})...)
			}
		}
	case []any:
		for _, i := range unlike(v) {
			if x.Items != nil {
				out = append(out, s.changes(x.Items, v[i], change{join(at.path, i), nil, at.make})...)
			}
		}
	}
	return out
}

// unlike are the indexes of a list's first element and of those that have fields that none before
// has.
func unlike(list []any) []int {
	var out []int
	had := map[string]bool{}
	for i, e := range list {
		fresh := i == 0
		m, _ := e.(map[string]any)
		for k := range m {
			fresh = fresh || !had[k]
			had[k] = true
		}
		if fresh {
			out = append(out, i)
		}
	}
	return out
}

func depthOf(path []any, key string) int {
	n := 0
	for _, p := range path {
		if p == any(key) && key != "spec" && key != "metadata" && key != "template" {
			n++
		}
	}
	return n
}

func join(path []any, key any) []any { return append(slices.Clone(path), key) }

// apply applies the change to an object.
func (c *change) apply(obj any) any {
	if c.make != nil {
		obj = c.make.apply(obj)
	}
	return set(obj, c.path, c.value)
}

func set(obj any, path []any, value any) any {
	if len(path) == 0 {
		return clone(value)
	}
	switch key := path[0].(type) {
	case string:
		m, _ := obj.(map[string]any)
		if m == nil {
			m = map[string]any{}
		}
		if _, gone := value.(absent); gone && len(path) == 1 {
			delete(m, key)
			return m
		}
		m[key] = set(m[key], path[1:], value)
		return m
	case int:
		l, _ := obj.([]any)
		for len(l) <= key {
			l = append(l, nil)
		}
		if _, gone := value.(absent); gone && len(path) == 1 {
			return slices.Delete(l, key, key+1)
		}
		l[key] = set(l[key], path[1:], value)
		return l
	}
	return obj
}

func clone(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return v
	}
	var out any
	if json.Unmarshal(raw, &out) != nil {
		return v
	}
	return out
}

func (c *change) String() string {
	b := strings.Builder{}
	for _, p := range c.path {
		if i, ok := p.(int); ok {
			fmt.Fprintf(&b, "[%d]", i)
		} else {
			fmt.Fprintf(&b, ".%v", p)
		}
	}
	if _, gone := c.value.(absent); gone {
		return b.String()[1:] + " taken away"
	}
	raw, _ := json.Marshal(c.value)
	return b.String()[1:] + " = " + string(raw)
}

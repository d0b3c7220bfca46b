package probelint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Read finds the Pods and Pod templates in an object of any kind, including lists and custom
// resources: anything that has a spec with containers. Services are returned separately. An object
// without either is not an error.
func Read(source string, object map[string]any) (found []Workload, services []v1.Service, err error) {
	u := unstructured.Unstructured{Object: object}
	if items, ok := object["items"].([]any); ok && strings.HasSuffix(u.GetKind(), "List") {
		for i, item := range items {
			m, ok := item.(map[string]any)
			if !ok {
				return nil, nil, fmt.Errorf("items[%d] is not an object", i)
			}
			w, s, err := Read(source, m)
			if err != nil {
				return nil, nil, fmt.Errorf("items[%d]: %w", i, err)
			}
			found, services = append(found, w...), append(services, s...)
		}
		return found, services, nil
	}
	if u.GetKind() == "" {
		return nil, nil, errors.New("the object has no kind")
	}
	if u.GetKind() == "Service" && u.GetAPIVersion() == "v1" {
		var s v1.Service
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &s); err != nil {
			return nil, nil, err
		}
		return nil, []v1.Service{s}, nil
	}
	base := Workload{Source: source, Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(),
		Deadline: deadline(u)}
	if base.Name == "" {
		base.Name = u.GetGenerateName()
	}
	if n, ok, _ := unstructured.NestedFloat64(object, "spec", "replicas"); ok {
		base.Replicas = int(n)
	} else if n, ok, _ := unstructured.NestedInt64(object, "spec", "replicas"); ok {
		base.Replicas = int(n)
	}
	found, err = walk(base, object, "")
	return found, nil, err
}

// deadline is a Deployment's progressDeadlineSeconds, with the API's default.
func deadline(u unstructured.Unstructured) time.Duration {
	if u.GetKind() != "Deployment" {
		return 0
	}
	if n, ok, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "progressDeadlineSeconds"); ok {
		switch n := n.(type) {
		case int64:
			return time.Duration(n) * time.Second
		case float64:
			return time.Duration(n) * time.Second
		}
	}
	return 600 * time.Second
}

// walk looks for maps that hold a spec with a list of containers.
func walk(base Workload, m map[string]any, at string) ([]Workload, error) {
	var out []Workload
	if spec, ok := m["spec"].(map[string]any); ok && isPodSpec(spec) {
		w, err := template(base, m, at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", join(at, "spec"), err)
		}
		return append(out, w), nil
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if key == "metadata" || key == "status" {
			continue
		}
		switch v := m[key].(type) {
		case map[string]any:
			w, err := walk(base, v, join(at, key))
			if err != nil {
				return nil, err
			}
			out = append(out, w...)
		case []any:
			for i, item := range v {
				if mm, ok := item.(map[string]any); ok {
					w, err := walk(base, mm, fmt.Sprintf("%s[%d]", join(at, key), i))
					if err != nil {
						return nil, err
					}
					out = append(out, w...)
				}
			}
		}
	}
	return out, nil
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

func isPodSpec(spec map[string]any) bool {
	list, ok := spec["containers"].([]any)
	if !ok || len(list) == 0 {
		return false
	}
	first, ok := list[0].(map[string]any)
	_, named := first["name"]
	return ok && named
}

// template decodes one; unknown fields become findings, because a misspelt probe is none.
func template(base Workload, m map[string]any, at string) (Workload, error) {
	w := base
	w.Path = join(at, "spec")
	t := v1.PodTemplateSpec{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(map[string]any{"metadata": m["metadata"],
		"spec": m["spec"]}, &t, true)
	var strict interface{ Errors() []error }
	switch {
	case err == nil:
	case runtime.IsStrictDecodingError(err) && errors.As(err, &strict):
		for _, e := range strict.Errors() {
			w.ParseFindings = append(w.ParseFindings, parseFinding(at, e))
		}
	default:
		return w, err
	}
	w.Labels, w.Spec = t.Labels, t.Spec
	if w.Kind == "Pod" {
		w.Replicas = 1
	}
	return w, nil
}

func parseFinding(at string, e error) Finding {
	field, text := join(at, "spec"), e.Error()
	if _, rest, ok := strings.Cut(text, `unknown field "`); ok {
		field = join(at, strings.TrimSuffix(rest, `"`))
		text = "a Pod has no such field: without strict checking the API drops it silently"
	}
	return Finding{Severity: Error, Rule: "unknown-field", Field: field, Message: text,
		Fix: "correct its name or its place; kubectl explain pod.spec lists the fields"}
}

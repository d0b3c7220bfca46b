// Package resource holds the rows of resource.k8s.io/v1: ResourceClaim, ResourceClaimTemplate, DeviceClass, ResourceSlice, DeviceTaintRule.
//
// Chapter 1, written.
// In: a way to the labels of namespaces, for admin access. Out: rows for apiserver.Kinds, with v1.37's defaults, checks, immutable fields and
// columns. Fields that v1.37 keeps behind gates that are off (drop.go) are removed on write.
package resource

import (
	"context"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

// NamespaceLabels reads the labels of a namespace.
type NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)

// Kinds are the rows of this package.
func Kinds(labels NamespaceLabels) []kind.Kind {
	return []kind.Kind{claims(labels), templates(labels), classes(), resourceSlices(), taintRules()}
}

func names(resource, kindName string, t kind.Types) kind.Kind {
	return kind.Kind{
		Group: resourcev1.GroupName, Version: "v1", Resource: resource, Singular: strings.ToLower(kindName), Kind: kindName, Types: t,
	}
}

func spec() *field.Path { return field.NewPath("spec") }

// items is a list at a path that may have so many items.
type items[T any] struct {
	at   *field.Path
	list []T
	most int
}

func of[T any](at *field.Path, list []T, most int) items[T] { return items[T]{at, list, most} }

// each judges the items of a list, and their number.
func each[T any](f *row.Findings, l items[T], check func(item *T, at *field.Path)) {
	for i := range l.list {
		check(&l.list[i], l.at.Index(i))
	}
	if len(l.list) > l.most {
		f.Add(field.TooMany(l.at, len(l.list), l.most))
	}
}

// once is each over a list whose items have keys that must differ.
func once[T any](f *row.Findings, l items[T], key func(*T) string, check func(item *T, at *field.Path)) {
	seen := map[string]bool{}
	each(f, l, func(item *T, at *field.Path) {
		check(item, at)
		if k := key(item); seen[k] {
			f.Add(field.Duplicate(at, k))
		} else {
			seen[k] = true
		}
	})
}

func itself(s *string) string { return *s }

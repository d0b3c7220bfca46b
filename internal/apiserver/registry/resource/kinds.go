// Package resource holds the rows of resource.k8s.io/v1: ResourceClaim, ResourceClaimTemplate,
// DeviceClass, ResourceSlice, DeviceTaintRule. In: a way to the labels of namespaces, for admin
// access. Out: rows for apiserver.Kinds, with v1.37's defaults, checks, immutable fields and
// columns. Fields that v1.37 keeps behind gates that are off (drop.go) are removed on write.
package resource

import (
	"context"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// NamespaceLabels reads the labels of a namespace.
type NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)

// Kinds are the rows of this package.
func Kinds(labels NamespaceLabels) []resourcedef.Kind {
	return []resourcedef.Kind{claims(labels), templates(labels), classes(), resourceSlices(), taintRules()}
}

func newKind(resource, kindName string, t resourcedef.Types) resourcedef.Kind {
	return resourcedef.Kind{
		Group: resourcev1.GroupName, Version: "v1", Resource: resource, Singular: strings.ToLower(kindName),
		Kind: kindName, Types: t,
	}
}

func spec() *field.Path { return field.NewPath("spec") }

// listChecker is a list at a path that may have so many items.
type listChecker[T any] struct {
	at       *field.Path
	list     []T
	maxItems int
}

func newListChecker[T any](at *field.Path, list []T, most int) listChecker[T] {
	return listChecker[T]{at, list, most}
}

// checkEach validates the items of a list, and their number.
func checkEach[T any](f *typed.Errors, l listChecker[T], check func(item *T, at *field.Path)) {
	for i := range l.list {
		check(&l.list[i], l.at.Index(i))
	}
	if len(l.list) > l.maxItems {
		f.Add(field.TooMany(l.at, len(l.list), l.maxItems))
	}
}

// checkUnique is each over a list whose items have keys that must differ.
func checkUnique[T any](f *typed.Errors, l listChecker[T], key func(*T) string, check func(item *T, at *field.Path)) {
	seen := map[string]bool{}
	checkEach(f, l, func(item *T, at *field.Path) {
		check(item, at)
		if k := key(item); seen[k] {
			f.Add(field.Duplicate(at, k))
		} else {
			seen[k] = true
		}
	})
}

func identity(s *string) string { return *s }

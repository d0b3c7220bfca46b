// Package networking holds the rows of networking.k8s.io/v1: NetworkPolicy, Ingress, IngressClass, IPAddress, ServiceCIDR.
//
// Chapter 1, written.
// In: nothing. Out: rows for apiserver.Kinds, with v1.37's defaults, checks, immutable fields and columns.
package networking

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// Kinds are the rows of this package.
func Kinds() []kind.Kind {
	return []kind.Kind{policies(), ingresses(), classes(), addresses(), serviceCIDRs()}
}

func names(resource, kindName string, t kind.Types, short ...string) kind.Kind {
	return kind.Kind{
		Group: networkingv1.GroupName, Version: "v1", Resource: resource, Singular: strings.ToLower(kindName), Kind: kindName,
		Names: kind.Names{Short: short}, Types: t,
	}
}

func spec() *field.Path { return field.NewPath("spec") }

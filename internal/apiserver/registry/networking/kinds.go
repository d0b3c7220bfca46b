// Package networking holds the rows of networking.k8s.io/v1: NetworkPolicy, Ingress, IngressClass,
// IPAddress, ServiceCIDR. In: nothing. Out: rows for apiserver.Kinds, with v1.37's defaults,
// checks, immutable fields and columns.
package networking

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind {
	return []resourcedef.Kind{networkPolicies(), ingresses(), ingressClasses(), addresses(), serviceCIDRs()}
}

func newKind(resource, kindName string, t resourcedef.Types, short ...string) resourcedef.Kind {
	return resourcedef.Kind{
		Group: networkingv1.GroupName, Version: "v1", Resource: resource, Singular: strings.ToLower(kindName),
		Kind:  kindName,
		Names: resourcedef.Names{Short: short}, Types: t,
	}
}

func spec() *field.Path { return field.NewPath("spec") }

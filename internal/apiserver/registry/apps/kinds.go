package apps

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind {
	return []resourcedef.Kind{deployments(), replicaSets(), statefulSets(), daemonSets(), controllerRevisions()}
}

// newKind are those of a kind that belongs to "all".
func newKind(resource, singular, kindName string, short ...string) resourcedef.Kind {
	return resourcedef.Kind{
		Group: appsv1.GroupName, Version: "v1", Resource: resource, Singular: singular, Kind: kindName,
		Names: resourcedef.Names{Short: short, Categories: []string{"all"}},
	}
}

package apps

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// Kinds are the rows of this package.
func Kinds() []kind.Kind {
	return []kind.Kind{deployments(), replicaSets(), statefulSets(), daemonSets(), controllerRevisions()}
}

// names are those of a kind that belongs to "all".
func names(resource, singular, kindName string, short ...string) kind.Kind {
	return kind.Kind{
		Group: appsv1.GroupName, Version: "v1", Resource: resource, Singular: singular, Kind: kindName,
		Names: kind.Names{Short: short, Categories: []string{"all"}},
	}
}

package pods

import (
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

func (c Connections) subresources(d kind.Deps) map[string]rest.Storage { return nil }

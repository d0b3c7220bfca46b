package core

import (
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

func namespaceSubresources(d kind.Deps) map[string]rest.Storage { return nil }

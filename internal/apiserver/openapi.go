package apiserver

import (
	"maps"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kube-openapi/pkg/common"

	generated "github.com/gantry-project/gantry/internal/apiserver/openapi"
	"github.com/gantry-project/gantry/internal/apiserver/registry/journal"
)

// openAPIDefinitions returns the OpenAPI models of the built-in kinds.
func openAPIDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	out := generated.GetOpenAPIDefinitions(ref)
	maps.Copy(out, journal.Definitions(ref))
	return out
}

// setOpenAPI configures OpenAPI v2 and v3 with the given models. Only versioned types get names;
// otherwise each would be listed under the internal version too.
func (b *builder) setOpenAPI(g *genericapiserver.Config, models common.GetOpenAPIDefinitions) {
	namer := openapi.NewDefinitionNamer(b.scheme.Served, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme)
	g.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(models, namer)
	g.OpenAPIV3Config.Info.Title = "Kubernetes"
	// Each document is made at its first request, by GetDefinitions of its own: the builder writes
	// to the definitions' extensions, and two documents may be made at once.
	g.OpenAPIV3Config.Definitions = nil
	if b.config.OpenAPIv2Off {
		return
	}
	g.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(models, namer)
	g.OpenAPIConfig.Info.Title = "Kubernetes"
}

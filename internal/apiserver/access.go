package apiserver

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
)

// AccessDeps is what access rules may use. Client and Informers speak to this very server in memory
// as system:apiserver; they answer once it runs, so use them in hooks and requests, not while
// building.
type AccessDeps struct {
	Loopback  *restclient.Config
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Files     Files
	// Lookup finds the store of a served kind; valid from the time storages are made.
	Lookup func(group, resource string) rest.StandardStorage
}

// Access is who may do what, made by internal/apiserver/auth and internal/apiserver/admission.
type Access struct {
	Authenticator authenticator.Request // asked after in-process identities
	Audiences     authenticator.Audiences
	RequestHeader *authenticatorfactory.RequestHeaderConfig // front proxies; nil for none
	Authorizer    authorizer.Authorizer
	RuleResolver  authorizer.RuleResolver
	// Plugins are admission plugins beside the library's own.
	Plugins []Plugin
	// Initializers hand plugins what they want beyond the library's initializer.
	Initializers []admission.PluginInitializer
	// Storages are further endpoints: create-only kinds (tokenreviews) and subresources
	// (serviceaccounts/token).
	Storages func() (map[schema.GroupVersionResource]rest.Storage, error)
	// Wrap puts rules around a kind's store, as RBAC's escalation checks.
	Wrap map[schema.GroupResource]func(rest.StandardStorage) rest.Storage
	// Hooks run when the server is up, each in its own goroutine; readiness waits for them.
	Hooks map[string]genericapiserver.PostStartHookFunc
	// Paths are plain handlers, as the service-account issuer's discovery documents.
	Paths []Path
}

// Plugin is one admission plugin. It runs at its name's place in admissionOrder; an unknown name
// runs before the mutating policies and webhooks.
type Plugin struct {
	Name    string
	Factory admission.Factory
}

// Path is a handler outside the resource API.
type Path struct {
	Path    string // exact, or a prefix when it ends in a slash
	Handler http.Handler
	Doc     *PathDoc // nil for paths that the OpenAPI document does not tell of
}

// PathDoc is what the OpenAPI document tells of a path that answers GET with a text.
type PathDoc struct{ Operation, Text, Produces string }

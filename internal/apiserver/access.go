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

	"github.com/gantry-project/gantry/internal/features"
)

// AccessDeps are the arguments of Config.Access. Client and Informers call this server in memory as
// system:apiserver and work only once it runs: use them in hooks and while serving requests.
type AccessDeps struct {
	Loopback  *restclient.Config
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Files     Files
	Features  features.Features
	// Lookup returns the store of a resource; nil if it is not served, or before storages are made.
	Lookup func(group, resource string) rest.StandardStorage
}

// Access is authentication, authorization and admission of one server; internal/apiserver/auth
// makes it.
type Access struct {
	Authenticator authenticator.Request // for requests that are not in-process
	Audiences     authenticator.Audiences
	RequestHeader *authenticatorfactory.RequestHeaderConfig // front proxies; nil for none
	Authorizer    authorizer.Authorizer
	RuleResolver  authorizer.RuleResolver
	// Plugins are the admission plugins beside the library's own.
	Plugins []Plugin
	// Initializers initialize plugins beside the library's initializer.
	Initializers []admission.PluginInitializer
	// Storages returns further endpoints: create-only kinds (tokenreviews) and subresources
	// (serviceaccounts/token).
	Storages func() (map[schema.GroupVersionResource]rest.Storage, error)
	// Wrap replaces the storage of a resource by one around its store (RBAC escalation checks).
	Wrap map[schema.GroupResource]func(rest.StandardStorage) rest.Storage
	// Hooks are PostStartHooks: each runs in its own goroutine, and readiness waits for them.
	Hooks map[string]genericapiserver.PostStartHookFunc
	// Paths are handlers outside the API, such as the service account issuer's discovery documents.
	Paths []Path
}

// Plugin is one admission plugin. admissionOrder has its place; a plugin that is not listed there
// runs before the mutating policies and webhooks.
type Plugin struct {
	Name    string
	Factory admission.Factory
}

// Path is a handler outside the resource API.
type Path struct {
	Path    string // exact, or a prefix when it ends in a slash
	Handler http.Handler
	Doc     *PathDoc // nil for paths without an entry in the OpenAPI document
}

// PathDoc is the OpenAPI entry of a path that answers GET with text.
type PathDoc struct{ Operation, Text, Produces string }

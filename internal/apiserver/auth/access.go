package auth

import (
	"context"
	"crypto"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/admission"
	"github.com/gantry-project/gantry/internal/apiserver/auth/bootstrappolicy"
	"github.com/gantry-project/gantry/internal/apiserver/auth/node"
	"github.com/gantry-project/gantry/internal/apiserver/auth/oidc"
	"github.com/gantry-project/gantry/internal/apiserver/auth/rbac"
	"github.com/gantry-project/gantry/internal/apiserver/auth/token"
	"github.com/gantry-project/gantry/internal/apiserver/auth/webhook"
	registryauth "github.com/gantry-project/gantry/internal/apiserver/registry/auth"
	registryrbac "github.com/gantry-project/gantry/internal/apiserver/registry/rbac"
	"github.com/gantry-project/gantry/internal/apiserver/registry/serviceaccounts"
)

// DefaultIssuer is the default issuer and audience of service account tokens.
const DefaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Options configure authentication and authorization. The zero value is the secure default.
type Options struct {
	Issuer    string   // DefaultIssuer
	JWKSURI   string   // URL of the public keys in the discovery document; "": below the issuer
	Audiences []string // audiences of the API server in tokens; empty: the issuer
	// TokenKeys are files of further public keys that verify tokens, such as a previous signing
	// key's.
	TokenKeys []string
	// TokenFile is a CSV file of static tokens: token, user, uid and, in quotes, groups.
	TokenFile string
	// Anonymous passes requests without credentials to authorization as system:anonymous on all
	// paths, upstream's default; otherwise only on the health paths.
	Anonymous bool
	// ProtectStorage enables the admission plugin StorageObjectInUseProtection; the protection
	// controllers must run.
	ProtectStorage bool
	// BootstrapTokens accepts bootstrap tokens: Secrets of type bootstrap.kubernetes.io/token in
	// kube-system.
	BootstrapTokens bool
	OIDC            oidc.Options                 // external token issuers
	TokenWebhook    webhook.TokenOptions         // TokenReview webhook for all other tokens
	Authorization   webhook.AuthorizationOptions // the authorizer chain
}

// Access returns the function for apiserver.Config.Access. It fails on unreadable or invalid files
// and on options that exclude each other.
func Access(o Options) func(apiserver.AccessDeps) (*apiserver.Access, error) {
	return func(d apiserver.AccessDeps) (*apiserver.Access, error) {
		s, err := newAuthBuilder(o, d)
		if err != nil {
			return nil, err
		}
		return s.buildAccess()
	}
}

// authBuilder collects the parts of apiserver.Access while one server is built.
type authBuilder struct {
	options   Options
	deps      apiserver.AccessDeps
	audiences authenticator.Audiences
	issuer    *token.Issuer // nil without a signing key: no service account tokens
	keys      []crypto.PublicKey
	roles     *bootstrappolicy.Policy
	nodeGraph *node.GraphPopulator
	runners   []func(context.Context) // goroutines that run while the server does
}

// newAuthBuilder sets the defaults of o and reads the keys.
func newAuthBuilder(o Options, d apiserver.AccessDeps) (*authBuilder, error) {
	if o.Issuer == "" {
		o.Issuer = DefaultIssuer
	}
	if len(o.Audiences) == 0 {
		o.Audiences = []string{o.Issuer}
	}
	s := &authBuilder{options: o, deps: d, audiences: o.Audiences, nodeGraph: &node.GraphPopulator{Client: d.Client,
		Graph: node.NewGraph(),
		Pods:  apiserver.StorageListerWatcher(func() rest.StandardStorage { return d.Lookup("", "pods") })}}
	var err error
	if s.roles, err = bootstrappolicy.Default(); err != nil {
		return nil, err
	}
	if d.Features.CSIVolumeHealth {
		s.roles.AllowCSINodeStatus()
	}
	if d.Files.ServiceAccountSigning == "" {
		return s, nil
	}
	key, err := token.ReadPrivate(d.Files.ServiceAccountSigning)
	if err != nil {
		return nil, err
	}
	if s.issuer, err = token.NewIssuer(o.Issuer, key); err != nil {
		return nil, err
	}
	s.keys = []crypto.PublicKey{key.Public()}
	for _, path := range o.TokenKeys {
		more, err := token.ReadPublic(path)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, more...)
	}
	return s, nil
}

// buildAccess makes authenticators, authorizers, reviews, admission plugins, discovery documents
// and hooks.
func (s *authBuilder) buildAccess() (*apiserver.Access, error) {
	out := &apiserver.Access{Audiences: s.audiences, Hooks: map[string]genericapiserver.PostStartHookFunc{}}
	if err := s.authenticate(out); err != nil {
		return nil, err
	}
	if err := s.authorize(out); err != nil {
		return nil, err
	}
	// TokenReviews use this authenticator, not the server's complete one, which trusts in-process
	// clients whatever token their review holds.
	reviewDeps := registryauth.Deps{Authenticator: out.Authenticator, Audiences: s.audiences,
		Authorizer: out.Authorizer,
		Resolver:   out.RuleResolver}
	out.Wrap = registryrbac.PolicyBased(s.deps.Lookup, reviewDeps.Authorizer)
	out.Storages = func() (map[schema.GroupVersionResource]rest.Storage, error) {
		all := registryauth.Storages(reviewDeps)
		if s.issuer != nil {
			all[corev1.SchemeGroupVersion.WithResource("serviceaccounts/token")] = serviceaccounts.NewTokenREST(
				serviceaccounts.Deps{
					Lookup: s.deps.Lookup, Issuer: s.issuer, Audiences: s.audiences,
				})
		}
		return all, nil
	}
	for _, p := range admission.Plugins(admission.Options{ProtectStorage: s.options.ProtectStorage,
		VolumeHealth: s.deps.Features.CSIVolumeHealth}) {
		out.Plugins = append(out.Plugins, apiserver.Plugin{Name: p.Name, Factory: p.Factory})
	}
	if s.issuer != nil {
		docs, err := token.NewOpenIDMetadata(s.options.Issuer, s.options.JWKSURI, s.keys)
		if err != nil {
			return nil, err
		}
		out.Paths = []apiserver.Path{
			{Path: token.ConfigPath, Handler: http.HandlerFunc(docs.Config), Doc: &apiserver.PathDoc{
				Operation: "getServiceAccountIssuerOpenIDConfiguration", Produces: "application/json",
				Text: "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
			}},
			{Path: token.JWKSPath, Handler: http.HandlerFunc(docs.Keys), Doc: &apiserver.PathDoc{
				Operation: "getServiceAccountIssuerOpenIDKeyset", Produces: "application/jwk-set+json",
				Text: "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
			}},
		}
	}
	s.addPostStartHooks(out)
	return out, nil
}

// nodeAuthorizerMaxWait is how long the Node authorizer waits for its graph to see a Pod that a
// kubelet has seen already.
const nodeAuthorizerMaxWait = 200 * time.Millisecond

// rbac returns the RBAC authorizer over the informers' listers.
func (s *authBuilder) rbac() rbac.Authorizer {
	r := s.deps.Informers.Rbac().V1()
	return rbac.Authorizer{Rules: rbac.Listers{
		Roles: r.Roles().Lister(), ClusterRoles: r.ClusterRoles().Lister(),
		RoleBindingLister: r.RoleBindings().Lister(), ClusterRoleBindingLister: r.ClusterRoleBindings().Lister(),
	}}
}

// wrapError prefixes err with its purpose; nil stays nil.
func wrapError(purpose string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", purpose, err)
}

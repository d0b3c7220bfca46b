package auth

import (
	"context"
	"errors"
	"time"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	own "github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/auth/oidc"
	"github.com/gantry-project/gantry/internal/apiserver/auth/token"
	"github.com/gantry-project/gantry/internal/apiserver/certreload"
)

// tokenCacheTTL is how long a valid token is accepted without another check: upstream's default.
const tokenCacheTTL = 10 * time.Second

// authenticate sets out.Authenticator: the union, in upstream's order, of front proxy headers,
// client certificates, bearer tokens and anonymous. Files of authorities are reloaded when they
// change.
func (s *authBuilder) authenticate(out *own.Access) error {
	var all []authenticator.Request
	if path := s.deps.Files.RequestHeaderCA; path != "" {
		ca, err := s.caContent("front-proxy", path)
		if err != nil {
			return err
		}
		out.RequestHeader = frontProxies(ca)
		c := out.RequestHeader
		all = append(all, withFrontProxyHeaders(headerrequest.NewDynamicVerifyOptionsSecure(
			ca.VerifyOptions, c.AllowedClientNames, c.UsernameHeaders, c.UIDHeaders, c.GroupHeaders,
			c.ExtraHeaderPrefixes), c.UsernameHeaders.Value()))
	}
	if path := s.deps.Files.ClientCA; path != "" {
		ca, err := s.caContent("client-ca", path)
		if err != nil {
			return err
		}
		all = append(all, newCertificateCache(x509.NewDynamic(ca.VerifyOptions, x509.CommonNameUserConversion),
			ca.VerifyOptions))
	}
	tokens, err := s.tokenAuthenticators()
	if err != nil {
		return err
	}
	others, issuers, err := s.externalTokenAuthenticators()
	if err != nil {
		return err
	}
	for _, t := range append(tokens, others...) {
		all = append(all, bearertoken.New(t), websocket.NewProtocolAuthenticator(t))
	}
	cached := group.NewAuthenticatedGroupAdder(union.New(all...))
	anonymous, err := s.anonymous(issuers)
	if err != nil {
		return err
	}
	out.Authenticator = cached
	if anonymous != nil {
		out.Authenticator = union.NewFailOnError(cached, anonymous)
	}
	return nil
}

// externalTokenAuthenticators returns the authenticators of bootstrap tokens, OIDC and the token
// webhook, and the OIDC authenticator by itself; nil if there are no issuers.
func (s *authBuilder) externalTokenAuthenticators() (out []authenticator.Token, issuers *oidc.Authenticator,
	err error) {
	if s.options.BootstrapTokens {
		out = append(out, authenticator.WrapAudienceAgnosticToken(s.audiences,
			token.NewBootstrapAuthenticator(tokenGetter{s.deps.Lookup}, nil)))
	}
	o := s.options.OIDC
	o.Disallowed = []string{s.options.Issuer}
	if issuers, err = oidc.New(o); err != nil {
		return nil, nil, err
	}
	if issuers != nil {
		s.runners = append(s.runners, issuers.Run)
		out = append(out, authenticator.WrapAudienceAgnosticToken(s.audiences, issuers))
	}
	if s.options.TokenWebhook.File != "" {
		ask, err := s.options.TokenWebhook.Authenticator(s.audiences)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, ask)
	}
	return out, issuers, nil
}

// anonymous returns the authenticator of requests without credentials, by the authentication
// configuration, the flag or the default (health paths only); nil if it is disabled.
func (s *authBuilder) anonymous(issuers *oidc.Authenticator) (authenticator.Request, error) {
	var paths []apiserver.AnonymousAuthCondition
	if issuers != nil && issuers.Anonymous() != nil {
		c := issuers.Anonymous()
		switch {
		case s.options.Anonymous:
			return nil, errors.New("--anonymous-auth and the anonymous field of the authentication configuration " +
				"exclude each other: keep the field")
		case !c.Enabled:
			return nil, nil
		}
		return anonymous.NewAuthenticator(c.Conditions), nil
	}
	if !s.options.Anonymous {
		for _, p := range healthPaths() {
			paths = append(paths, apiserver.AnonymousAuthCondition{Path: p})
		}
	}
	return anonymous.NewAuthenticator(paths), nil
}

// healthPaths returns the paths that need no authentication.
func healthPaths() []string { return []string{"/healthz", "/livez", "/readyz"} }

// caContent returns a file of certificate authorities that is reloaded while the server runs.
func (s *authBuilder) caContent(purpose, path string) (*certreload.CAContent, error) {
	ca, err := certreload.NewCAContent(purpose, path)
	if err != nil {
		return nil, wrapError("certificate authority", err)
	}
	s.runners = append(s.runners, func(ctx context.Context) { ca.Run(ctx, 1) })
	return ca, nil
}

// frontProxies returns the headers and the client name by which a front proxy passes on a user; the
// only front proxy is this server's aggregator.
func frontProxies(ca dynamiccertificates.CAContentProvider) *authenticatorfactory.RequestHeaderConfig {
	return &authenticatorfactory.RequestHeaderConfig{
		UsernameHeaders:     headerrequest.StaticStringSlice{"X-Remote-User"},
		UIDHeaders:          headerrequest.StaticStringSlice{"X-Remote-Uid"},
		GroupHeaders:        headerrequest.StaticStringSlice{"X-Remote-Group"},
		ExtraHeaderPrefixes: headerrequest.StaticStringSlice{"X-Remote-Extra-"},
		CAContentProvider:   ca,
		AllowedClientNames:  headerrequest.StaticStringSlice{"front-proxy-client"},
	}
}

// tokenAuthenticators returns the authenticators of static tokens (first; without a file it knows
// none) and of service account tokens, in Secrets and requested.
func (s *authBuilder) tokenAuthenticators() ([]authenticator.Token, error) {
	static := tokenfile.New(map[string]*user.DefaultInfo{})
	if path := s.options.TokenFile; path != "" {
		var err error
		if static, err = tokenfile.NewCSV(path); err != nil {
			return nil, wrapError("file of static tokens", err)
		}
	}
	out := []authenticator.Token{authenticator.WrapAudienceAgnosticToken(s.audiences, static)}
	if s.issuer == nil {
		return out, nil
	}
	o := token.ValidatorOptions{Issuers: []string{s.options.Issuer}, Audiences: s.audiences, Keys: s.keys,
		Objects: tokenGetter{s.deps.Lookup}}
	inSecrets, err := token.NewLegacyValidator(o, s.deps.Client.CoreV1())
	if err != nil {
		return nil, err
	}
	v, err := token.NewValidator(o)
	if err != nil {
		return nil, err
	}
	return append(out, cache.New(inSecrets, false, tokenCacheTTL, 0), cache.New(v, false, tokenCacheTTL, 0)), nil
}

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
	"github.com/gantry-project/gantry/internal/apiserver/keyfile"
)

// tokenMemory is how long a token that was found good is taken without looking again. Upstream's figure.
const tokenMemory = 10 * time.Second

// authenticate joins the ways to prove who one is. Files are read again when they change.
func (s *stack) authenticate(out *own.Access) error {
	var all []authenticator.Request
	if path := s.deps.Files.RequestHeaderCA; path != "" {
		ca, err := s.authority("front-proxy", path)
		if err != nil {
			return err
		}
		out.RequestHeader = frontProxies(ca)
		c := out.RequestHeader
		all = append(all, named(headerrequest.NewDynamicVerifyOptionsSecure(
			ca.VerifyOptions, c.AllowedClientNames, c.UsernameHeaders, c.UIDHeaders, c.GroupHeaders, c.ExtraHeaderPrefixes), c.UsernameHeaders.Value()))
	}
	if path := s.deps.Files.ClientCA; path != "" {
		ca, err := s.authority("client-ca", path)
		if err != nil {
			return err
		}
		all = append(all, remember(x509.NewDynamic(ca.VerifyOptions, x509.CommonNameUserConversion), ca.VerifyOptions))
	}
	tokens, err := s.tokens()
	if err != nil {
		return err
	}
	others, issuers, err := s.others()
	if err != nil {
		return err
	}
	for _, t := range append(tokens, others...) {
		all = append(all, bearertoken.New(t), websocket.NewProtocolAuthenticator(t))
	}
	known := group.NewAuthenticatedGroupAdder(union.New(all...))
	nobody, err := s.anonymous(issuers)
	if err != nil {
		return err
	}
	out.Authenticator = known
	if nobody != nil {
		out.Authenticator = union.NewFailOnError(known, nobody)
	}
	return nil
}

// others are the authenticators of tokens that something else vouches for: Secrets, issuers outside, a webhook. The issuers may be nil.
func (s *stack) others() (out []authenticator.Token, issuers *oidc.Authenticator, err error) {
	if s.options.BootstrapTokens {
		out = append(out, authenticator.WrapAudienceAgnosticToken(s.audiences, token.NewBootstrap(objects{s.deps.Lookup}, nil)))
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
	if s.options.Tokens.File != "" {
		ask, err := s.options.Tokens.Authenticator(s.audiences)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, ask)
	}
	return out, issuers, nil
}

// anonymous lets requests without credentials through, as the file of issuers, the flag or the default has it; nil for none of them.
func (s *stack) anonymous(issuers *oidc.Authenticator) (authenticator.Request, error) {
	var paths []apiserver.AnonymousAuthCondition
	if issuers != nil && issuers.Anonymous() != nil {
		c := issuers.Anonymous()
		switch {
		case s.options.Anonymous:
			return nil, errors.New("--anonymous-auth and the anonymous field of the authentication configuration exclude each other: keep the field")
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

func healthPaths() []string { return []string{"/healthz", "/livez", "/readyz"} }

// authority follows a file of certificate authorities.
func (s *stack) authority(purpose, path string) (*keyfile.Authority, error) {
	ca, err := keyfile.OpenAuthority(purpose, path)
	if err != nil {
		return nil, wrap("certificate authority", err)
	}
	s.runners = append(s.runners, func(ctx context.Context) { ca.Run(ctx, 1) })
	return ca, nil
}

// frontProxies are who may speak for others by headers: aggregated servers' callers, that is this server itself.
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

// tokens are the authenticators of bearer tokens. The static one comes first and knows nobody without a file.
func (s *stack) tokens() ([]authenticator.Token, error) {
	static := tokenfile.New(map[string]*user.DefaultInfo{})
	if path := s.options.TokenFile; path != "" {
		var err error
		if static, err = tokenfile.NewCSV(path); err != nil {
			return nil, wrap("file of static tokens", err)
		}
	}
	out := []authenticator.Token{authenticator.WrapAudienceAgnosticToken(s.audiences, static)}
	if s.issuer == nil {
		return out, nil
	}
	v, err := token.NewValidator(token.Trust{
		Issuers: []string{s.options.Issuer}, Audiences: s.audiences, Keys: s.keys, Objects: objects{s.deps.Lookup},
	})
	if err != nil {
		return nil, err
	}
	return append(out, cache.New(v, false, tokenMemory, 0)), nil
}

package oidc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	"k8s.io/klog/v2"
)

// period is how often the file is looked at, and grace how long requests that began under the
// former one may take. Upstream's figures.
const (
	reloadPeriod = time.Minute
	drainPeriod  = time.Minute
)

// Authenticator takes tokens of the issuers configured now.
type Authenticator struct {
	options Options
	current atomic.Pointer[configuration]
}

// configuration is what one version of the configuration means.
type configuration struct {
	text      string // of the file
	tokens    []oidc.AuthenticatorTokenWithHealthCheck
	anonymous *apiserver.AnonymousAuthConfig
	cancel    context.CancelFunc
}

// New makes an authenticator, nil when the options trust nobody. Errors name the field of the file
// or the flag.
func New(o Options) (*Authenticator, error) {
	a := &Authenticator{options: o}
	c, text, err := a.load()
	if err != nil || c == nil {
		return nil, err
	}
	s, err := a.build(c, text)
	if err != nil {
		return nil, err
	}
	a.current.Store(s)
	return a, nil
}

func (a *Authenticator) load() (*apiserver.AuthenticationConfiguration, string, error) {
	flags, err := configurationFromFlags(a.options.Flags)
	if err != nil {
		return nil, "", err
	}
	if a.options.File == "" {
		return flags, "", err
	}
	if flags != nil {
		return nil, "",
			errors.New("--authentication-config and --oidc-* flags exclude each other: move the issuer into the file")
	}
	return readFile(a.options.File)
}

func (a *Authenticator) build(c *apiserver.AuthenticationConfiguration, text string) (*configuration, error) {
	path := "authentication configuration " + a.options.File
	if a.options.File == "" {
		path = "--oidc-* flags"
	}
	if err := validate(c, a.options.Disallowed); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	algs := oidc.AllValidSigningAlgorithms()
	if a.options.File == "" {
		algs = a.options.Flags.SigningAlgs
	}
	ctx, end := context.WithCancel(context.Background())
	s := &configuration{text: text, anonymous: c.Anonymous, cancel: end}
	for _, j := range c.JWT {
		o := oidc.Options{JWTAuthenticator: j, DisallowedIssuers: a.options.Disallowed, SupportedSigningAlgs: algs}
		if pem := j.Issuer.CertificateAuthority; pem != "" {
			ca, err := dynamiccertificates.NewStaticCAContent("oidc-authenticator", []byte(pem))
			if err != nil {
				end()
				return nil, fmt.Errorf("%s: issuer %s: certificateAuthority: %w", path, j.Issuer.URL, err)
			}
			o.CAContentProvider = ca
		}
		t, err := oidc.New(ctx, o)
		if err != nil {
			end()
			return nil, fmt.Errorf("%s: issuer %s: %w", path, j.Issuer.URL, err)
		}
		s.tokens = append(s.tokens, t)
	}
	return s, nil
}

// AuthenticateToken implements authenticator.Token.
func (a *Authenticator) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	var errs []error
	for _, t := range a.current.Load().tokens {
		res, ok, err := t.AuthenticateToken(ctx, token)
		if ok && err == nil {
			return res, true, nil
		}
		errs = append(errs, err)
	}
	return nil, false, errors.Join(errs...)
}

// Anonymous is what the file says of requests without credentials; nil when it says nothing.
func (a *Authenticator) Anonymous() *apiserver.AnonymousAuthConfig { return a.current.Load().anonymous }

// Run reads the file again when it changes, until the context ends. A file that is wrong changes
// nothing and is logged.
func (a *Authenticator) Run(ctx context.Context) {
	defer func() { a.current.Load().cancel() }()
	if a.options.File == "" {
		<-ctx.Done()
		return
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := a.reload(); err != nil {
			klog.FromContext(ctx).Error(err,
				"The authentication configuration changed and cannot be used; the former one stays in force")
		}
	}, reloadPeriod)
}

func (a *Authenticator) reload() error {
	c, text, err := a.load()
	if err != nil || c == nil || text == a.current.Load().text {
		return err
	}
	s, err := a.build(c, text)
	if err != nil {
		return err
	}
	old := a.current.Swap(s)
	time.AfterFunc(drainPeriod, old.cancel)
	return nil
}

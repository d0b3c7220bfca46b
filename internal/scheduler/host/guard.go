package host

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"
)

// Upstream's times and back-off for questions to the API server.
const (
	reviewTTL     = 10 * time.Second
	reviewTimeout = 10 * time.Second
)

// open are the paths anybody may ask for.
var open = map[string]bool{"/healthz": true, "/livez": true, "/readyz": true}

// guard asks the API server who a request is from and what it may do.
type guard struct {
	who authenticator.Request
	may interface {
		Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error)
	}
}

func (s *server) guard(ctx context.Context) (*guard, error) {
	backoff := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
	ca, err := s.clientCA(ctx)
	if err != nil {
		return nil, err
	}
	who := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous: &apiserver.AnonymousAuthConfig{Enabled: true}, TokenAccessReviewClient: s.client.AuthenticationV1(), TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff: backoff, CacheTTL: reviewTTL,
	}
	if ca != nil {
		who.ClientCertificateCAContentProvider = ca
	}
	g := &guard{}
	if g.who, _, err = who.New(); err != nil {
		return nil, fmt.Errorf("scheduler: authentication: %w", err)
	}
	may := authorizerfactory.DelegatingAuthorizerConfig{SubjectAccessReviewClient: s.client.AuthorizationV1(), AllowCacheTTL: reviewTTL, DenyCacheTTL: reviewTTL, WebhookRetryBackoff: backoff}
	if g.may, err = may.New(); err != nil {
		return nil, fmt.Errorf("scheduler: authorization: %w", err)
	}
	return g, nil
}

// clientCA is whom to trust client certificates from; nil when nobody says.
func (s *server) clientCA(ctx context.Context) (dynamiccertificates.CAContentProvider, error) {
	if s.ClientCA != nil {
		return dynamiccertificates.NewStaticCAContent("client-ca", s.ClientCA)
	}
	c, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", metav1.NamespaceSystem, "extension-apiserver-authentication", "client-ca-file", s.client)
	if err != nil {
		return nil, fmt.Errorf("scheduler: client certificates: %w", err)
	}
	if err := c.RunOnce(ctx); err != nil {
		klog.FromContext(ctx).Info("Client certificates are not accepted: the API server does not publish its certificate authority", "configMap", "kube-system/extension-apiserver-authentication", "err", err)
		return nil, nil
	}
	go c.Run(ctx, 1)
	return c, nil
}

func (g *guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open[r.URL.Path] {
			next.ServeHTTP(w, r)
			return
		}
		who, ok, err := g.who.AuthenticateRequest(r)
		if err != nil || !ok {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		a := authorizer.AttributesRecord{User: who.User, Verb: verb(r.Method), Path: r.URL.Path}
		decision, why, err := g.may.Authorize(r.Context(), a)
		switch {
		case err != nil:
			http.Error(w, fmt.Sprintf("Internal Server Error: %q: %v", r.URL.Path, err), http.StatusInternalServerError)
		case decision != authorizer.DecisionAllow:
			http.Error(w, forbidden(who.User, a, why), http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func verb(method string) string {
	return map[string]string{http.MethodGet: "get", http.MethodHead: "head", http.MethodPost: "post", http.MethodPut: "put", http.MethodDelete: "delete"}[method]
}

// forbidden is the API server's text for paths that are no resources.
func forbidden(who user.Info, a authorizer.AttributesRecord, why string) string {
	s := fmt.Sprintf("forbidden: User %q cannot %s path %q", who.GetName(), a.Verb, a.Path)
	if why != "" {
		s += ": " + why
	}
	return s
}

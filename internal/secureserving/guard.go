package secureserving

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
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	serving "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
)

// Upstream's cache times and backoff for reviews by the API server.
const (
	reviewTTL     = 10 * time.Second
	reviewTimeout = 10 * time.Second
)

// guard authenticates and authorizes requests through the API server.
type guard struct {
	who authenticator.Request
	may authorizer.UnconditionalAuthorizer
}

func (o Options) guard(ctx context.Context) (*guard, error) {
	backoff := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
	ca, err := o.clientCA(ctx)
	if err != nil {
		return nil, err
	}
	who := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous: &apiserver.AnonymousAuthConfig{Enabled: true}, TokenAccessReviewClient: o.Client.AuthenticationV1(),
		TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff:      backoff, CacheTTL: reviewTTL,
	}
	if ca != nil {
		who.ClientCertificateCAContentProvider = ca
	}
	g := &guard{}
	if g.who, _, err = who.New(); err != nil {
		return nil, fmt.Errorf("%s: authentication: %w", o.Name, err)
	}
	may := authorizerfactory.DelegatingAuthorizerConfig{SubjectAccessReviewClient: o.Client.AuthorizationV1(),
		AllowCacheTTL: reviewTTL, DenyCacheTTL: reviewTTL, WebhookRetryBackoff: backoff}
	asked, err := may.New()
	if err != nil {
		return nil, fmt.Errorf("%s: authorization: %w", o.Name, err)
	}
	free, err := path.NewAuthorizer(o.Open)
	if err != nil {
		return nil, fmt.Errorf("%s: open paths: %w", o.Name, err)
	}
	g.may = first{free, asked}
	return g, nil
}

// clientCA returns the CA for client certificates; nil if there is none.
func (o Options) clientCA(ctx context.Context) (dynamiccertificates.CAContentProvider, error) {
	if o.ClientCA != nil {
		return dynamiccertificates.NewStaticCAContent("client-ca", o.ClientCA)
	}
	c, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", metav1.NamespaceSystem,
		"extension-apiserver-authentication", "client-ca-file", o.Client)
	if err != nil {
		return nil, fmt.Errorf("%s: client certificates: %w", o.Name, err)
	}
	if err := c.RunOnce(ctx); err != nil {
		klog.FromContext(ctx).Info("Client certificates are not accepted: the API server does not publish its "+
			"certificate authority", "configMap", "kube-system/extension-apiserver-authentication", "err", err)
		return nil, nil
	}
	go c.Run(ctx, 1)
	return c, nil
}

// wrap passes authorized requests to next and answers others as API servers do. Requests with
// invalid credentials are refused on open paths too.
func (g *guard) wrap(next http.Handler) http.Handler {
	resolver := &request.RequestInfoFactory{}
	h := filters.WithAuthorization(next, g.may, scheme.Codecs)
	h = filters.WithAuthentication(h, g.who, filters.Unauthorized(scheme.Codecs), nil, nil)
	h = filters.WithRequestInfo(h, resolver)
	return serving.WithPanicRecovery(filters.WithCacheControl(h), resolver)
}

// first allows a request if any of its authorizers does; otherwise the last one's reason is
// returned.
type first []authorizer.Authorizer

// Authorize asks the authorizers in order.
func (f first) Authorize(ctx context.Context,
	a authorizer.Attributes) (decision authorizer.Decision, why string, err error) {
	for _, one := range f {
		if decision, why, err = one.Authorize(ctx, a); decision == authorizer.DecisionAllow {
			break
		}
	}
	return decision, why, err
}

package app

import (
	"context"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/auth/token"
	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/control"
	certificates "github.com/gantry-project/gantry/internal/control/certificatesigning"
	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/control/tainteviction"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pki"
)

// ControllersOptions say how the controllers reach the API server.
type ControllersOptions struct {
	Config    *rest.Config // reads everything
	ConfigFor func(account string) *rest.Config
	CAFile    string   // published to every namespace; empty means the configuration's own
	Signer    pki.Pair // authority that signs certificate requests; empty signs none
	Ranges    controllerruntime.NodeRanges
	Journal   journal.Sink
	Without   []string // controllers that do not run
	// HorizontalPodAutoscaling configures that controller; nil: as upstream's.
	HorizontalPodAutoscaling *controllerruntime.HorizontalPodAutoscaling
	// NodeMonitorGracePeriod is how long a node may not report; 0: as upstream's.
	NodeMonitorGracePeriod time.Duration
	// TokenKeyFile is the key that signs the tokens in Secrets; "": none are made.
	TokenKeyFile string
	// TokenCleanUpPeriod, PodGroups and Volumes are as in controllerruntime.ControllerContext.
	TokenCleanUpPeriod time.Duration
	PodGroups          bool
	Volumes            controllerruntime.Volumes

	pods cache.ListerWatcher // of a server in this process; nil means by the configuration
}

// RunControllers runs every controller until ctx ends.
func RunControllers(ctx context.Context, o ControllersOptions) error {
	client, err := noderole.ClientFor(o.Config, "controllers")
	if err != nil {
		return err
	}
	ca := o.Config.CAData
	if file := o.CAFile; file != "" || len(ca) == 0 && o.Config.CAFile != "" {
		if file == "" {
			file = o.Config.CAFile
		}
		if ca, err = readCA(file); err != nil {
			return err
		}
	}
	issue, err := o.tokenIssuer()
	if err != nil {
		return err
	}
	options := []informers.SharedInformerOption{informers.WithTransform(stripManagedFields)}
	// else others of this process are measured by it
	if name, err := cache.NewInformerName("kube-controller-manager"); err == nil {
		defer name.Release()
		options = append(options, informers.WithInformerName(name))
	}
	shared := informers.NewSharedInformerFactoryWithOptions(client, 0, options...)
	shared.InformerFor(&corev1.Pod{}, o.podInformer)
	runs := []func(context.Context) error{
		func(ctx context.Context) error {
			return o.controllersConfig(ctx, controllerruntime.ControllerContext{Client: client, Informers: shared,
				RootCA: ca, ServiceAccountToken: issue})
		}}
	if o.Signer.Key != "" {
		requests := shared.Certificates().V1().CertificateSigningRequests()
		requests.Informer() // known before the factory starts
		signing, err := kubernetes.NewForConfig(unthrottled(o.ConfigFor("certificate-controller"),
			"certificate-controller"))
		if err != nil {
			return err
		}
		runs = append(runs, func(ctx context.Context) error {
			return certificates.Run(ctx, certificates.Options{Client: signing, Informer: requests, Cert: o.Signer.Cert,
				Key: o.Signer.Key})
		})
	}
	return noderole.RunAll(ctx, runs...)
}

// podInformer is the Pods that the controllers share.
func (o ControllersOptions) podInformer(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	if o.pods == nil {
		return controllerruntime.ShareHandlers(coreinformers.NewPodInformer(client, metav1.NamespaceAll, resync,
			indexers))
	}
	return controllerruntime.ShareHandlers(cache.NewSharedIndexInformer(o.pods, &corev1.Pod{}, resync, indexers))
}

// stripManagedFields leaves out who manages which field: no controller asks but taintevict of nodes
// whose taints do not tell their time, and a write without it changes nothing about it.
func stripManagedFields(obj any) (any, error) {
	if n, ok := obj.(*corev1.Node); ok && tainteviction.HasUndatedTaint(n) {
		return obj, nil
	}
	if m, err := meta.Accessor(obj); err == nil && m.GetManagedFields() != nil {
		m.SetManagedFields(nil)
	}
	return obj, nil
}

// tokenIssuer returns what signs the tokens in Secrets; nil without a key.
func (o ControllersOptions) tokenIssuer() (func(*corev1.ServiceAccount, *corev1.Secret) (string, error), error) {
	if o.TokenKeyFile == "" {
		return nil, nil
	}
	key, err := token.ReadPrivate(o.TokenKeyFile)
	if err != nil {
		return nil, err
	}
	issuer, err := token.NewLegacyIssuer(key)
	if err != nil {
		return nil, err
	}
	return issuer.IssueLegacy, nil
}

// controllersConfig runs the controllers of control with d, to which it adds what o says.
func (o ControllersOptions) controllersConfig(ctx context.Context, d controllerruntime.ControllerContext) error {
	d.Journal, d.NodeRanges, d.HorizontalPodAutoscaling = o.Journal, o.Ranges, o.HorizontalPodAutoscaling
	d.LegacyTokenCleanUpPeriod, d.PodGroups = o.TokenCleanUpPeriod, o.PodGroups
	d.NodeMonitorGracePeriod, d.Volumes = o.NodeMonitorGracePeriod, o.Volumes
	return control.Run(ctx, control.Options{
		Without: o.Without, Deps: d,
		As: func(account string) (kubernetes.Interface, metadata.Interface, error) {
			cfg := unthrottled(o.ConfigFor(account), account)
			c, err := kubernetes.NewForConfig(cfg)
			if err != nil {
				return nil, nil, err
			}
			m, err := metadata.NewForConfig(cfg)
			return c, m, err
		},
	})
}

// inProcessConfig gives each controller its own identity inside this process.
func inProcessConfig(server *apiserver.Server) func(account string) *rest.Config {
	return func(account string) *rest.Config {
		return server.InProcess(&user.DefaultInfo{
			Name:   serviceaccount.MakeUsername(metav1.NamespaceSystem, account),
			Groups: append(serviceaccount.MakeGroupNames(metav1.NamespaceSystem), user.AllAuthenticated),
		})
	}
}

// TokenConfig gives each controller its own identity by a token of its service account, which is
// made when it is missing.
func TokenConfig(cfg *rest.Config) func(account string) *rest.Config {
	return func(account string) *rest.Config {
		own := rest.AnonymousClientConfig(cfg)
		t := &accountToken{config: cfg, account: account}
		own.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return &tokenTransport{next, t} }
		return own
	}
}

// accountToken keeps a token of a service account in kube-system fresh.
type accountToken struct {
	config  *rest.Config
	account string

	mu     sync.Mutex
	token  string
	expiry time.Time
}

// tokenLife is what is asked for; a token is replaced at half of its life.
const tokenLife = time.Hour

func (a *accountToken) current(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token != "" && time.Until(a.expiry) > tokenLife/2 {
		return a.token, nil
	}
	client, err := kubernetes.NewForConfig(a.config)
	if err != nil {
		return "", err
	}
	accounts := client.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	seconds := int64(tokenLife / time.Second)
	ask := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	got, err := accounts.CreateToken(ctx, a.account, ask, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: a.account}},
			metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			got, err = accounts.CreateToken(ctx, a.account, ask, metav1.CreateOptions{})
		}
	}
	if err != nil {
		return "", err
	}
	a.token, a.expiry = got.Status.Token, got.Status.ExpirationTimestamp.Time
	return a.token, nil
}

type tokenTransport struct {
	next  http.RoundTripper
	token *accountToken
}

// RoundTrip sends a copy of the request with the account's current token, which it asks for when
// less than half of its life is left. Without a token nothing is sent. Safe for concurrent use.
func (t *tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := t.token.current(req.Context())
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return t.next.RoundTrip(req)
}

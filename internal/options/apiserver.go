package options

import (
	"math"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/options"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/auth"
	"github.com/gantry-project/gantry/internal/apiserver/encryptioncheck"
)

// APIServer says who may come in beside holders of certificates, what is recorded of them,
// and how what they bring is kept. Names of flags are upstream's.
type APIServer struct {
	Auth                auth.Options
	Audit               *options.AuditOptions
	Encryption          encryptioncheck.Options
	PriorityAndFairness bool // priority and fairness
	maxReadsInFlight    uint // at once, as writes; 0 is no bound
	maxWritesInFlight   uint
	Gates               FeatureGates
	KubeletCA           string // file of further authorities of kubelets' serving certificates
}

// InFlight is the bounds as the server's configuration has them, where 0 stands for the default.
func (e *APIServer) InFlight() apiserver.MaxInFlight {
	bound := func(n uint) int {
		if n == 0 {
			return -1
		}
		return int(min(n, math.MaxInt32))
	}
	return apiserver.MaxInFlight{NonMutating: bound(e.maxReadsInFlight), Mutating: bound(e.maxWritesInFlight)}
}

func (e *APIServer) flags(f *pflag.FlagSet) {
	a := &e.Auth
	a.ProtectStorage = true
	f.StringVar(&a.TokenFile, "token-auth-file", "", "file of static tokens: token,user,uid,\"group,…\" per line")
	f.BoolVar(&a.Anonymous, "anonymous-auth", false,
		"let requests without credentials through to authorization; default: only health checks")
	f.BoolVar(&a.BootstrapTokens, "enable-bootstrap-token-auth", true,
		"let new nodes in by Secrets of type bootstrap.kubernetes.io/token in kube-system")
	e.issuerFlags(f)
	f.StringVar(&a.TokenWebhook.File, "authentication-token-webhook-config-file", "",
		"kubeconfig of a server that is asked about tokens nobody here knows")
	f.StringVar(&a.TokenWebhook.Version, "authentication-token-webhook-version", "v1beta1",
		"version of the TokenReviews it gets: v1 or v1beta1")
	f.DurationVar(&a.TokenWebhook.TTL, "authentication-token-webhook-cache-ttl", 2*time.Minute,
		"how long its answers are remembered")
	c := &a.Authorization
	f.StringVar(&c.File, "authorization-config", "",
		"AuthorizationConfiguration file: who decides what one may do; read again when it changes")
	f.StringSliceVar(&c.Modes, "authorization-mode", nil,
		"who decides, in order: Node, RBAC, Webhook, AlwaysAllow, AlwaysDeny (default: Node,RBAC)")
	f.StringVar(&c.WebhookFile, "authorization-webhook-config-file", "",
		"kubeconfig of the server that the mode Webhook asks")
	f.StringVar(&c.Version, "authorization-webhook-version", "v1beta1",
		"version of the SubjectAccessReviews it gets: v1 or v1beta1")
	f.DurationVar(&c.Allowed, "authorization-webhook-cache-authorized-ttl", 5*time.Minute,
		"how long its permissions are remembered")
	f.DurationVar(&c.Denied, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second,
		"how long its refusals are remembered")
	f.StringVar(&e.Encryption.File, "encryption-provider-config", "",
		"EncryptionConfiguration file: how values are encrypted in the store")
	f.BoolVar(&e.Encryption.Reload, "encryption-provider-config-automatic-reload", true,
		"take that file's changes while running")
	f.BoolVar(&e.PriorityAndFairness, "enable-priority-and-fairness", false,
		"divide the server among its users by FlowSchemas and PriorityLevelConfigurations; costs each request some "+
			"50 µs")
	f.UintVar(&e.maxReadsInFlight, "max-requests-inflight", 400,
		"reads that are worked on at once; 0 is no bound; with priority and fairness the sum with the next is "+
			"divided among the levels")
	f.StringVar(&e.KubeletCA, "kubelet-certificate-authority", "",
		"PEM file of authorities of kubelets' serving certificates, beside the cluster's own")
	f.UintVar(&e.maxWritesInFlight, "max-mutating-requests-inflight", 200,
		"writes that are worked on at once; 0 is no bound")
	e.auditFlags(f)
	e.Gates.flags(f)
}

// issuerFlags name issuers of tokens outside.
func (e *APIServer) issuerFlags(f *pflag.FlagSet) {
	o := &e.Auth.OIDC
	f.StringVar(&o.File, "authentication-config", "",
		"AuthenticationConfiguration file: issuers of tokens outside; read again when it changes")
	i := &o.Flags
	f.StringVar(&i.IssuerURL, "oidc-issuer-url", "", "URL of an OpenID issuer, https only")
	f.StringVar(&i.ClientID, "oidc-client-id", "", "audience its tokens must have")
	f.StringVar(&i.CAFile, "oidc-ca-file", "", "certificate authority of the issuer (default: the host's)")
	f.StringVar(&i.UsernameClaim, "oidc-username-claim", "sub", "claim that is the user's name")
	f.StringVar(&i.UsernamePrefix, "oidc-username-prefix", "",
		"put before it; - for nothing (default: the issuer's URL and #, unless the claim is email)")
	f.StringVar(&i.GroupsClaim, "oidc-groups-claim", "", "claim that lists the user's groups")
	f.StringVar(&i.GroupsPrefix, "oidc-groups-prefix", "", "put before each")
	f.StringSliceVar(&i.SigningAlgs, "oidc-signing-algs", []string{"RS256"}, "algorithms its tokens may be signed with")
	f.StringToStringVar(&i.RequiredClaims, "oidc-required-claim", nil, "claim=value a token must have; may be repeated")
}

// auditFlags are the library's; the fine tuning works but is not in the help.
func (e *APIServer) auditFlags(f *pflag.FlagSet) {
	e.Audit = options.NewAuditOptions()
	own := pflag.NewFlagSet("audit", pflag.ContinueOnError)
	e.Audit.AddFlags(own)
	own.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = strings.Contains(flag.Name, "-batch-") || strings.Contains(flag.Name, "-truncate-")
	})
	f.AddFlagSet(own)
}

package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	authorizationmetrics "k8s.io/apiserver/pkg/authorization/metrics"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/util/webhook"
	authzwebhook "k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
	"k8s.io/klog/v2"
)

// reloadPeriod is how often the file is looked at. Upstream's figure.
const reloadPeriod = time.Minute

// AuthorizationOptions says who decides, in order. The zero value asks the node index and RBAC.
type AuthorizationOptions struct {
	File  string   // AuthorizationConfiguration; instead of the rest
	Modes []string // Node, RBAC, Webhook, AlwaysAllow, AlwaysDeny
	// WebhookFile is the kubeconfig of the mode Webhook, Version that of its SubjectAccessReviews:
	// v1 or v1beta1, upstream's default.
	WebhookFile, Version string
	// Allowed and Denied say how long answers are remembered: 5 minutes and 30 s when 0.
	Allowed, Denied time.Duration
}

// BuiltInAuthorizers are the authorizers of this process by type.
type BuiltInAuthorizers map[apiserver.AuthorizerType]interface {
	authorizer.Authorizer
	authorizer.RuleResolver
}

// Authorizer is a chain as configured now.
type Authorizer struct {
	options AuthorizationOptions
	builtIn BuiltInAuthorizers
	current atomic.Pointer[currentChain]
}

type currentChain struct {
	text string
	authorizer.Authorizer
	authorizer.RuleResolver
}

// NewAuthorizer builds the chain. Errors name the flag or the field of the file.
func NewAuthorizer(c AuthorizationOptions, builtIn BuiltInAuthorizers) (*Authorizer, error) {
	a := &Authorizer{options: c, builtIn: builtIn}
	l, err := a.build()
	if err != nil {
		return nil, err
	}
	a.current.Store(l)
	return a, nil
}

// configuration reads the file or makes of flags what the file would say.
func (a *Authorizer) configuration() (*apiserver.AuthorizationConfiguration, string, error) {
	c := a.options
	if c.File == "" {
		out, err := c.configurationFromFlags()
		return out, "", err
	}
	if len(c.Modes) > 0 || c.WebhookFile != "" {
		return nil, "",
			errors.New("--authorization-config and --authorization-mode or --authorization-webhook-* flags exclude " +
				"each other: keep the file")
	}
	raw, err := os.ReadFile(c.File)
	if err != nil {
		return nil, "", fmt.Errorf("authorization configuration: %w", err)
	}
	if len(raw) == 0 {
		return nil, "",
			fmt.Errorf("authorization configuration %s is empty: write an AuthorizationConfiguration of "+
				"apiserver.config.k8s.io/v1", c.File)
	}
	out, err := load.LoadFromData(raw)
	if err != nil {
		return nil, "", fmt.Errorf("authorization configuration %s: %w", c.File, err)
	}
	return out, string(raw), nil
}

func (c AuthorizationOptions) configurationFromFlags() (*apiserver.AuthorizationConfiguration, error) {
	modes := c.Modes
	if len(modes) == 0 {
		modes = []string{"Node", "RBAC"}
	}
	out := &apiserver.AuthorizationConfiguration{}
	hook := false
	for _, m := range modes {
		one := apiserver.AuthorizerConfiguration{Type: apiserver.AuthorizerType(m), Name: strings.ToLower(m)}
		if m == string(apiserver.TypeWebhook) {
			if c.WebhookFile == "" {
				return nil, errors.New("--authorization-mode Webhook wants --authorization-webhook-config-file: name " +
					"the kubeconfig of the server to ask")
			}
			hook, one.Name, one.Webhook = true, "default", c.webhookConfiguration()
		}
		out.Authorizers = append(out.Authorizers, one)
	}
	if c.WebhookFile != "" && !hook {
		return nil, errors.New(
			"--authorization-webhook-config-file asks nobody without Webhook in --authorization-mode: add it, as in " +
				"Node,RBAC,Webhook")
	}
	return out, nil
}

func (c AuthorizationOptions) webhookConfiguration() *apiserver.WebhookConfiguration {
	w := &apiserver.WebhookConfiguration{
		AuthorizedTTL: metav1.Duration{Duration: c.Allowed}, UnauthorizedTTL: metav1.Duration{Duration: c.Denied},
		CacheAuthorizedRequests: true, CacheUnauthorizedRequests: true,
		Timeout: metav1.Duration{Duration: 30 * time.Second}, FailurePolicy: apiserver.FailurePolicyNoOpinion,
		SubjectAccessReviewVersion: c.Version, MatchConditionSubjectAccessReviewVersion: "v1",
		ConnectionInfo: apiserver.WebhookConnectionInfo{
			Type: apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile, KubeConfigFile: &c.WebhookFile},
	}
	if c.Version == "" {
		w.SubjectAccessReviewVersion = "v1beta1"
	}
	if c.Allowed == 0 {
		w.AuthorizedTTL.Duration = 5 * time.Minute
	}
	if c.Denied == 0 {
		w.UnauthorizedTTL.Duration = 30 * time.Second
	}
	return w
}

func (a *Authorizer) build() (*currentChain, error) {
	c, text, err := a.configuration()
	if err != nil {
		return nil, err
	}
	what := "authorization configuration " + a.options.File
	if a.options.File == "" {
		what = "--authorization-* flags"
	}
	builtIns := sets.New(string(apiserver.TypeWebhook))
	for t := range maps.Keys(a.builtIn) {
		builtIns.Insert(string(t))
	}
	compiler := authorizationcel.NewDefaultCompiler()
	if err := validation.ValidateAuthorizationConfiguration(compiler, nil, c, builtIns,
		sets.New(string(apiserver.TypeWebhook))).ToAggregate(); err != nil {
		return nil, fmt.Errorf("%s: %w (known types: %s)", what, err, strings.Join(slices.Sorted(maps.Keys(builtIns)),
			", "))
	}
	var all []union.NamedAuthorizer
	var rules []authorizer.RuleResolver
	for _, one := range c.Authorizers {
		if in, ok := a.builtIn[one.Type]; ok {
			all, rules = append(all, withMetrics(one, in)), append(rules, in)
			continue
		}
		hook, err := newWebhookAuthorizer(one, compiler)
		if err != nil {
			return nil, fmt.Errorf("%s: authorizer %s: %w", what, one.Name, err)
		}
		all, rules = append(all, withMetrics(one, hook)), append(rules, hook)
	}
	authorizers, err := union.New(all...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return &currentChain{text, authorizers, union.NewRuleResolvers(rules...)}, nil
}

// withMetrics is an authorizer of the chain whose decisions are counted by its type and name.
func withMetrics(one apiserver.AuthorizerConfiguration, a authorizer.Authorizer) union.NamedAuthorizer {
	return union.NamedAuthorizer{AuthorizerName: one.Name,
		Authorizer: authorizationmetrics.InstrumentedAuthorizer(string(one.Type), one.Name, a)}
}

// webhookMetrics counts what is asked of webhooks.
type webhookMetrics struct {
	metrics.NoopRequestMetrics
	metrics.WebhookMetrics
	authorizationcel.MatcherMetrics
}

func newWebhookAuthorizer(one apiserver.AuthorizerConfiguration,
	compiler authorizationcel.Compiler) (*authzwebhook.WebhookAuthorizer, error) {
	w := one.Webhook
	if w.ConnectionInfo.Type != apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile ||
		w.ConnectionInfo.KubeConfigFile == nil {
		return nil, fmt.Errorf("webhook.connectionInfo.type: %s is not for an API server: use KubeConfigFile",
			w.ConnectionInfo.Type)
	}
	cfg, err := webhook.LoadKubeconfig(*w.ConnectionInfo.KubeConfigFile, nil)
	if err != nil {
		return nil, fmt.Errorf("webhook.connectionInfo.kubeConfigFile: %w", err)
	}
	cfg.Timeout = w.Timeout.Duration
	decision := authorizer.DecisionNoOpinion
	if w.FailurePolicy == apiserver.FailurePolicyDeny {
		decision = authorizer.DecisionDeny
	}
	ttl := func(on bool, d metav1.Duration) time.Duration {
		if !on {
			return 0
		}
		return d.Duration
	}
	return authzwebhook.New(cfg, w.SubjectAccessReviewVersion, ttl(w.CacheAuthorizedRequests, w.AuthorizedTTL),
		ttl(w.CacheUnauthorizedRequests, w.UnauthorizedTTL),
		*authzwebhook.DefaultRetryBackoff(), decision, w.MatchConditions, one.Name,
		webhookMetrics{WebhookMetrics: metrics.NewWebhookMetrics(),
			MatcherMetrics: authorizationcel.NewMatcherMetrics()}, compiler)
}

// Run builds the chain anew when its file changes, until the context ends. A file that is wrong
// changes nothing and is logged.
func (a *Authorizer) Run(ctx context.Context) {
	if a.options.File == "" {
		return
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		raw, err := os.ReadFile(a.options.File)
		if err == nil && string(raw) == a.current.Load().text {
			return
		}
		l, err := a.build()
		if err != nil {
			klog.FromContext(ctx).Error(err,
				"The authorization configuration changed and cannot be used; the former one stays in force")
			return
		}
		a.current.Store(l)
	}, reloadPeriod)
}

// Authorize implements authorizer.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, r authorizer.Attributes) (authorizer.Decision, string, error) {
	return a.current.Load().Authorize(ctx, r)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (a *Authorizer) ConditionsAwareAuthorize(ctx context.Context,
	r authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return a.current.Load().ConditionsAwareAuthorize(ctx, r)
}

// EvaluateConditions implements authorizer.Authorizer.
func (a *Authorizer) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision,
	data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return a.current.Load().EvaluateConditions(ctx, d, data)
}

// RulesFor implements authorizer.RuleResolver.
func (a *Authorizer) RulesFor(ctx context.Context, u user.Info,
	namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return a.current.Load().RulesFor(ctx, u, namespace)
}

package apiserver

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	webhookinit "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"

	"github.com/gantry-project/gantry/internal/apiserver/registry/admissionregistration"
)

// admissionOrder returns the names of all admission plugins in upstream's order: first all run
// their mutating half in this order, then their validating half.
func admissionOrder() []string {
	return []string{
		"AlwaysAdmit", "NamespaceAutoProvision", "NamespaceLifecycle", "NamespaceExists",
		"LimitPodHardAntiAffinityTopology", "LimitRanger",
		"ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "AlwaysPullImages", "ImagePolicyWebhook",
		"PodSecurity", "PodNodeSelector",
		"Priority", "DefaultTolerationSeconds", "PodTolerationRestriction", "EventRateLimit",
		"ExtendedResourceToleration", "DefaultStorageClass",
		"StorageObjectInUseProtection", "PodGroupProtection", "OwnerReferencesPermissionEnforcement",
		"PersistentVolumeClaimResize", "RuntimeClass",
		"CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest", "CertificateSubjectRestriction",
		"DefaultIngressClass",
		"DenyServiceExternalIPs", "PodTopologyLabels", "NodeDeclaredFeatureValidator",
		"PodResize",
		mutatingPolicy, "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
		"ResourceQuota", "AlwaysDeny",
	}
}

const mutatingPolicy = "MutatingAdmissionPolicy"

// makeAdmission builds the admission chain of the library's plugins and those of Access.
func (b *builder) makeAdmission() error {
	o := options.NewAdmissionOptions()
	for _, p := range b.access.Plugins {
		o.Plugins.Register(p.Name, p.Factory)
	}
	o.Decorators = append(o.Decorators,
		webhookSkipDecorator{b.informers.Admissionregistration().V1().MutatingWebhookConfigurations().Informer()},
		journalNamespaceDecorator{}, b.tracer)
	o.RecommendedPluginOrder = sortPlugins(o.Plugins.Registered(), admissionOrder())
	dyn, err := dynamic.NewForConfig(b.loopback)
	if err != nil {
		return err
	}
	init := append([]admission.PluginInitializer{webhookinit.NewPluginInitializer(b.webhookAuthResolver(), b.resolver),
		reviewsExcluded{}}, b.access.Initializers...)
	err = o.ApplyTo(b.generic, b.informers, b.client, dyn, feature.DefaultFeatureGate, b.generic.EffectiveVersion,
		init...)
	if err != nil {
		return fmt.Errorf("admission: %w", err)
	}
	return nil
}

// reviewsExcluded keeps webhooks and policies from being asked about reviews.
type reviewsExcluded struct{}

// Initialize implements admission.PluginInitializer.
func (reviewsExcluded) Initialize(plugin admission.Interface) {
	if w, ok := plugin.(initializer.WantsExcludedAdmissionResources); ok {
		w.SetExcludedAdmissionResources(admissionregistration.Reviews())
	}
}

// sortPlugins sorts plugin names by their index in order; names that are not in it come before the
// mutating policies.
func sortPlugins(names, order []string) []string {
	place := func(n string) int {
		if i := slices.Index(order, n); i >= 0 {
			return 2 * i
		}
		return 2*slices.Index(order, mutatingPolicy) - 1
	}
	out := slices.Clone(names)
	slices.SortStableFunc(out, func(a, b string) int { return place(a) - place(b) })
	return out
}

// mutatingPolicies returns the names of the MutatingAdmissionPolicies whose rules match the
// resource. Other match conditions are not evaluated.
func (b *builder) mutatingPolicies(gvr schema.GroupVersionResource) (out []string) {
	all, err := b.informers.Admissionregistration().V1().MutatingAdmissionPolicies().Lister().List(labels.Everything())
	if err != nil {
		return nil
	}
	for _, p := range all {
		if c := p.Spec.MatchConstraints; c != nil && slices.ContainsFunc(c.ResourceRules,
			func(r admissionregistrationv1.NamedRuleWithOperations) bool {
				return containsOrWildcard(r.APIGroups, gvr.Group) && containsOrWildcard(r.Resources, gvr.Resource)
			}) {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}

// containsOrWildcard reports whether a list of a rule contains value or "*".
func containsOrWildcard(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*") || slices.Contains(list, "*/*") ||
		slices.Contains(list, value+"/*")
}

// webhookAuthResolver returns how the server authenticates to webhooks.
func (b *builder) webhookAuthResolver() webhook.AuthenticationInfoResolverWrapper {
	return webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, b.loopback, b.generic.TracerProvider)
}

// makeServiceResolver makes the resolver from Services to ready endpoints, for webhooks and
// aggregated API servers: the API server need not reach cluster IPs.
func (b *builder) makeServiceResolver() error {
	slices, err := proxy.NewEndpointSliceIndexerGetter(b.informers.Discovery().V1().EndpointSlices())
	if err != nil {
		return err
	}
	b.resolver = aggregator.NewEndpointServiceResolver(b.informers.Core().V1().Services().Lister(), slices)
	return nil
}

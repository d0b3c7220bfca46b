package gather

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/kubelet/images"
)

// readNamespaceContext reads what a Pod's namespace holds, each kind as far as the caller may see
// it. Of Secrets only names, keys and registries are kept.
func readNamespaceContext(ctx context.Context, r *reader,
	namespace string) *explain.NamespaceContext {
	a := &explain.NamespaceContext{Ready: map[string]int{}, Values: map[string]string{}}
	all := metav1.ListOptions{ResourceVersion: "0"}
	if list, err := r.client.CoreV1().ConfigMaps(namespace).List(ctx, all); r.seen("configmaps", err) {
		a.ConfigMaps = map[string][]string{}
		for _, m := range list.Items {
			a.ConfigMaps[m.Name] = []string{}
			for k, v := range m.Data {
				a.ConfigMaps[m.Name] = append(a.ConfigMaps[m.Name], k)
				a.Values[m.Name+"/"+k] = v
			}
			for k := range m.BinaryData {
				a.ConfigMaps[m.Name] = append(a.ConfigMaps[m.Name], k)
			}
		}
	}
	if list, err := r.client.CoreV1().Secrets(namespace).List(ctx, all); r.seen("secrets", err) {
		a.Secrets, a.Registries = map[string][]string{}, map[string][]string{}
		for i := range list.Items {
			s := &list.Items[i]
			a.Secrets[s.Name] = []string{}
			for k := range s.Data {
				a.Secrets[s.Name] = append(a.Secrets[s.Name], k)
			}
			if hosts, err := images.Registries(s); err == nil {
				a.Registries[s.Name] = hosts
			}
		}
	}
	if list, err := r.client.CoreV1().Services(namespace).List(ctx, all); r.seen("services", err) {
		for i := range list.Items {
			a.Services = append(a.Services, &list.Items[i])
		}
	}
	if list, err := r.client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, all); r.seen("persistentvolumeclaims",
		err) {
		for i := range list.Items {
			a.Claims = append(a.Claims, list.Items[i].Name)
		}
	}
	if list, err := r.client.PolicyV1().PodDisruptionBudgets(namespace).List(ctx, all); r.seen("poddisruptionbudgets",
		err) {
		for i := range list.Items {
			a.Budgets = append(a.Budgets, &list.Items[i])
		}
	}
	if list, err := r.client.NetworkingV1().NetworkPolicies(namespace).List(ctx, all); r.seen("networkpolicies", err) {
		for i := range list.Items {
			a.Policies = append(a.Policies, &list.Items[i])
		}
	}
	if list, err := r.client.NodeV1().RuntimeClasses().List(ctx, all); r.seen("runtimeclasses", err) {
		a.RuntimeClasses = []string{}
		for i := range list.Items {
			a.RuntimeClasses = append(a.RuntimeClasses, list.Items[i].Name)
		}
	}
	a.Webhooks = webhooks(ctx, r)
	if list, err := r.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, all); r.seen("endpointslices", err) {
		for i := range list.Items {
			a.Ready[list.Items[i].Labels[discoveryv1.LabelServiceName]] += readyEndpoints(&list.Items[i])
		}
	}
	return a
}

// webhooks reads those of admission that the caller may see.
func webhooks(ctx context.Context, r *reader) []explain.Webhook {
	var out []explain.Webhook
	add := func(kind, configuration, name string, i int, policy *admissionv1.FailurePolicyType,
		at admissionv1.WebhookClientConfig) {
		w := explain.Webhook{Name: name, Kind: kind, Configuration: configuration, Index: i,
			Ignored: policy != nil && *policy == admissionv1.Ignore}
		if at.Service != nil {
			w.Service = at.Service.Namespace + "/" + at.Service.Name
		}
		out = append(out, w)
	}
	all := metav1.ListOptions{ResourceVersion: "0"}
	if list, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, all); r.seen(
		"validatingwebhookconfigurations", err) {
		for _, c := range list.Items {
			for i, w := range c.Webhooks {
				add("validatingwebhookconfiguration", c.Name, w.Name, i, w.FailurePolicy, w.ClientConfig)
			}
		}
	}
	if list, err := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, all); r.seen(
		"mutatingwebhookconfigurations", err) {
		for _, c := range list.Items {
			for i, w := range c.Webhooks {
				add("mutatingwebhookconfiguration", c.Name, w.Name, i, w.FailurePolicy, w.ClientConfig)
			}
		}
	}
	return out
}

func readyEndpoints(s *discoveryv1.EndpointSlice) int {
	n := 0
	for _, e := range s.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			n++
		}
	}
	return n
}

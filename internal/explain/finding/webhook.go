package finding

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhookClient is a webhook of either kind.
type webhookClient struct {
	name   string
	config admissionv1.WebhookClientConfig
	fail   bool
	wait   int32 // seconds that an answer may take
}

// webhooksOf returns the webhooks of a configuration.
func webhooksOf(o metav1.Object) []webhookClient {
	var out []webhookClient
	add := func(name string, c admissionv1.WebhookClientConfig, p *admissionv1.FailurePolicyType, wait *int32) {
		x := webhookClient{name, c, p == nil || *p == admissionv1.Fail, longestWait / 3}
		if wait != nil {
			x.wait = *wait
		}
		out = append(out, x)
	}
	switch x := o.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		for _, w := range x.Webhooks {
			add(w.Name, w.ClientConfig, w.FailurePolicy, w.TimeoutSeconds)
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for _, w := range x.Webhooks {
			add(w.Name, w.ClientConfig, w.FailurePolicy, w.TimeoutSeconds)
		}
	}
	return out
}

// webhook finds admission webhooks that cannot be asked: their Service is missing, lacks the port
// or has nobody behind it, or the certificate of their authority has ended.
func webhook(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	for i, w := range webhooksOf(o) {
		found := c.serviceBehind(w, self, fmt.Sprintf("webhooks[%d].clientConfig", i))
		found = append(found, certificateTimes(c.Now, w.config.CABundle, self,
			fmt.Sprintf("webhooks[%d].clientConfig.caBundle", i))...)
		for j := range found {
			f := &found[j]
			f.Stage = StageCreation
			if f.Code == "CertificateEnding" {
				continue // it is valid yet
			}
			effect := "What it selects is created unchecked meanwhile (failurePolicy Ignore)."
			if f.Severity = Threat; w.fail {
				f.Severity = Broken
				effect = "What it selects cannot be created or changed meanwhile (failurePolicy Fail)."
				f.Remedies = append(f.Remedies, Remedy{
					Say: "or let requests pass while it is away: nothing checks them then",
					Run: []string{fmt.Sprintf(`kubectl patch %s %s --type=json -p '[{"op":"replace","path":`+
						`"/webhooks/%d/failurePolicy","value":"Ignore"}]'`, self.lower(), self.Name, i)}})
			}
			f.Message += " " + effect
		}
		out = append(out, found...)
	}
	return out
}

// serviceBehind finds what is wrong with the Service of a webhook.
func (c *Cluster) serviceBehind(w webhookClient, self Object, at string) []Finding {
	s := w.config.Service
	if s == nil || !c.knows(Object{"Service", s.Namespace, s.Name}) {
		return nil
	}
	f := Finding{Object: self, Related: []Object{{"Service", s.Namespace, s.Name}}}
	x, ok := get[*corev1.Service](c, "Service", s.Namespace, s.Name)
	if !ok {
		f, _ := c.missing(Reference{Field: at + ".service", To: Object{"Service", s.Namespace, s.Name}}, self)
		f.Code = "WebhookServiceMissing"
		f.Message = fmt.Sprintf("Webhook %s cannot be asked. %s", w.name, f.Message)
		return []Finding{f}
	}
	port := int32(443)
	if s.Port != nil {
		port = *s.Port
	}
	var have []string
	for _, p := range x.Spec.Ports {
		if p.Port == port {
			have = nil
			break
		}
		have = append(have, fmt.Sprint(p.Port))
	}
	switch {
	case len(have) > 0:
		f.Code, f.Field, f.Value, f.Want = "WebhookPortMissing", at+".service.port", fmt.Sprint(port), have[0]
		f.Message = fmt.Sprintf("Webhook %s cannot be asked: Service %s has no port %d; it has %s.", w.name, s.Name,
			port,
			strings.Join(have, ", "))
	case c.Read("EndpointSlice") && c.whole(s.Namespace) && c.endpoints(s.Namespace, s.Name) == 0:
		f.Code, f.Field, f.Value = "WebhookWithoutEndpoints", at+".service", s.Name
		f.Message = fmt.Sprintf("Webhook %s cannot be asked: Service %s in namespace %s has no ready endpoints.",
			w.name,
			s.Name, s.Namespace)
		f.Remedies = []Remedy{SeeWhy("see why nothing stands behind it", objectOf("Service", x))}
	default:
		return nil
	}
	return []Finding{f}
}

// whole reports whether a namespace was read, not only single objects of it.
func (c *Cluster) whole(namespace string) bool { return c.Namespace == "" || c.Namespace == namespace }

// endpoints is how many ready endpoints a Service has.
func (c *Cluster) endpoints(namespace, name string) int {
	n := 0
	for _, s := range in[*discoveryv1.EndpointSlice](c, "EndpointSlice", namespace) {
		if s.Labels[discoveryv1.LabelServiceName] != name {
			continue
		}
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				n += max(len(e.Addresses), 1)
			}
		}
	}
	return n
}

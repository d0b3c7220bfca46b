package finding

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/pod"
)

// HostOf reads a name, as somebody in a namespace asks name servers for it, as one of the
// cluster's,
// and tells the namespace of its Service. ok is false for what may be a name outside. c has the
// Namespaces and Services of the cluster.
func HostOf(c *Cluster, host, ns string) (namespace string, ok bool) {
	h, ok := c.askedHost(host, ns)
	return h.namespace, ok
}

// askedHost is clusterHostOf for a name that somebody asks about: where a namespace or a Service of
// it is there, the rest may be missing. A name without a dot is an object's, no host.
func (c *Cluster) askedHost(host, ns string) (clusterHost, bool) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	parts := strings.Split(host, ".")
	if h, ok := c.clusterHostOf(host, ns); ok {
		return h, len(parts) > 1
	}
	if len(parts) == 3 && c.Get(Object{Kind: "Namespace", Name: parts[2]}) != nil {
		return clusterHost{pod: parts[0], service: parts[1], namespace: parts[2], whole: true}, true
	}
	return clusterHost{}, false
}

// Host is what the cluster's name servers answer about a name, as a finding: a note where it has
// addresses. c has, beside what HostOf needs, the Pods, StatefulSets and EndpointSlices of the
// namespace that HostOf tells.
func Host(c *Cluster, host, ns string) (Finding, bool) {
	h, ok := c.askedHost(host, ns)
	if !ok {
		return Finding{}, false
	}
	to := Object{"Service", h.namespace, h.service}
	f := Finding{Code: "HostUnknown", Stage: StageTraffic, Object: to, Field: "metadata.name", Value: host}
	if c.unknown(&f, h) {
		f.Message = fmt.Sprintf("The cluster's name servers do not know %s: %s", host, f.Message)
		if f.Want != "" {
			f.Remedies = append(f.Remedies, Remedy{Say: "ask for " + f.Want})
		}
		return f, true
	}
	s, ok := get[*corev1.Service](c, "Service", h.namespace, h.service)
	if !ok {
		return Finding{}, false
	}
	headless := s.Spec.ClusterIP == corev1.ClusterIPNone
	ready := c.endpoints(h.namespace, h.service)
	see := SeeWhy("see what stands behind it", to)
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		f.Severity, f.Field, f.Value = Note, "spec.externalName", s.Spec.ExternalName
		f.Message = fmt.Sprintf("%s is Service %s of namespace %s, another name for %s (type ExternalName): whether "+
			"that has an address the name servers outside decide.", host, s.Name, s.Namespace, s.Spec.ExternalName)
	case h.pod != "" && !headless:
		f.Field, f.Value = "spec.clusterIP", s.Spec.ClusterIP
		f.Message = fmt.Sprintf("The cluster's name servers do not know %s: only a headless Service has names of its "+
			"Pods, and Service %s has the address %s.", host, s.Name, s.Spec.ClusterIP)
	case h.pod != "":
		c.podHost(&f, h, s)
	case headless && ready == 0 && !s.Spec.PublishNotReadyAddresses:
		f.Field, f.Value, f.Remedies = "spec.selector", s.Name, []Remedy{see}
		f.Message = fmt.Sprintf("The name %s has no addresses: Service %s of namespace %s is headless, and none of "+
			"its endpoints is ready.", host, s.Name, s.Namespace)
	case headless:
		f.Severity = Note
		f.Message = fmt.Sprintf("%s has the addresses of the Pods behind the headless Service %s of namespace %s: "+
			"%d are ready.", host, s.Name, s.Namespace, ready)
	case ready == 0:
		f.Severity, f.Remedies = Threat, []Remedy{see}
		f.Message = fmt.Sprintf("%s has the address %s of Service %s in namespace %s; behind that no endpoint is "+
			"ready, so that connections fail.", host, s.Spec.ClusterIP, s.Name, s.Namespace)
	default:
		f.Severity = Note
		f.Message = fmt.Sprintf("%s has the address %s of Service %s in namespace %s; behind that %d endpoints are "+
			"ready.",
			host, s.Spec.ClusterIP, s.Name, s.Namespace, ready)
	}
	return f, true
}

// podHost is Host of a Pod's name below a headless Service.
func (c *Cluster) podHost(f *Finding, h clusterHost, s *corev1.Service) {
	f.Object = Object{"Pod", h.namespace, h.pod}
	for _, p := range in[*corev1.Pod](c, "Pod", h.namespace) {
		if p.Spec.Hostname != h.pod || p.Spec.Subdomain != h.service {
			continue
		}
		f.Object = objectOf("Pod", p)
		switch {
		case !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels)):
			f.Object, f.Field, f.Value = objectOf("Service", s), "spec.selector", p.Name
			f.Message = fmt.Sprintf("The cluster's name servers do not know %s: Service %s does not select Pod "+
				"%s.", h.pod+
				"."+h.service, s.Name, p.Name)
		case !pod.IsReady(p) && !s.Spec.PublishNotReadyAddresses:
			f.Field, f.Value = "status.conditions[Ready]", p.Name
			f.Message = fmt.Sprintf("The cluster's name servers do not know %s: Pod %s is not ready, and Service %s "+
				"publishes only ready ones (publishNotReadyAddresses).", h.pod+"."+h.service, p.Name, s.Name)
			f.Remedies = []Remedy{SeeWhy("see why it is not ready", f.Object)}
		default:
			f.Severity = Note
			f.Message = fmt.Sprintf("%s has the address %s of Pod %s.", h.pod+"."+h.service, p.Status.PodIP, p.Name)
		}
		return
	}
	f.Field, f.Value = "spec.hostname", h.pod
	f.Message = fmt.Sprintf("The cluster's name servers do not know %s: no Pod of namespace %s has hostname %s and "+
		"subdomain %s.", h.pod+"."+h.service, h.namespace, h.pod, h.service)
	if p, ok := get[*corev1.Pod](c, "Pod", h.namespace, h.pod); ok && p.Spec.Subdomain == "" {
		f.Message += fmt.Sprintf(" Pod %s has no subdomain.", p.Name)
	}
}

// ServiceElsewhere are the other namespaces, as far as they were read, with a Service of a name.
func (c *Cluster) ServiceElsewhere(namespace, name string) []string {
	if c == nil {
		return nil
	}
	return c.elsewhere(Object{"Service", namespace, name})
}

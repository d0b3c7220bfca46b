package finding

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ignoredRules finds rules of a NetworkPolicy for a direction that its policyTypes leave out.
func ignoredRules(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*networkingv1.NetworkPolicy)
	if !ok || len(p.Spec.PolicyTypes) == 0 {
		return nil
	}
	have := joinedTypes(p.Spec.PolicyTypes)
	var out []Finding
	for _, d := range []struct {
		kind  networkingv1.PolicyType
		rules int
	}{{networkingv1.PolicyTypeIngress, len(p.Spec.Ingress)}, {networkingv1.PolicyTypeEgress, len(p.Spec.Egress)}} {
		if d.rules == 0 || slices.Contains(p.Spec.PolicyTypes, d.kind) {
			continue
		}
		field := strings.ToLower(string(d.kind))
		out = append(out, Finding{Code: "RulesIgnored", Severity: Threat, Stage: StageTraffic, Object: self,
			Field: "spec.policyTypes", Value: have, Want: string(d.kind),
			Numbers: map[string]string{"rules": fmt.Sprint(d.rules)},
			Message: fmt.Sprintf("NetworkPolicy %s has rules in spec.%s (%d), and its policyTypes (%s) leave %s out: "+
				"they are not looked at, and that traffic is not restricted.", self.Name, field, d.rules, have, d.kind),
			Remedies: []Remedy{{Say: fmt.Sprintf("add %s to policyTypes: what no rule in spec.%s allows is shut then",
				d.kind, field), Run: []string{kubectl(self, "patch", fmt.Sprintf(
				`--type=json -p '[{"op":"add","path":"/spec/policyTypes/-","value":%q}]'`, d.kind))}}}})
	}
	return out
}

func joinedTypes(list []networkingv1.PolicyType) string {
	var out []string
	for _, t := range list {
		out = append(out, string(t))
	}
	return joined(out)
}

// hostsWithoutRule finds hosts of an Ingress' certificates that none of its rules is about.
func hostsWithoutRule(c *Cluster, o metav1.Object, self Object) []Finding {
	x, ok := o.(*networkingv1.Ingress)
	if !ok || x.Spec.DefaultBackend != nil {
		return nil // whatever no rule is about goes there
	}
	var hosts []string
	for _, r := range x.Spec.Rules {
		if r.Host == "" {
			return nil // it is about every host
		}
		hosts = append(hosts, r.Host)
	}
	var out []Finding
	for i, t := range x.Spec.TLS {
		for j, h := range t.Hosts {
			if len(hosts) == 0 || slices.ContainsFunc(hosts, func(rule string) bool { return sameHost(rule, h) }) {
				continue
			}
			f := Finding{Code: "HostWithoutRule", Severity: Threat, Stage: StageTraffic, Object: self,
				Field: fmt.Sprintf("spec.tls[%d].hosts[%d]", i, j), Value: h, Message: fmt.Sprintf("Ingress %s has a "+
					"certificate for host %s, and its rules are about %s: nothing is served for the one, and not "+
					"by that certificate for the other.", self.Name, h, joined(hosts))}
			var how string
			if f.Want, how = Near(h, hosts); f.Want == "" && len(hosts) == 1 {
				f.Want, how = hosts[0], "it is the only one"
			}
			if f.Want != "" {
				f.Message += fmt.Sprintf(" Perhaps %s was meant; %s.", f.Want, how)
				f.setTo(c, jsonText(f.Want))
			}
			out = append(out, f)
		}
	}
	return out
}

// sameHost reports whether one of two hosts is the other, or is among those of its wildcard.
func sameHost(a, b string) bool {
	under := func(wild, host string) bool {
		rest, ok := strings.CutPrefix(wild, "*.")
		_, parent, _ := strings.Cut(host, ".")
		return ok && strings.EqualFold(rest, parent)
	}
	return strings.EqualFold(a, b) || under(a, b) || under(b, a)
}

// headlessPorts notes ports of a headless Service that its Pods do not have: its name leads to the
// Pods themselves, so the port that a client asks is theirs.
func headlessPorts(c *Cluster, o metav1.Object, self Object) []Finding {
	s, ok := o.(*corev1.Service)
	if !ok || s.Spec.ClusterIP != corev1.ClusterIPNone || len(s.Spec.Selector) == 0 {
		return nil
	}
	pods := selected(s.Spec.Selector, c.labelledPods(self.Namespace))
	var out []Finding
	for i, p := range s.Spec.Ports {
		_, numbers := c.portsOf(pods, p.Protocol)
		own := fmt.Sprint(p.Port)
		target := c.numberOf(pods, p)
		if target == own || slices.Contains(numbers, own) || !slices.Contains(numbers, target) {
			continue
		}
		f := Finding{Code: "HeadlessPort", Severity: Note, Stage: StageTraffic, Object: self,
			Field: fmt.Sprintf("spec.ports[%d].port", i), Value: own, Want: target,
			Numbers: map[string]string{"port": own, "targetPort": target},
			Message: fmt.Sprintf("Service %s is headless (clusterIP None): its name leads to the Pods themselves and "+
				"nothing translates ports, so %s:%s is asked of the Pods' port %s, and they have %s.", self.Name,
				self.Name, own, own, joined(numbers))}
		f.setTo(c, target)
		out = append(out, f)
	}
	return out
}

// numberOf is the Pods' port that a Service's port goes to, as a number; a name that no container
// has stays.
func (c *Cluster) numberOf(pods []labelled, p corev1.ServicePort) string {
	if p.TargetPort.Type == intstr.Int {
		if n := p.TargetPort.IntValue(); n != 0 {
			return fmt.Sprint(n)
		}
		return fmt.Sprint(p.Port)
	}
	for _, x := range pods {
		o := c.Get(x.object)
		if o == nil {
			continue
		}
		spec, _ := podSpecOf(o)
		for i := range spec.Containers {
			for _, q := range spec.Containers[i].Ports {
				if q.Name == p.TargetPort.StrVal {
					return fmt.Sprint(q.ContainerPort)
				}
			}
		}
	}
	return p.TargetPort.StrVal
}

// endpointsByHand finds endpoints that somebody wrote himself and that say of themselves that they
// are not ready: nobody else changes that.
func endpointsByHand(c *Cluster, o metav1.Object, self Object) []Finding {
	x, ok := o.(*discoveryv1.EndpointSlice)
	if !ok || metav1.GetControllerOf(x) != nil || x.Labels[discoveryv1.LabelManagedBy] != "" {
		return nil
	}
	of := x.Labels[discoveryv1.LabelServiceName]
	if s, ok := get[*corev1.Service](c, "Service", x.Namespace, of); ok && s.Spec.PublishNotReadyAddresses {
		return nil
	}
	var out []Finding
	for i, e := range x.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready || e.Conditions.Terminating != nil &&
			*e.Conditions.Terminating {
			continue
		}
		f := Finding{Code: "EndpointNotReady", Severity: Threat, Stage: StageTraffic, Object: self,
			Field: fmt.Sprintf("endpoints[%d].conditions.ready", i), Value: "false", Want: "true",
			Related: []Object{{"Service", self.Namespace, of}},
			Message: fmt.Sprintf("EndpointSlice %s of Service %s says of %s that it is not ready: no traffic goes "+
				"there. No controller writes this slice, so whoever made it has to change that.", self.Name, of,
				joined(e.Addresses))}
		f.setTo(c, "true")
		out = append(out, f)
	}
	return out
}

// slicesByHand are the troubles of the slices that somebody wrote for a Service.
func slicesByHand(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	for _, x := range in[*discoveryv1.EndpointSlice](c, "EndpointSlice", self.Namespace) {
		if x.Labels[discoveryv1.LabelServiceName] == self.Name {
			out = append(out, endpointsByHand(c, x, objectOf("EndpointSlice", x))...)
		}
	}
	return out
}

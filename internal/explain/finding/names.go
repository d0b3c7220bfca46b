package finding

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyrules "github.com/gantry-project/gantry/internal/networkpolicy/rules"
)

// alias finds an external name that is an address, or the Service's own.
func alias(_ *Cluster, o metav1.Object, self Object) []Finding {
	s, ok := o.(*corev1.Service)
	if !ok || s.Spec.Type != corev1.ServiceTypeExternalName {
		return nil
	}
	f := Finding{Code: "NameUnresolvable", Stage: StageTraffic, Object: self, Field: "spec.externalName",
		Value: s.Spec.ExternalName}
	name := strings.TrimSuffix(s.Spec.ExternalName, ".")
	if _, err := netip.ParseAddr(name); err == nil {
		f.Message = fmt.Sprintf("externalName of Service %s is %s, an address: a name server answers with it as if it "+
			"were a name, and nobody can resolve that.", self.Name, name)
		f.Remedies = []Remedy{{Say: fmt.Sprintf("make it a Service without selector, of type ClusterIP, and write an "+
			"EndpointSlice with %s for it", name)}}
		return []Finding{f}
	}
	own := s.Name + "." + s.Namespace + ".svc"
	if name == own || name == own+".cluster.local" {
		f.Message = fmt.Sprintf("externalName of Service %s is %s, its own name: it leads to itself.", self.Name, name)
		f.Remedies = []Remedy{{Say: "name another host"}}
		return []Finding{f}
	}
	return nil
}

// hostNames finds a Pod that asks the node's name server, which does not know Services: one in its
// node's network, or one with dnsPolicy Default that names a Service.
func hostNames(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec != nil && (spec.DNSPolicy == corev1.DNSDefault || asksOthers(c, spec)) {
		return c.defaultNames(o, spec, self)
	}
	if spec == nil || !spec.HostNetwork || spec.DNSPolicy != corev1.DNSClusterFirst {
		return nil
	}
	f := Finding{Code: "NodeNames", Severity: Note, Stage: StageTraffic, Object: self, Field: at + ".dnsPolicy",
		Value: string(spec.DNSPolicy), Want: string(corev1.DNSClusterFirstWithHostNet),
		Message: fmt.Sprintf("%s %s uses "+
			"its node's network with dnsPolicy ClusterFirst, which then means Default: names of Services cannot be "+
			"resolved. With ClusterFirstWithHostNet they can.", self.Kind, self.Name)}
	f.setTo(c, jsonText(f.Want))
	return []Finding{f}
}

// asksOthers reports whether a Pod asks only name servers of its own choice, none of which is the
// cluster's: a Service's, or a cache of its node's. Where the cluster's own is not known, an
// address from outside private networks is none.
func asksOthers(c *Cluster, spec *corev1.PodSpec) bool {
	if spec.DNSPolicy != corev1.DNSNone || spec.DNSConfig == nil || len(spec.DNSConfig.Nameservers) == 0 {
		return false
	}
	services := list[*corev1.Service](c, "Service")
	known := c.Get(Object{"Service", metav1.NamespaceSystem, "kube-dns"}) != nil
	return !slices.ContainsFunc(spec.DNSConfig.Nameservers, func(s string) bool {
		ip, err := netip.ParseAddr(s)
		return err != nil || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsPrivate() && !known ||
			slices.ContainsFunc(services, func(x *corev1.Service) bool {
				return x.Spec.ClusterIP == s || slices.Contains(x.Spec.ClusterIPs, s)
			})
	})
}

// defaultNames finds Services that a Pod which does not ask the cluster's name server names in its
// commands and variables.
func (c *Cluster) defaultNames(o metav1.Object, spec *corev1.PodSpec, self Object) []Finding {
	_, at := podSpecOf(o)
	want := corev1.DNSClusterFirst
	if spec.HostNetwork {
		want = corev1.DNSClusterFirstWithHostNet
	}
	f := Finding{Code: "NodeNames", Severity: Threat, Stage: StageTraffic, Object: self, Field: at + ".dnsPolicy",
		Value: string(spec.DNSPolicy), Want: string(want)}
	var places []string
	eachContainer(o, self, func(x place) []Finding {
		for _, u := range askingTexts(x.c) {
			to, ok := c.serviceNamed(u.text, self.Namespace)
			if ok && !slices.Contains(f.Related, to) {
				f.Related = append(f.Related, to)
				places = append(places, fmt.Sprintf("%s (%s.%s)", to.Name, x.at, u.field))
			}
		}
		return nil
	})
	if len(places) == 0 {
		return nil
	}
	asks := "the name servers of its node"
	if spec.DNSPolicy == corev1.DNSNone {
		asks = "only " + joined(spec.DNSConfig.Nameservers) + " (dnsConfig)"
	}
	f.Message = fmt.Sprintf("%s %s has dnsPolicy %s: it asks %s, which know no Services, and it names %s. "+
		"ClusterFirst, which holds where nothing is stated, knows them.", self.Kind, self.Name, spec.DNSPolicy, asks,
		joined(places))
	f.setTo(c, jsonText(f.Want))
	return []Finding{f}
}

// hostWords are hosts in a text: behind // or @, or before a port.
var hostWords = regexp.MustCompile(`(?://|@)([A-Za-z0-9.-]+)|([A-Za-z0-9.-]+):\d`)

// serviceNamed is the Service that a host in a text is the name of.
func (c *Cluster) serviceNamed(text, namespace string) (Object, bool) {
	for _, m := range hostWords.FindAllStringSubmatch(text, -1) {
		parts := strings.Split(m[1]+m[2], ".")
		to := Object{"Service", namespace, parts[0]}
		if len(parts) > 1 {
			to.Namespace = parts[1]
		}
		if c.Get(to) != nil {
			return to, true
		}
	}
	return Object{}, false
}

// dnsShut finds a policy whose Pods may connect somewhere by port, and never to a name server.
func dnsShut(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*networkingv1.NetworkPolicy)
	if !ok || !policyrules.Applies(p, networkingv1.PolicyTypeEgress) ||
		len(p.Spec.Egress) == 0 || slices.ContainsFunc(p.Spec.Egress, opensNames) {
		return nil
	}
	for _, x := range in[*networkingv1.NetworkPolicy](c, "NetworkPolicy", self.Namespace) {
		if x.Name != p.Name && slices.ContainsFunc(x.Spec.Egress, opensNames) {
			return nil // another policy may open them
		}
	}
	return []Finding{{Code: "PolicyShutsNames", Severity: Threat, Stage: StageTraffic, Object: self,
		Field: "spec.egress",
		Value: fmt.Sprint(len(p.Spec.Egress)), Want: "53",
		Message: fmt.Sprintf("NetworkPolicy %s lets its Pods connect to "+
			"certain ports, and port 53 is none of them: they cannot resolve names where name servers are behind the "+
			"policy, as Pods or Services are.", self.Name),
		Remedies: []Remedy{{Say: "let them ask name servers: port 53 of everybody",
			Run: []string{kubectl(self, "patch",
				`--type=json -p '[{"op":"add","path":"/spec/egress/-","value":{"ports":`+
					`[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}]}}]'`)}}}}}
}

// opensNames reports whether a rule may let requests to name servers pass: it is about all ports,
// port 53, or Pods and addresses of which nothing is said here.
func opensNames(r networkingv1.NetworkPolicyEgressRule) bool {
	return len(r.Ports) == 0 || slices.ContainsFunc(r.Ports, func(p networkingv1.NetworkPolicyPort) bool {
		if p.Port == nil {
			return true
		}
		n := p.Port.IntValue()
		return n == 53 || n == 0 || p.EndPort != nil && n <= 53 && int(*p.EndPort) >= 53
	})
}

// sliceOwner finds an EndpointSlice of a Service that is not there.
func sliceOwner(c *Cluster, o metav1.Object, self Object) []Finding {
	of := o.GetLabels()[discoveryv1.LabelServiceName]
	to := Object{"Service", self.Namespace, of}
	if of == "" || !c.knows(to) || c.Get(to) != nil || len(o.GetOwnerReferences()) > 0 {
		return nil
	}
	f := Finding{Code: "ReferenceMissing", Severity: Threat, Stage: StageTraffic, Object: self,
		Field: "metadata.labels[" + discoveryv1.LabelServiceName + "]", Value: of, Related: []Object{to},
		Message: fmt.Sprintf("EndpointSlice %s is of Service %s, and there is none: nobody uses it.", self.Name, of)}
	if near, how := Near(of, c.names("Service", self.Namespace)); near != "" {
		f.Want = near
		f.Message += fmt.Sprintf(" There is a Service %s: perhaps that was meant; %s.", near, how)
		f.Remedies = []Remedy{{Say: "let it be of " + near, Run: []string{kubectl(self, "label", "--overwrite "+
			discoveryv1.LabelServiceName+"="+near)}}}
	}
	return []Finding{f}
}

package plan

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Names of the DNS objects.
const (
	ServiceName   = "kube-dns"
	ConfigMapName = "kube-dns"
	managedBy     = "dns.gantry"
	// MetricsPort is the Service's metrics port, as in upstream's add-on.
	MetricsPort = 9153
	metrics     = "metrics"
)

func managedLabels() map[string]string {
	return map[string]string{"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true",
		"kubernetes.io/name": "CoreDNS"}
}

// Service returns the DNS Service at an address. It has no selector: every server maintains its own
// EndpointSlice.
func Service(at netip.Addr) *v1.Service {
	family := v1.IPv4Protocol
	if at.Is6() {
		family = v1.IPv6Protocol
	}
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: ServiceName, Labels: managedLabels(),
			Annotations: scrapeAnnotations()},
		Spec: v1.ServiceSpec{
			ClusterIP: at.String(), IPFamilies: []v1.IPFamily{family},
			TrafficDistribution: ptr.To(v1.ServiceTrafficDistributionPreferSameNode),
			Ports: []v1.ServicePort{{Name: "dns", Protocol: v1.ProtocolUDP, Port: port},
				{Name: "dns-tcp", Protocol: v1.ProtocolTCP, Port: port}, metricsPort()},
		},
	}
}

// scrapeAnnotations returns the annotations by which Prometheus finds the metrics.
func scrapeAnnotations() map[string]string {
	return map[string]string{"prometheus.io/port": strconv.Itoa(MetricsPort), "prometheus.io/scrape": "true"}
}

func metricsPort() v1.ServicePort {
	return v1.ServicePort{Name: metrics, Protocol: v1.ProtocolTCP, Port: MetricsPort}
}

// WithDefaults returns a Service of an earlier version of Gantry with metrics port and annotations
// added; nil if nothing is missing. Existing annotations stay.
func WithDefaults(have *v1.Service) *v1.Service {
	out := have.DeepCopy()
	if !slices.ContainsFunc(out.Spec.Ports, func(p v1.ServicePort) bool {
		return p.Name == metrics || p.Protocol == v1.ProtocolTCP && p.Port == MetricsPort
	}) {
		out.Spec.Ports = append(out.Spec.Ports, metricsPort())
	}
	for k, v := range scrapeAnnotations() {
		if _, set := out.Annotations[k]; !set {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, k, v)
		}
	}
	if len(out.Spec.Ports) == len(have.Spec.Ports) && len(out.Annotations) == len(have.Annotations) {
		return nil
	}
	return out
}

// Conflict returns why a Service of that name must not be changed; "" if it is Gantry's.
func Conflict(have *v1.Service, at netip.Addr) string {
	switch {
	case len(have.Spec.Selector) > 0:
		return "it selects Pods: another DNS is installed"
	case have.Spec.ClusterIP != at.String():
		return "its address is " + have.Spec.ClusterIP + ", not " + at.String()
	}
	return ""
}

// Server is one DNS server as others reach it.
type Server struct {
	Node    string
	NodeUID types.UID // empty: not known, and the slice has no owner
	At      netip.AddrPort
	Metrics uint16 // metrics port at the same address; 0: none
}

// SliceName returns the name of a node's EndpointSlice.
func SliceName(node string) string { return ServiceName + "-" + node }

// Slice returns the EndpointSlice of a server. Its Node owns it.
func Slice(s Server) *discoveryv1.EndpointSlice {
	family := discoveryv1.AddressTypeIPv4
	if s.At.Addr().Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	labels := managedLabels()
	labels[discoveryv1.LabelServiceName], labels[discoveryv1.LabelManagedBy] = ServiceName, managedBy
	out := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: SliceName(s.Node), Labels: labels},
		AddressType: family,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{s.At.Addr().String()}, NodeName: ptr.To(s.Node),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true),
				Terminating: ptr.To(false)},
			Hints: &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: s.Node}}},
		}},
		Ports: []discoveryv1.EndpointPort{
			{Name: ptr.To("dns"), Protocol: ptr.To(v1.ProtocolUDP), Port: ptr.To(int32(s.At.Port()))},
			{Name: ptr.To("dns-tcp"), Protocol: ptr.To(v1.ProtocolTCP), Port: ptr.To(int32(s.At.Port()))},
		},
	}
	if s.Metrics != 0 {
		out.Ports = append(out.Ports, discoveryv1.EndpointPort{Name: ptr.To(metrics), Protocol: ptr.To(v1.ProtocolTCP),
			Port: ptr.To(int32(s.Metrics))})
	}
	if s.NodeUID != "" {
		out.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: s.Node, UID: s.NodeUID}}
	}
	return out
}

// Corefile returns the stanza of CoreDNS's kubernetes plugin: the cluster domain and both reverse
// zones; reverse names of others are asked upstream.
func Corefile(domain string) string {
	return strings.Join([]string{
		"kubernetes " + domain + " in-addr.arpa ip6.arpa {",
		"  pods insecure",
		"  fallthrough in-addr.arpa ip6.arpa",
		"  ttl 5",
		"}",
	}, "\n")
}

// Forwarding returns the stanza of CoreDNS's forward plugin. A query fails at once while all
// servers are known to be down; more than the maximum of concurrent queries are refused.
func Forwarding(servers []netip.AddrPort) string {
	var b strings.Builder
	b.WriteString("forward .")
	for _, s := range servers {
		b.WriteString(" " + s.String())
	}
	b.WriteString(" {\n  max_concurrent 1000\n  failfast_all_unhealthy_upstreams\n}")
	return b.String()
}

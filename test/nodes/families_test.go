package nodes

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const dualService = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  ipFamilyPolicy: RequireDualStack
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
`

// Pods, Services, node ports, names and policies of nodes that have addresses of both families:
// everything by IPv6 that the others do by IPv4.
func TestTwoFamilies(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster, l.ending = clusterCIDRs, true
	all := []*machine{l.machine("a", 1, 1), l.machine("b", 1, 2), l.machine("c", 2, 3)}
	a := all[0]
	l.cluster3(all, "--service-cluster-ip-range", serviceRanges)
	l.webs(all, dualService)
	var families []map[string]netip.AddrPort
	for i, cluster := range strings.Split(clusterCIDRs, ",") {
		ips := map[string]netip.AddrPort{}
		for _, m := range all {
			ip := netip.MustParseAddr(a.mustKubectl("", "get", "pod", "web-"+m.name, "-o",
				fmt.Sprintf("jsonpath={.status.podIPs[%d].ip}", i)))
			own := netip.MustParsePrefix(a.mustKubectl("", "get", "node", m.name, "-o",
				fmt.Sprintf("jsonpath={.spec.podCIDRs[%d]}", i)))
			if !own.Contains(ip) || !netip.MustParsePrefix(cluster).Contains(ip) {
				t.Errorf("Pod of %s has %s, the node's range is %s of %s", m.name, ip, own, cluster)
			}
			ips[m.name] = netip.AddrPortFrom(ip, 8080)
		}
		families = append(families, ips)
	}
	for _, m := range all {
		if got := a.mustKubectl("", "get", "node", m.name, "-o",
			`jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`); got != m.ip+" "+m.ip6 {
			t.Errorf("addresses of %s: %s, want %v", m.name, got, m.ip+" "+m.ip6)
		}
		if got := a.mustKubectl("", "get", "pod", "web-"+m.name, "-o", "jsonpath={.status.hostIPs[*].ip}"); got !=
			m.ip+" "+m.ip6 {
			t.Errorf("host addresses of the Pod of %s: %s, want %v", m.name, got, m.ip+" "+m.ip6)
		}
	}
	for _, ips := range families {
		everywhere(t, all, ips)
	}
	if routes := a.sh("ip -6 route show proto 0x47"); !strings.Contains(routes, "via fd10:171:1::2 dev up0") ||
		!strings.Contains(routes, "dev gv") {
		t.Errorf("a reaches b by a route of IPv6 and c by VXLAN, but has\n%s", routes)
	}
	t.Run("services", func(t *testing.T) { sixServices(t, all) })
	t.Run("names", func(t *testing.T) { sixNames(t, all) })
	t.Run("a certificate is renewed", func(t *testing.T) { renewed(t, all[2]) })
	t.Run("policies", func(t *testing.T) { policies(t, all, families[1]) })
	t.Run("a node cut off and back", func(t *testing.T) {
		b := all[1]
		b.sh("ip link set up0 down")
		if got, err := all[0].fromPod("web-a", families[1]["b"], shortTimeout); err == nil {
			t.Errorf("a node without a link answers: %q", got)
		}
		// The kernel takes IPv6 addresses away with the link.
		b.sh("ip link set up0 up; ip addr replace " + b.ip6 + "/64 dev up0 nodad; ip route replace default via " +
			"10.171.1.254; ip -6 route replace default via fd10:171:1::254")
		for _, ips := range families {
			everywhere(t, all, ips)
		}
	})
}

// sixServices: the IPv6 cluster IP from Pods and node ports at the nodes' IPv6 addresses; each
// endpoint answers.
func sixServices(t *testing.T, all []*machine) {
	a := all[0]
	ip := netip.MustParseAddr(a.mustKubectl("", "get", "service", "web", "-o", "jsonpath={.spec.clusterIPs[1]}"))
	var port uint16
	if _, err := fmt.Sscan(a.mustKubectl("", "get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}"),
		&port); err != nil {
		t.Fatal(err)
	}
	if !netip.MustParsePrefix(strings.Split(serviceRanges, ",")[1]).Contains(ip) {
		t.Errorf("the second cluster IP is %s", ip)
	}
	for _, m := range all {
		seen := map[string]bool{}
		m.lab.eventually(time.Minute, "a Pod of "+m.name+" reaches all endpoints by the IPv6 cluster IP",
			func() (string, bool) {
				got, err := m.fromPod("web-"+m.name, netip.AddrPortFrom(ip, 80), 2*time.Second)
				if err == nil {
					seen[got] = true
				}
				return fmt.Sprint(seen, err), len(seen) == 3
			})
		for _, other := range all {
			got, err := other.fromNode(netip.AddrPortFrom(netip.MustParseAddr(m.ip6), port), failoverTimeout)
			if err != nil || !strings.HasPrefix(got, "web-") {
				t.Errorf("node port of %s from %s by IPv6: got %q %v, want no error and it to begin with %q", m.name,
					other.name, got, err, "web-")
			}
		}
	}
}

// sixNames: names have addresses of both families, and IPv6 addresses have names.
func sixNames(t *testing.T, all []*machine) {
	a := all[0]
	server := a.mustKubectl("", "-n", "kube-system", "get", "service", "kube-dns", "-o", "jsonpath={.spec.clusterIP}")
	ips := strings.Fields(a.mustKubectl("", "get", "service", "web", "-o",
		"jsonpath={.spec.clusterIPs[0]} {.spec.clusterIPs[1]}"))
	back, err := dns.ReverseAddr(ips[1])
	if err != nil {
		t.Fatal(err)
	}
	const name = "web.default.svc.cluster.local."
	for _, m := range all {
		for _, q := range []struct {
			name, want string
			kind       uint16
		}{{name, ips[0], dns.TypeA}, {name, ips[1], dns.TypeAAAA}, {back, name, dns.TypePTR}} {
			m.lab.eventually(time.Minute, fmt.Sprintf("a Pod of %s asks for %s of %s", m.name, dns.TypeToString[q.kind],
				q.name), func() (got string, ok bool) {
				err := m.inside("web-"+m.name,
					func() (err error) { got, err = resolve(server, q.name, q.kind); return err })
				return fmt.Sprint(got, err), err == nil && got == q.want
			})
		}
	}
}

// A machine that has IPv6 alone is a whole cluster: probes, Services, node ports, names, exec and
// logs.
func TestIPv6Alone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.machine("a", 1, 1)
	a.sh("ip -4 addr flush dev up0")
	ranges := strings.Split(clusterCIDRs, ",")
	a.up("--node-ip", a.ip6, "--bind-address", a.ip6, "--cluster-cidr", ranges[1], "--service-cluster-ip-range",
		strings.Split(serviceRanges, ",")[1])
	l.eventually(time.Minute, "the node is Ready", func() (string, bool) {
		out, _ := a.kubectl("", "get", "nodes", "-o",
			`jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)
		return out + a.All[0].Output(), out == "True"
	})
	all := []*machine{a}
	l.webs(all, service)
	ip := netip.MustParseAddr(a.mustKubectl("", "get", "pod", "web-a", "-o", "jsonpath={.status.podIP}"))
	if !netip.MustParsePrefix(ranges[1]).Contains(ip) {
		t.Errorf("the Pod has %s", ip)
	}
	everywhere(t, all, map[string]netip.AddrPort{"a": netip.AddrPortFrom(ip, 8080)})
	cluster := netip.MustParseAddr(a.mustKubectl("", "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"))
	var port uint16
	if _, err := fmt.Sscan(a.mustKubectl("", "get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}"),
		&port); err != nil {
		t.Fatal(err)
	}
	l.eventually(failoverTimeout, "the Service answers a Pod and the node", func() (string, bool) {
		pod, err1 := a.fromPod("web-a", netip.AddrPortFrom(cluster, 80), 2*time.Second)
		node, err2 := a.fromNode(netip.AddrPortFrom(netip.MustParseAddr(a.ip6), port), 2*time.Second)
		return fmt.Sprint(pod, err1, node, err2), pod == "web-a" && node == "web-a"
	})
	server := a.mustKubectl("", "-n", "kube-system", "get", "service", "kube-dns", "-o", "jsonpath={.spec.clusterIP}")
	l.eventually(failoverTimeout, "a Pod finds the Service by name", func() (got string, ok bool) {
		err := a.inside("web-a", func() (err error) {
			got, err = resolve(server, "web.default.svc.cluster.local.", dns.TypeAAAA)
			return err
		})
		return fmt.Sprint(got, err), got == cluster.String()
	})
	execAndLogs(t, all)
}

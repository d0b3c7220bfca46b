package nodes

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// web is a Pod on a node that answers with its name.
func web(node string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: web-%[1]s, labels: {app: web, node: %[1]s}}
spec:
  nodeName: %[1]s
  terminationGracePeriodSeconds: 0
  containers:
  - name: web
    image: %[2]s
    command: [sh, -c, "mkdir /w; hostname > /w/index.html; exec httpd -f -p 8080 -h /w"]
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---`, node, image)
}

const service = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
`

// failoverTimeout is for what must come; shortTimeout for what must not.
const failoverTimeout, shortTimeout = time.Minute, 300 * time.Millisecond

func TestThreeNodes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b, c := l.machine("a", 1, 1), l.machine("b", 1, 2), l.machine("c", 2, 3)
	all := []*machine{a, b, c}
	l.cluster3(all)
	l.webs(all, service)
	ips := map[string]netip.AddrPort{}
	for _, m := range all {
		ip := a.mustKubectl("", "get", "pod", "web-"+m.name, "-o", "jsonpath={.status.podIP}")
		ips[m.name] = netip.AddrPortFrom(netip.MustParseAddr(ip), 8080)
		own := a.mustKubectl("", "get", "node", m.name, "-o", "jsonpath={.spec.podCIDR}")
		if !netip.MustParsePrefix(own).Contains(ips[m.name].Addr()) {
			t.Errorf("Pod of %s has %s, the node's range is %s", m.name, ip, own)
		}
	}
	everywhere(t, all, ips)
	if routes := a.sh("ip route show proto 0x47"); !strings.Contains(routes, "via 10.171.1.2 dev up0") ||
		!strings.Contains(routes, "onlink") {
		t.Errorf("a reaches b by a route and c by VXLAN, but has\n%s", routes)
	}
	t.Run("services", func(t *testing.T) { services(t, all) })
	t.Run("a Pod that fails", func(t *testing.T) { failing(t, all, ips) })
	t.Run("exec and logs", func(t *testing.T) { execAndLogs(t, all) })
	t.Run("traffic stays near", func(t *testing.T) { near(t, all) })
	t.Run("health-check node ports", func(t *testing.T) { healthChecks(t, all) })
	t.Run("names", func(t *testing.T) { names(t, all) })
	t.Run("policies", func(t *testing.T) { policies(t, all, ips) })
	t.Run("both ends of a way choose the same", func(t *testing.T) { ways(t, all, ips) })
	t.Run("a node cut off and back", func(t *testing.T) { cutOff(t, all, ips) })
	t.Run("large answers", func(t *testing.T) { large(t, all, ips) })
	t.Run("a node goes", func(t *testing.T) {
		c.All[0].Kill()
		a.mustKubectl("", "delete", "node", "c")
		l.eventually(failoverTimeout, "no way to c on a", func() (string, bool) {
			out := a.sh("ip route show proto 0x47; ip -o link show type vxlan")
			return out, !strings.Contains(out, "onlink") && !strings.Contains(out, "vxlan") && strings.Contains(out,
				"via 10.171.1.2")
		})
	})
	t.Run("a kubelet ends", func(t *testing.T) { kubeletEnds(t, a, b, ips["b"]) })
	t.Run("a proxy ends", func(t *testing.T) { proxyEnds(t, a, b) })
}

// ways: two nodes of which one reaches the other by a gateway alone, so that each by itself would
// choose another way, both take the tunnel, and routes again when that is over.
func ways(t *testing.T, all []*machine, ips map[string]netip.AddrPort) {
	a, b := all[0], all[1]
	chosen := func(from, to *machine) string {
		own := a.mustKubectl("", "get", "node", to.name, "-o", "jsonpath={.spec.podCIDR}")
		return strings.TrimSpace(from.sh("ip route show proto 0x47 " + own))
	}
	both := func(tunnel bool) {
		t.Helper()
		a.lab.eventually(failoverTimeout, fmt.Sprintf("a and b reach each other by the tunnel: %v", tunnel),
			func() (string, bool) {
				there, back := chosen(a, b), chosen(b, a)
				return there + "\n" + back, there != "" && back != "" && strings.Contains(there, "onlink") == tunnel &&
					strings.Contains(back, "onlink") == tunnel
			})
		everywhere(t, all, ips)
	}
	b.sh("ip route add " + a.ip + "/32 via 10.171.1.254")
	both(true)
	if says := a.mustKubectl("", "get", "node", "b", "-o",
		`jsonpath={.metadata.annotations.gantry\.dev/node-routes}`); !strings.HasPrefix(says, "auto ") ||
		!strings.Contains(says, "!"+a.ip+"/32") {
		t.Errorf("b says %q", says)
	}
	b.sh("ip route del " + a.ip + "/32")
	both(false)
}

// large: what does not fit one packet passes between nodes, by the tunnel too, as Pods' links leave
// room for its wrapping: neither TCP, nor a datagram of a Pod's full size that may not be cut, need
// anybody's word that something was too large.
func large(t *testing.T, all []*machine, ips map[string]netip.AddrPort) {
	const size = 500_000
	a := all[0]
	for _, m := range all {
		a.mustKubectl("", "exec", "web-"+m.name, "--", "sh", "-c",
			fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x > /w/large",
				size))
	}
	for _, from := range all {
		var room int
		if err := from.inside("web-"+from.name, func() error {
			link, err := net.InterfaceByName("eth0")
			if err == nil {
				room = link.MTU
			}
			return err
		}); err != nil || room != 1450 {
			t.Errorf("MTU of the Pod of %s: %d %v, want the segment's 1500 less 50 for the tunnel", from.name, room,
				err)
		}
		for _, to := range all {
			from.lab.eventually(failoverTimeout, "web-"+from.name+" gets a large answer of web-"+to.name,
				func() (string, bool) {
					got, err := from.fromPodAt("web-"+from.name, "/large", ips[to.name], failoverTimeout)
					return fmt.Sprint(len(got), err), len(got) == size
				})
			if from == to {
				continue
			}
			from.lab.eventually(failoverTimeout, fmt.Sprintf("a ping of %d bytes from %s to %s", room, from.name,
				to.name), func() (string, bool) {
				out, err := a.kubectl("", "exec", "web-"+from.name, "--", "ping", "-c", "1", "-W", "2", "-s",
					fmt.Sprint(room-28), ips[to.name].Addr().String())
				return fmt.Sprint(out, err), err == nil
			})
		}
	}
}

// kubeletEnds: a node whose kubelet has been stopped keeps its Pods, and they find names by another
// node's server, as their own has said that it is away.
func kubeletEnds(t *testing.T, a, b *machine, pod netip.AddrPort) {
	end(b.All[0])
	if out, err := a.kubectl("", "-n", "kube-system", "get", "endpointslice", "kube-dns-b"); err == nil ||
		!strings.Contains(out, "NotFound") {
		t.Errorf("the slice of a DNS server that has ended: got %v %s, want an error and it to contain %q", err, out,
			"NotFound")
	}
	want := a.mustKubectl("", "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	b.lab.eventually(failoverTimeout, "a Pod of b finds the Service by name", func() (got string, ok bool) {
		err := b.inside("web-b", func() (err error) {
			got, err = resolve("10.96.0.10", "web.default.svc.cluster.local.", dns.TypeA)
			return err
		})
		return fmt.Sprint(got, err), err == nil && got == want
	})
	if got, err := b.fromNode(pod, failoverTimeout); err != nil || got != "web-b" {
		t.Errorf("the Pod of b: %q %v, want no error, web-b", got, err)
	}
}

// proxyEnds: Services work on while their proxy is away, until somebody has its rules taken away,
// as often as he likes.
func proxyEnds(t *testing.T, a, b *machine) {
	ip := netip.MustParseAddr(a.mustKubectl("", "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"))
	end(b.All[1])
	b.lab.eventually(failoverTimeout, "the Service answers without a proxy", func() (string, bool) {
		got, err := b.fromPod("web-b", netip.AddrPortFrom(ip, 80), 2*time.Second)
		return fmt.Sprint(got, err), strings.HasPrefix(got, "web-")
	})
	for range 2 {
		if out, err := b.Command("proxy", "--cleanup", "--data-dir", b.dir).CombinedOutput(); err != nil {
			t.Fatalf("gantry proxy --cleanup: %v %s, want no error", err, out)
		}
		if tables := b.sh("nft list tables"); strings.Contains(tables, "gantry_proxy_") {
			t.Fatalf("tables after gantry proxy --cleanup:\n%s", tables)
		}
	}
	if got, err := b.fromPod("web-b", netip.AddrPortFrom(ip, 80), shortTimeout); err == nil {
		t.Errorf("a Service without rules answers: %q", got)
	}
}

// everywhere: each Pod reaches each by its own address.
func everywhere(t *testing.T, all []*machine, ips map[string]netip.AddrPort) {
	t.Helper()
	for _, from := range all {
		for _, to := range all {
			from.lab.eventually(time.Minute, "web-"+from.name+" reaches web-"+to.name, func() (string, bool) {
				got, err := from.fromPod("web-"+from.name, ips[to.name], 2*time.Second)
				return fmt.Sprint(got, err), got == "web-"+to.name
			})
		}
	}
}

// services: the cluster IP from Pods and nodes, the node port of every node, and the API server's
// Service from every node's Pods.
func services(t *testing.T, all []*machine) {
	a := all[0]
	ip := netip.MustParseAddr(a.mustKubectl("", "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"))
	var port uint16
	if _, err := fmt.Sscan(a.mustKubectl("", "get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}"),
		&port); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		seen := map[string]bool{}
		m.lab.eventually(time.Minute, "a Pod of "+m.name+" reaches all endpoints by the cluster IP",
			func() (string, bool) {
				got, err := m.fromPod("web-"+m.name, netip.AddrPortFrom(ip, 80), 2*time.Second)
				if err == nil {
					seen[got] = true
				}
				return fmt.Sprint(seen, err), len(seen) == 3
			})
		for _, other := range all {
			got, err := other.fromNode(netip.AddrPortFrom(netip.MustParseAddr(m.ip), port), failoverTimeout)
			if err != nil || !strings.HasPrefix(got, "web-") {
				t.Errorf("node port of %s from %s: got %q %v, want no error and it to begin with %q", m.name,
					other.name, got, err, "web-")
			}
		}
	}
}

// names: a Pod of each node asks the cluster's DNS address, and its own node answers.
func names(t *testing.T, all []*machine) {
	a := all[0]
	for _, m := range all[1:] {
		gateway := netip.MustParsePrefix(a.mustKubectl("", "get", "node", m.name, "-o",
			"jsonpath={.spec.podCIDR}")).Addr().Next().String()
		m.lab.eventually(time.Minute, m.name+" answers names for its own Pods", func() (string, bool) {
			out, err := a.kubectl("", "-n", "kube-system", "get", "endpointslice", "kube-dns-"+m.name, "-o",
				"jsonpath={.endpoints[*].addresses[*]} {.endpoints[*].hints.forNodes[*].name}")
			return fmt.Sprint(out, err), out == gateway+" "+m.name
		})
		m.lab.eventually(failoverTimeout, "the proxy of "+m.name+" leads names there", func() (string, bool) {
			out := m.sh("nft list map ip $(nft list tables ip | awk '/gantry_proxy_/ { print $3 }') endpoints-1")
			return out, strings.Contains(out, "10.96.0.10 . udp . 53 : "+gateway+" . 53")
		})
	}
	want := a.mustKubectl("", "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	server := a.mustKubectl("", "-n", "kube-system", "get", "service", "kube-dns", "-o", "jsonpath={.spec.clusterIP}")
	for _, m := range all {
		m.lab.eventually(time.Minute, "a Pod of "+m.name+" finds the Service by name", func() (got string, ok bool) {
			err := m.inside("web-"+m.name, func() (err error) {
				got, err = resolve(server, "web.default.svc.cluster.local.", dns.TypeA)
				return err
			})
			return fmt.Sprint(got, err), err == nil && got == want
		})
	}
}

// resolve asks for a name's address from this very thread, whose network it is.
func resolve(server, name string, kind uint16) (string, error) {
	c, err := dns.DialTimeout("udp", net.JoinHostPort(server, "53"), 2*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	answer, _, err := (&dns.Client{Timeout: 2 * time.Second}).ExchangeWithConn(new(dns.Msg).SetQuestion(name, kind), c)
	if err != nil {
		return "", err
	}
	for _, r := range answer.Answer {
		switch x := r.(type) {
		case *dns.A:
			return x.A.String(), nil
		case *dns.AAAA:
			return x.AAAA.String(), nil
		case *dns.PTR:
			return x.Ptr, nil
		}
	}
	return dns.RcodeToString[answer.Rcode], nil
}

// policies: only Pods of node b may reach those of a and c, in under a second after the policy
// came.
func policies(t *testing.T, all []*machine, ips map[string]netip.AddrPort) {
	a, b, c := all[0], all[1], all[2]
	a.mustKubectl(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: from-b}
spec:
  podSelector: {matchExpressions: [{key: node, operator: In, values: [a, c]}]}
  ingress: [{from: [{podSelector: {matchLabels: {node: b}}}], ports: [{port: http}]}]
`, "apply", "-f", "-")
	began := time.Now()
	for _, m := range []*machine{a, c} {
		m.lab.eventually(time.Minute, "the rules are on "+m.name, func() (string, bool) {
			out := m.sh("nft list ruleset")
			return out, strings.Contains(out, ips[m.name].Addr().String()+" : goto ingress-")
		})
	}
	t.Logf("in force on both after %s", time.Since(began))
	for _, to := range []*machine{a, c} {
		if got, err := b.fromPod("web-b", ips[to.name], failoverTimeout); err != nil {
			t.Errorf("from b to %s, which is allowed: %q %v, want no error", to.name, got, err)
		}
	}
	for _, way := range [][2]*machine{{a, c}, {c, a}} {
		if got, err := way[0].fromPod("web-"+way[0].name, ips[way[1].name], shortTimeout); err == nil {
			t.Errorf("from %s to %s, which nothing allows: %q", way[0].name, way[1].name, got)
		}
	}
	for _, m := range []*machine{a, c} {
		if got, err := m.fromNode(ips[m.name], failoverTimeout); err != nil {
			t.Errorf("the node's own probes of %s: %q %v, want no error", m.name, got, err)
		}
	}
	a.mustKubectl("", "delete", "networkpolicy", "from-b")
	everywhere(t, all, ips)
	for _, m := range all {
		m.lab.eventually(failoverTimeout, "no table of policies on "+m.name, func() (string, bool) {
			out := m.sh("nft list tables")
			return out, !strings.Contains(out, "gantry_policy_")
		})
	}
}

// cutOff takes a node's link away and gives it back: its own Pod is reached there all the time and
// finds names, and everything from everywhere afterwards, names among it that came meanwhile.
func cutOff(t *testing.T, all []*machine, ips map[string]netip.AddrPort) {
	a, b := all[0], all[1]
	where := map[string]string{}
	find := func(name string) (got string, err error) {
		err = b.inside("web-b", func() (err error) {
			got, err = resolve("10.96.0.10", name+".default.svc.cluster.local.", dns.TypeA)
			return err
		})
		return got, err
	}
	where["web"] = a.mustKubectl("", "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	b.sh("ip link set up0 down")
	where["late"] = a.mustKubectl("", "create", "service", "clusterip", "late", "--tcp=80", "-o",
		"jsonpath={.spec.clusterIP}")
	if got, err := find("web"); err != nil || got != where["web"] {
		t.Errorf("a Pod of b asks for web while it is cut off: %q %v, want %s", got, err, where["web"])
	}
	if got, err := find("late"); err != nil || got != dns.RcodeToString[dns.RcodeNameError] {
		t.Errorf("a Pod of b asks, while it is cut off, for a Service that came since: %q %v, want no error, %v", got,
			err, dns.RcodeToString[dns.RcodeNameError])
	}
	if got, err := b.fromNode(ips["b"], failoverTimeout); err != nil {
		t.Errorf("b's own Pod while it is cut off: %q %v, want no error", got, err)
	}
	if got, err := all[0].fromPod("web-a", ips["b"], shortTimeout); err == nil {
		t.Errorf("a node without a link answers: %q", got)
	}
	b.sh("ip link set up0 up; ip route replace default via 10.171.1.254")
	everywhere(t, all, ips)
	for name, ip := range where {
		b.lab.eventually(time.Minute, "a Pod of b finds "+name+" when the link is back", func() (string, bool) {
			got, err := find(name)
			return fmt.Sprint(got, err), err == nil && got == ip
		})
	}
	a.mustKubectl("", "delete", "service", "late")
}

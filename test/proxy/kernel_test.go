package proxy

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/test/expect"
)

const vip = "10.96.0.10:80"

// row: NET-12
func TestTrafficGoesToReadyEndpoints(t *testing.T) {
	t.Parallel()
	for _, bridged := range []string{"0", "1"} {
		t.Run("bridge-nf-call-iptables="+bridged, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.sh(w.node,
				"if [ -e /proc/sys/net/bridge ]; then echo "+bridged+
					" > /proc/sys/net/bridge/bridge-nf-call-iptables; fi")
			a, b, client := w.pod(), w.pod(), w.pod()
			w.serve(a)
			w.serve(b)
			w.service(func(s *v1.Service) {
				s.Spec.Type, s.Spec.Ports[0].NodePort, s.Spec.ExternalIPs = v1.ServiceTypeNodePort, 30080,
					[]string{"198.51.100.7"}
			})
			w.endpoints(end{ip: a.ip, node: "n1"}, end{ip: b.ip, node: "n1", state: "unready"})
			defer w.run()()
			for _, proto := range []string{"tcp", "udp"} {
				w.reaches(client, proto, vip, a.ip, client.ip) // a Pod is seen as itself
				w.reaches(b, proto, vip, a.ip, b.ip)           // from an endpoint's Pod
				w.reaches(a, proto, vip, a.ip, "10.199.0.1")   // an endpoint reaches itself
				w.reaches(w.node, proto, vip, a.ip, "")        // the node
			}
			w.reaches(w.neighbour, "tcp", nodeIP+":30080", a.ip, "10.199.0.1")
			w.reaches(w.node, "tcp", nodeIP+":30080", a.ip, "")
			w.reaches(w.node, "tcp", "127.0.0.1:30080", a.ip, "10.199.0.1")
			w.reaches(client, "tcp", nodeIP+":30080", a.ip, "10.199.0.1")
			w.reaches(client, "tcp", "10.199.0.1:30080", a.ip, "10.199.0.1")
			w.reaches(w.neighbour, "tcp", "198.51.100.7:80", a.ip, "10.199.0.1")
			w.refused(client, "10.96.0.10:81") // a port that the Service has not
			w.sh(w.neighbour, "ip route add 10.96.0.0/16 via 192.0.2.1")
			if who, _, err := ask(w.neighbour, "tcp", vip); err == nil {
				t.Errorf("the cluster IP answers (%s) to who comes from elsewhere than the Pods' bridge", who)
			}
		})
	}
}

func TestEveryEndpointGetsItsShare(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	client := w.pod()
	var ends []end
	for range 10 { // more than a chain of chances
		p := w.pod()
		w.serve(p)
		ends = append(ends, end{ip: p.ip, node: "n1"})
	}
	w.service(nil)
	w.endpoints(ends[:3]...)
	defer w.run()()
	seen := map[string]int{}
	for range 60 {
		who, _, err := askPatiently(client, "tcp", vip)
		expect.NoError(t, err)
		seen[who]++
	}
	if len(seen) != 3 {
		t.Errorf("of 3 endpoints %v answered, want 3 of them", seen)
	}
	w.endpoints(ends...)
	w.eventually("all ten answer", func() bool {
		if who, _, err := ask(client, "tcp", vip); err == nil {
			seen[who]++
		}
		return len(seen) == 10
	})
}

func TestNoEndpoint(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	a, client := w.pod(), w.pod()
	w.serve(a)
	w.service(func(s *v1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = v1.ServiceTypeNodePort, 30080 })
	w.endpoints(end{ip: a.ip, node: "n1", state: "unready"})
	defer w.run()()
	w.refused(client, vip)
	w.refused(w.node, vip)
	w.refused(w.neighbour, nodeIP+":30080")
	// One that ends but serves is better than none.
	w.endpoints(end{ip: a.ip, node: "n1", state: "ending"})
	w.eventually("the ending endpoint answers", func() bool { _, _, err := ask(client, "tcp", vip); return err == nil })
}

func TestTrafficPolicyLocal(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	a, client := w.pod(), w.pod()
	w.serve(a)
	w.service(func(s *v1.Service) {
		s.Spec.Type, s.Spec.Ports[0].NodePort, s.Spec.ExternalTrafficPolicy = v1.ServiceTypeNodePort, 30080,
			v1.ServiceExternalTrafficPolicyLocal
	})
	w.endpoints(end{ip: a.ip, node: "n1"})
	stop := w.run()
	defer func() { stop() }()
	w.reaches(w.neighbour, "tcp", nodeIP+":30080", a.ip, neighbourIP) // who asks is seen
	w.reaches(client, "tcp", nodeIP+":30080", a.ip, client.ip)
	w.endpoints(end{ip: a.ip, node: "n2"}) // as if it were another node's
	w.eventually("the node port is silent",
		func() bool { _, _, err := ask(w.neighbour, "tcp", nodeIP+":30080"); return err != nil })
	w.dropped(w.neighbour, nodeIP+":30080")
	w.reaches(client, "tcp", nodeIP+":30080", a.ip, "") // the cluster's own Pods may use every endpoint
	w.reaches(w.node, "tcp", nodeIP+":30080", a.ip, "")
	w.service(func(s *v1.Service) { s.Spec.InternalTrafficPolicy = new(v1.ServiceInternalTrafficPolicyLocal) })
	w.eventually("the cluster IP is silent", func() bool { _, _, err := ask(client, "tcp", vip); return err != nil })
	w.dropped(client, vip)
}

func TestAffinity(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	a, b, client := w.pod(), w.pod(), w.pod()
	w.serve(a)
	w.serve(b)
	w.service(func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP })
	w.endpoints(end{ip: a.ip, node: "n1"}, end{ip: b.ip, node: "n1"})
	stop := w.run()
	first, _, err := askPatiently(client, "tcp", vip)
	expect.NoError(t, err)
	for range 20 {
		w.reaches(client, "tcp", vip, first, client.ip)
	}
	stop() // a restart forgets no client
	stop = w.run()
	defer func() { stop() }()
	for range 20 {
		w.reaches(client, "tcp", vip, first, client.ip)
	}
	other := map[string]string{a.ip: b.ip, b.ip: a.ip}[first]
	w.endpoints(end{ip: other, node: "n1"})
	w.eventually("the client goes to who is left",
		func() bool { who, _, err := ask(client, "tcp", vip); return err == nil && who == other })
}

func TestLoadBalancerSourceRanges(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	a := w.pod()
	w.serve(a)
	lb := func(ranges ...string) {
		w.service(func(s *v1.Service) {
			s.Spec.Type, s.Spec.LoadBalancerSourceRanges = v1.ServiceTypeLoadBalancer, ranges
			s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "198.51.100.9"}}
		})
	}
	lb(neighbourIP + "/32")
	w.endpoints(end{ip: a.ip, node: "n1"})
	defer w.run()()
	w.reaches(w.neighbour, "tcp", "198.51.100.9:80", a.ip, "")
	lb("203.0.113.0/24")
	w.eventually("others are kept out",
		func() bool { _, _, err := ask(w.neighbour, "tcp", "198.51.100.9:80"); return err != nil })
	w.dropped(w.neighbour, "198.51.100.9:80")
}

// A client that keeps its UDP socket is led to the next endpoint, not to the one that went.
func TestUDPConversationsFollow(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	a, b, client := w.pod(), w.pod(), w.pod()
	w.serve(a)
	w.serve(b)
	w.service(nil)
	w.endpoints(end{ip: a.ip, node: "n1"})
	defer w.run()()
	var c net.Conn
	expect.NoError(t, client.Do(func(ns.NetNS) (err error) { c, err = net.Dial("udp", vip); return err }))
	defer c.Close()
	expect.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	if who, _, err := answer(c, "udp"); err != nil || who != a.ip {
		t.Fatalf("%s answers (%v), want %s", who, err, a.ip)
	}
	w.endpoints(end{ip: b.ip, node: "n1"})
	w.eventually("the same socket hears the other endpoint", func() bool {
		// a datagram on its way may be lost when the conversation is forgotten
		expect.NoError(t, c.SetDeadline(time.Now().Add(200*time.Millisecond)))
		who, _, err := answer(c, "udp")
		return err == nil && who == b.ip
	})
}

// The proxy may stop and start: connections live, Services work meanwhile, and what did not change
// is not touched.
func TestRestartAdopts(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	a, b, client := w.pod(), w.pod(), w.pod()
	w.serve(a)
	w.serve(b)
	var l net.Listener
	expect.NoError(t, a.Do(func(ns.NetNS) (err error) { l, err = net.Listen("tcp4", ":9090"); return err }))
	defer l.Close()
	w.service(func(s *v1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: "long", Port: 90})
		s.Spec.Ports[0].NodePort, s.Spec.Type = 30080, v1.ServiceTypeNodePort
	})
	w.endpoints(end{ip: a.ip, node: "n1"})
	stop := w.run()
	before := handles(w)
	w.reaches(client, "tcp", vip, a.ip, client.ip)
	stop()
	w.reaches(client, "tcp", vip, a.ip, client.ip)
	stop = w.run()
	if after := handles(w); after != before {
		t.Errorf("a restart changed the table:\n%s\nwas:\n%s", after, before)
	}
	stop()
	w.endpoints(end{ip: b.ip, node: "n1"}) // while it is away
	stop = w.run()
	defer func() { stop() }()
	w.reaches(client, "tcp", vip, b.ip, client.ip)
	if w.leads(a.ip) {
		t.Errorf("rules for the endpoint that went are still there:\n%s", w.list())
	}
}

// leads reports whether any rule or element leads to the address's port 8080.
func (w *fixture) leads(ip string) bool {
	list := w.list()
	return strings.Contains(list, ip+":8080") || strings.Contains(list, ip+" . 8080")
}

// handles are the chains of Services as they are in the kernel.
func handles(w *fixture) string {
	var out []string
	for line := range strings.Lines(w.list()) {
		if strings.Contains(line, "chain service-") || strings.Contains(line, "dnat") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// row: PRB-31
func TestTrafficLeavesAnUnreadyEndpointInUnderASecond(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	a, b, client := w.pod(), w.pod(), w.pod()
	w.serve(a)
	w.serve(b)
	w.service(nil)
	w.endpoints(end{ip: a.ip, node: "n1"}, end{ip: b.ip, node: "n1"})
	defer w.run()()
	w.endpoints(end{ip: a.ip, node: "n1", state: "unready"}, end{ip: b.ip, node: "n1"})
	took := w.eventually("the rule is gone", func() bool { return !w.leads(a.ip) })
	if took > time.Second {
		t.Errorf("got %s, want a second at most", took)
	}
	for range 30 {
		w.reaches(client, "tcp", vip, b.ip, client.ip)
	}
	want := map[string]bool{"Service web: RulesChanged": true, fmt.Sprintf(" pod-%s: TrafficEnds", a.ip): true}
	for len(want) > 0 {
		select {
		case said := <-w.facts.said:
			delete(want, said)
		case <-time.After(time.Minute):
			t.Fatalf("the journal does not say %v", want)
		}
	}
}

func TestCleanTakesAllAway(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.service(nil)
	w.endpoints(end{ip: "10.199.0.9", node: "n1"})
	w.run()()
	expect.NoError(t, w.node.Do(func(ns.NetNS) error { return w.table().Kernel.Remove(t.Context()) }))
	w.sh(w.node, "! nft list table ip "+tableName+" 2>/dev/null")
}

func TestSomebodyElsesTableFlushIsRepaired(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	a, client := w.pod(), w.pod()
	w.serve(a)
	w.service(nil)
	w.endpoints(end{ip: a.ip, node: "n1"})
	defer w.run()()
	w.sh(w.node, "nft flush table ip "+tableName+"; nft delete table ip "+tableName)
	w.endpoints(end{ip: a.ip, node: "n1"}, end{ip: "10.199.0.99", node: "n1", state: "unready"})
	// The next change is refused, so everything is compared and put right.
	w.service(func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP })
	w.eventually("the Service works again",
		func() bool { who, _, err := ask(client, "tcp", vip); return err == nil && who == a.ip })
}

package nodes

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// execAndLogs: the API server reaches every node's kubelet, whose certificate the cluster's
// authority has signed.
func execAndLogs(t *testing.T, all []*machine) {
	a := all[0]
	for _, m := range all {
		m.lab.eventually(failoverTimeout, "exec in the Pod of "+m.name, func() (string, bool) {
			out, err := a.kubectl("", "exec", "web-"+m.name, "--", "hostname")
			return fmt.Sprint(out, err), strings.TrimSpace(out) == "web-"+m.name
		})
		if out, err := a.kubectl("", "logs", "web-"+m.name); err != nil {
			t.Errorf("logs of the Pod of %s: %v %s, want no error", m.name, err, out)
		}
	}
}

// near: endpoints of the own zone, then of the own node, where the Service prefers them; a node
// without any asks elsewhere.
func near(t *testing.T, all []*machine) {
	a := all[0]
	for node, zone := range map[string]string{"a": "one", "b": "one", "c": "two"} {
		a.mustKubectl("", "label", "node", node, "topology.kubernetes.io/zone="+zone)
	}
	ip := netip.MustParseAddr(a.mustKubectl("", "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"))
	for _, c := range []struct {
		prefer, without string
		want            map[string]string
	}{
		{"PreferSameZone", "", map[string]string{"a": "web-a web-b", "b": "web-a web-b", "c": "web-c"}},
		{"PreferSameNode", "", map[string]string{"a": "web-a", "b": "web-b", "c": "web-c"}},
		{"PreferSameNode", "c", map[string]string{"a": "web-a", "b": "web-b", "c": "web-a web-b"}},
	} {
		a.mustKubectl("", "patch", "service", "web", "-p", fmt.Sprintf(`{"spec":{"trafficDistribution":%q}}`, c.prefer))
		if c.without != "" {
			a.mustKubectl("", "label", "pod", "web-"+c.without, "app-")
		}
		for _, m := range all {
			// Twelve in a row, none of which went elsewhere.
			m.lab.eventually(time.Minute, c.prefer+" without "+c.without+": "+m.name+" asks "+c.want[m.name]+" alone",
				func() (string, bool) {
					seen := map[string]bool{}
					for range 12 {
						got, err := m.fromPod("web-"+m.name, netip.AddrPortFrom(ip, 80), 2*time.Second)
						if err != nil {
							return err.Error(), false
						}
						seen[got] = true
					}
					var names []string
					for n := range seen {
						names = append(names, n)
					}
					slices.Sort(names)
					return fmt.Sprint(names), strings.Join(names, " ") == c.want[m.name]
				})
		}
	}
	a.mustKubectl("", "label", "pod", "web-c", "app=web")
	a.mustKubectl("", "patch", "service", "web", "--type=json", "-p",
		`[{"op":"remove","path":"/spec/trafficDistribution"}]`)
}

// healthChecks: a load balancer asks each node's health-check port whether it has endpoints of its
// own, and counts the answers.
func healthChecks(t *testing.T, all []*machine) {
	a := all[0]
	a.mustKubectl(`
apiVersion: v1
kind: Service
metadata: {name: at-b}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  selector: {app: web, node: b}
  ports: [{port: 8088, targetPort: http}]
`, "apply", "-f", "-")
	var port uint16
	if _, err := fmt.Sscan(a.mustKubectl("", "get", "service", "at-b", "-o", "jsonpath={.spec.healthCheckNodePort}"),
		&port); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		want := `"localEndpoints":0`
		if m.name == "b" {
			want = `"localEndpoints":1`
		}
		m.lab.eventually(failoverTimeout, "the health-check port of "+m.name+" says "+want, func() (string, bool) {
			got, err := all[2].fromNode(netip.AddrPortFrom(netip.MustParseAddr(m.ip), port), 2*time.Second)
			return fmt.Sprint(got, err), strings.Contains(strings.Join(strings.Fields(got), ""), want)
		})
	}
	m := all[1]
	m.lab.eventually(failoverTimeout, "the load balancer's address is b's and leads to its Pod", func() (string, bool) {
		got, err := all[2].fromNode(netip.AddrPortFrom(netip.MustParseAddr(m.ip), 8088), 2*time.Second)
		return fmt.Sprint(got, err), got == "web-b"
	})
	a.mustKubectl("", "delete", "service", "at-b")
	m.lab.eventually(failoverTimeout, "the health-check port closes with its Service", func() (string, bool) {
		got, err := all[2].fromNode(netip.AddrPortFrom(netip.MustParseAddr(m.ip), port), 2*time.Second)
		return got, err != nil
	})
}

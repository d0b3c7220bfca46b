package network

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/networkpolicy/rules"
)

// cluster is the Pods of the cases; the node has them all.
func cluster() rules.In {
	pod := func(namespace, name, app, host string, ports ...v1.ContainerPort) rules.Pod {
		return rules.Pod{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}, Local: true,
			Ports: ports,
			IPs:   []netip.Addr{netip.MustParseAddr("10.199.0." + host), netip.MustParseAddr("fd00:199::" + host)}}
	}
	port := func(name string, n int32, p v1.Protocol) v1.ContainerPort {
		return v1.ContainerPort{Name: name, ContainerPort: n, Protocol: p}
	}
	return rules.In{
		Namespaces: map[string]map[string]string{"x": {"team": "red"}, "y": {"team": "blue"}},
		Pods: []rules.Pod{
			pod("x", "web", "web", "10", port("http", 80, v1.ProtocolTCP), port("dns", 53, v1.ProtocolUDP)),
			pod("x", "db", "db", "11", port("http", 81, "")),
			pod("y", "web", "web", "12", port("http", 82, v1.ProtocolTCP)),
		},
	}
}

// probes are the connections that each case tries: from, to, protocol and port. "world" is beyond
// the node.
var probes = []string{
	"x/web>x/db:tcp:80", "x/web>x/db:tcp:81", "x/web>x/db:udp:53", "x/db>x/web:tcp:80", "x/db>x/web:tcp:81",
	"x/db>x/web:udp:53",
	"y/web>x/web:tcp:80", "y/web>x/web:udp:53", "y/web>x/db:tcp:81", "x/web>y/web:tcp:82", "x/web>y/web:tcp:80",
	"x/db>y/web:tcp:82",
	"world>x/web:tcp:80", "x/web>world:tcp:80", "x/db>world:tcp:80", "x/web>x/web:tcp:80", "node>x/web:tcp:80",
	"node>x/db:tcp:81",
}

// aCase is policies and the probes that fail under them.
type aCase struct {
	name, policies string
	denied         string // with blanks between; everything else is allowed; a * at the end stands for any rest
}

const deny = `{metadata: {namespace: x, name: deny}, spec: {podSelector: {}, policyTypes: [Ingress]}}`

// web is a policy for x/web with these rules.
func web(spec string) string {
	return `{metadata: {namespace: x, name: web}, spec: {podSelector: {matchLabels: {app: web}}, ` + spec + `}}`
}

// intoX and intoWeb are what default deny of x, or of its web, takes away: a node's own Pods are
// its to probe, and a Pod its own.
const (
	intoWeb = "x/db>x/web:* y/web>x/web:* world>x/web:*"
	intoX   = intoWeb + " x/web>x/db:* y/web>x/db:*"
)

var cases = []aCase{
	{"no policy", ``, ""},
	{"default deny of what comes in", deny, intoX},
	{"default deny of what goes out",
		`{metadata: {namespace: x, name: d}, spec: {podSelector: {}, policyTypes: [Egress]}}`,
		"x/web>x/db:* x/web>y/web:* x/web>world:* x/db>*"},
	{"default deny of both",
		`{metadata: {namespace: x, name: d}, spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}`,
		intoX + " x/web>y/web:* x/web>world:* x/db>*"},
	{"types left out: ingress alone", `{metadata: {namespace: x, name: d}, spec: {podSelector: {}}}`, intoX},
	{"another namespace", `{metadata: {namespace: z, name: d}, spec: {podSelector: {}}}`, ""},
	{"one Pod is isolated", web(`ingress: []`), intoWeb},
	{"everything is allowed", web(`ingress: [{}]`), ""},
	{"Pods of the same namespace", web(`ingress: [{from: [{podSelector: {}}]}]`), "y/web>x/web:* world>x/web:*"},
	{"Pods by label", web(`ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]`), intoWeb},
	{"Pods by expression",
		web(`ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}}]}]`),
		"y/web>x/web:* world>x/web:*"},
	{"a namespace", web(`ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}]}]`),
		"x/db>x/web:* world>x/web:*"},
	{"every namespace", web(`ingress: [{from: [{namespaceSelector: {}}]}]`), "world>x/web:*"},
	{"Pods of a namespace",
		web(`ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {app: ` +
			`db}}}]}]`), intoWeb},
	{"a namespace, or Pods of one's own",
		web(`ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}, {podSelector: {matchLabels: {app: ` +
			`db}}}]}]`), "world>x/web:*"},
	{"a port", web(`ingress: [{ports: [{port: 80}]}]`), "x/db>x/web:tcp:81 x/db>x/web:udp:* y/web>x/web:udp:*"},
	{"a protocol", web(`ingress: [{ports: [{protocol: UDP}]}]`), "x/db>x/web:tcp:* y/web>x/web:tcp:* world>x/web:*"},
	{"a named port", web(`ingress: [{ports: [{port: http}, {port: dns, protocol: UDP}]}]`), "x/db>x/web:tcp:81"},
	{"a named port of another protocol", web(`ingress: [{ports: [{port: dns}]}]`), intoWeb},
	{"a range of ports", web(`ingress: [{ports: [{port: 70, endPort: 80}]}]`),
		"x/db>x/web:tcp:81 x/db>x/web:udp:* y/web>x/web:udp:*"},
	{"ports that overlap", web(`ingress: [{ports: [{port: 70, endPort: 81}, {port: 80}, {port: 80, endPort: 90}]}]`),
		"x/db>x/web:udp:* y/web>x/web:udp:*"},
	{"peers and ports", web(`ingress: [{from: [{podSelector: {}}], ports: [{port: 81}]}]`),
		"x/db>x/web:tcp:80 x/db>x/web:udp:* y/web>x/web:* world>x/web:*"},
	{"a block", web(`ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24}}, {ipBlock: {cidr: "2001:db8::/64"}}]}]`),
		"x/db>x/web:* y/web>x/web:*"},
	{"a block with exceptions",
		web(`ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.199.0.8/29, 192.0.2.0/25, 192.0.2.0/24]}},` +
			` {ipBlock: {cidr: "::/0", except: ["fd00:199::10/124", "2001:db8::/64"]}}]}]`),
		"x/db>x/web:* y/web>x/web:* world>x/web:*"},
	{"a block of one Pod",
		web(`ingress: [{from: [{ipBlock: {cidr: 10.199.0.11/32}}, {ipBlock: {cidr: "fd00:199::11/128"}}]}]`),
		"y/web>x/web:* world>x/web:*"},
	{"two policies add up", deny + "\n---\n" + web(`ingress: [{from: [{podSelector: {}}]}]`),
		"y/web>x/web:* world>x/web:* x/web>x/db:* y/web>x/db:*"},
	{"out to Pods by label", web(`policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: db}}}]}]`),
		"x/web>y/web:* x/web>world:*"},
	{"out to a namespace and port",
		web(`policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {team: blue}}}], ports: [{port: ` +
			`80}]}]`), "x/web>y/web:tcp:82 x/web>x/db:* x/web>world:*"},
	{"out to a port that each Pod has named",
		web(`policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}], ports: [{port: http}]}]`),
		"x/web>x/db:tcp:80 x/web>x/db:udp:* x/web>y/web:tcp:80 x/web>world:*"},
	{"out to a named port of anybody", web(`policyTypes: [Egress], egress: [{ports: [{port: http}]}]`),
		"x/web>x/db:tcp:80 x/web>x/db:udp:* x/web>y/web:tcp:80 x/web>world:*"},
	{"out to a block", web(`egress: [{to: [{ipBlock: {cidr: 192.0.2.0/24}}, {ipBlock: {cidr: "2001:db8::/64"}}]}]`),
		intoWeb + " x/web>x/db:* x/web>y/web:*"},
	{"out is allowed, in is not",
		web(`policyTypes: [Egress], egress: [{}]`) + "\n---\n" +
			`{metadata: {namespace: "y", name: d}, spec: {podSelector: {}}}`, "x/web>y/web:* x/db>y/web:*"},
	{"a port that cannot be", web(`ingress: [{ports: [{port: 0}, {port: 90, endPort: 80}, {port: 70000}]}]`), intoWeb},
	{"a block that cannot be",
		web(`ingress: [{from: [{ipBlock: {cidr: rubbish}}, {ipBlock: {cidr: 0.0.0.0/0, except: [rubbish]}},` +
			` {ipBlock: ` +
			`{cidr: 10.0.0.0/8, except: [0.0.0.0/0]}}]}]`), intoWeb},
}

// rulesInput is the cluster under the case's policies.
func (c aCase) rulesInput(t *testing.T) rules.In {
	t.Helper()
	in := cluster()
	for doc := range strings.SplitSeq(c.policies, "---") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		p := &networkingv1.NetworkPolicy{}
		if err := yaml.UnmarshalStrict([]byte(doc), p); err != nil {
			t.Fatalf("%s: got error %v, want none", c.name, err)
		}
		in.Policies = append(in.Policies, p)
	}
	return in
}

func (c aCase) allows(probe string) bool {
	return !slices.ContainsFunc(strings.Fields(c.denied), func(d string) bool {
		start, any := strings.CutSuffix(d, "*")
		return d == probe || any && strings.HasPrefix(probe, start)
	})
}

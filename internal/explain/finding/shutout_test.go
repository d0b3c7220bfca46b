package finding

import (
	"slices"
	"strings"
	"testing"
)

// Policies that shut a container out of an address which it names are told of, with what the rule
// lacks; where a rule lets it pass, or nobody knows, nothing is. Each row is what the client's
// container has, the policies, and the policy with the field to blame; empty: nothing is said.
func TestAnAddressThatPoliciesShutIsNamed(t *testing.T) {
	const rest = `
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {kubernetes.io/metadata.name: shop}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other, labels: {kubernetes.io/metadata.name: other, team: a}}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {clusterIP: 10.96.0.9, selector: ` +
		`{app: db}, ports: [{port: 80, targetPort: sql}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, labels: {app: db}}, spec: {containers: [{name: a, ` +
		`ports: [{name: sql, containerPort: 5432}]}]}, status: {podIP: 10.1.0.7}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: shop}, data: {url: "http://db/", x: "1"}}
---
`
	policy := func(name, of, spec string) string {
		return "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: " + name + ", namespace: " +
			"shop}, spec: {podSelector: {matchLabels: {app: " + of + "}}, " + spec + "}}\n---\n"
	}
	egress := func(rules string) string { return policy("p", "web", "policyTypes: [Egress], egress: ["+rules+"]") }
	const url, names = `env: [{name: URL, value: "http://db/"}]`, `{ports: [{port: 53, protocol: UDP}]}`
	const out = "p spec.egress"
	for _, c := range []struct{ client, policies, want string }{
		{url, "", ""},
		{url, egress(names), out},
		{url, egress(""), out},
		{`args: ["--db=db:80"]`, egress(names), out},
		{`args: ["--db=db.shop.svc.cluster.local:80"]`, egress(names), out},
		{`command: [sh, -c, "wget http://db.shop/"]`, egress(names), out},
		{`env: [{name: DB_HOST, value: db}, {name: DB_PORT, value: "80"}]`, egress(names), out},
		{`env: [{name: AT, value: db}, {name: URL, value: "http://$(AT)/"}]`, egress(names), out},
		{`env: [{name: URL, valueFrom: {configMapKeyRef: {name: m, key: url}}}]`, egress(names), out},
		{`envFrom: [{configMapRef: {name: m}}]`, egress(names), out},
		{`args: ["--db=http://10.96.0.9/"]`, egress(names), out},
		{`args: ["--db=10.1.0.7:5432"]`, egress(names), out},
		{`args: ["http://192.0.2.7/"]`, egress(`{to: [{ipBlock: {cidr: 198.51.100.0/24}}]}`), out},
		{`args: ["https://www.example.com/"]`, egress(`{to: [{podSelector: {}}]}`), out},
		{`args: ["http://db.other:80/"]`, egress(`{to: [{namespaceSelector: {matchLabels: {team: b}}}]}`), out},
		{url, egress(`{to: [{podSelector: {matchLabels: {app: sb}}}]}`), out},
		{url, egress(`{to: [{podSelector: {matchLabels: {app: db}}}], ports: [{port: 80}]}`), out}, // its Service's
		{url, policy("p", "db", `ingress: [{from: [{podSelector: {matchLabels: {app: front}}}]}]`), "p spec.ingress"},

		{url, egress(`{to: [{podSelector: {matchLabels: {app: db}}}]}`), ""},
		{url, egress(`{to: [{podSelector: {matchLabels: {app: db}}}], ports: [{port: 5432}]}`), ""},
		{url, egress(`{to: [{podSelector: {matchLabels: {app: db}}}], ports: [{port: sql}]}`), ""},
		{url, egress(`{ports: [{port: 5000, endPort: 6000}]}`), ""},
		{url, egress(`{}`), ""},
		{url, egress(`{to: [{namespaceSelector: {}}]}`), ""},
		{url, egress(`{to: [{ipBlock: {cidr: 10.1.0.0/16}}]}`), ""},
		{url, egress(names) + policy("q", "web", "policyTypes: [Egress], egress: [{ports: [{port: 5432}]}]"), ""},
		{url, policy("p", "front", "policyTypes: [Egress]"), ""},
		{url, policy("p", "db", `ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]`), ""},
		{`args: ["http://192.0.2.7/"]`, egress(`{to: [{ipBlock: {cidr: 192.0.2.0/24}}]}`), ""},
		{`args: ["https://www.example.com/"]`, egress(`{ports: [{port: 443}]}`), ""},
		{`args: ["http://db.other:80/"]`, egress(`{to: [{namespaceSelector: {matchLabels: {team: a}}}]}`), ""},
		{`args: ["--listen=0.0.0.0:8080", "http://localhost:8080/", "conf.yaml:12"]`, egress(names), ""},
		{`args: ["http://nobody/"]`, egress(names), ""},
		{`args: ["http://web:80/"]`, egress(names) + "{apiVersion: v1, kind: Service, metadata: {name: web, " +
			"namespace: shop}, spec: {selector: {app: web}, ports: [{port: 80}]}}", ""}, // its own
		{`args: ["kube-dns.other.svc:53"]`, egress(names), ""},
		{`args: ["--web=http://192.0.2.7/ --db=203.0.113.9:5432"]`, egress(`{to: [{ipBlock: {cidr: 0.0.0.0/0, ` +
			`except: [10.0.0.0/8]}}]}`), ""},
		{`args: ["http://192.0.2.7/"]`, egress(`{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [192.0.2.0/24]}}]}`), out},
	} {
		text := webPod + "spec: {containers: [{name: a, " + c.client + "}]}" + rest + c.policies
		cluster := clusterOf(t, strings.TrimSuffix(text, "---\n"))
		cluster.Namespace = "shop"
		got := Of(cluster, Object{"Pod", "shop", "web"})
		i := slices.IndexFunc(got, func(f Finding) bool { return f.Code == "PolicyShutsOut" })
		switch {
		case c.want == "" && i >= 0:
			t.Errorf("%s with %s: got %+v, want nothing", c.client, c.policies, got[i])
		case c.want != "" && (i < 0 || got[i].Object.Name+" "+got[i].Field != c.want || len(got[i].Remedies) == 0):
			t.Errorf("%s with %s: got %+v, want %s with a remedy", c.client, c.policies, got, c.want)
		}
	}
}

// The rule that would let a connection pass has the protocol of the Service's port.
func TestTheRuleThatOpensHasTheProtocolOfThePort(t *testing.T) {
	for protocol, want := range map[string]string{"TCP": "TCP", "UDP": "UDP", "SCTP": "SCTP", `""`: "TCP"} {
		text := webPod + `spec: {containers: [{name: a, args: ["--log=log:514"]}]}
---
{apiVersion: v1, kind: Service, metadata: {name: log, namespace: shop}, spec: {selector: {app: log}, ports: [{port: ` +
			`514, targetPort: 5140, protocol: ` + protocol + `}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: log, namespace: shop, labels: {app: log}}, spec: {containers: [{name: a}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: shop}, spec: {podSelector: ` +
			`{matchLabels: {app: web}}, policyTypes: [Egress]}}
`
		cluster := clusterOf(t, text)
		cluster.Namespace = "shop"
		found := slices.DeleteFunc(Of(cluster, Object{"Pod", "shop", "web"}), func(f Finding) bool {
			return f.Code != "PolicyShutsOut"
		})
		if len(found) != 1 || len(found[0].Remedies) != 1 {
			t.Fatalf("%s: got %+v, want one finding with a remedy", protocol, found)
		}
		run := strings.Join(found[0].Remedies[0].Run, " ")
		if !strings.Contains(run, `"port":5140,"protocol":"`+want+`"`) {
			t.Errorf("%s: got %s, want port 5140 with protocol %s", protocol, run, want)
		}
	}
}

package finding

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// wantFinding holds the findings of an object against "CODE FIELD VALUE WANT", - for an empty one,
// or "no CODE"; words stand in the message of that finding.
func wantFinding(t *testing.T, c *Cluster, of, want, words string) {
	t.Helper()
	kind, rest, _ := strings.Cut(of, " ")
	ns, name, _ := strings.Cut(rest, " ")
	got := Of(c, Object{kind, strings.Trim(ns, "-"), name})
	if code, none := strings.CutPrefix(want, "no "); none {
		if slices.ContainsFunc(got, func(f Finding) bool { return f.Code == code }) {
			t.Errorf("%s: got %+v, want %s", of, got, want)
		}
		return
	}
	var have []string
	for _, f := range got {
		parts := []string{f.Code, f.Field, f.Value, f.Want}
		for i, w := range parts {
			if parts[i] = strings.ReplaceAll(w, " ", "_"); w == "" {
				parts[i] = "-"
			}
		}
		line := strings.Join(parts, " ")
		if line == want && strings.Contains(f.Message, words) {
			return
		}
		have = append(have, line+": "+f.Message)
	}
	t.Errorf("%s: got\n  %s\nwant\n  %s (%s)", of, strings.Join(have, "\n  "), want, words)
}

// An object of the network whose parts contradict one another, or its Pods, is blamed by its field.
func TestObjectsThatContradictThemselves(t *testing.T) {
	const pods = webPod + "spec: {containers: [" + shopApp + "]}\n---\n"
	const ownNamespace = `
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {name: shop}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: other, labels: {name: other}}}`
	policy := func(spec string) string {
		return pods + "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: shop}, " +
			"spec: {podSelector: {}, " + spec + "}}"
	}
	ingress := func(spec string) string {
		return "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, namespace: shop}, spec: " +
			"{" + spec +
			"}}"
	}
	service := func(spec string) string {
		return pods + "{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {" + spec + "}}"
	}
	slice := func(labels, conditions string) string {
		return "read: Pod\n" + strings.TrimSuffix(service("ports: [{port: 80}]"), "\n") + `
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: e, namespace: shop, labels: {` +
			`kubernetes.io/service-name: s` + labels + `}}, endpoints: [{addresses: [10.0.0.1]}, {addresses: ` +
			`[10.0.0.2], conditions: {` + conditions + `}}]}`
	}
	for _, c := range []struct{ cluster, of, want, words string }{
		{policy("policyTypes: [Ingress], egress: [{}]"), "NetworkPolicy shop p",
			"RulesIgnored spec.policyTypes Ingress Egress", "rules in spec.egress (1)"},
		{policy("policyTypes: [Egress], ingress: [{}, {}], egress: [{}]"), "NetworkPolicy shop p",
			"RulesIgnored spec.policyTypes Egress Ingress", "rules in spec.ingress (2)"},
		{policy("policyTypes: [Ingress, Egress], egress: [{}]"), "NetworkPolicy shop p", "no RulesIgnored", ""},
		{policy("egress: [{}]"), "NetworkPolicy shop p", "no RulesIgnored", ""},
		{policy("ingress: [{from: [{namespaceSelector: {matchLabels: {name: shop}}, podSelector: {matchLabels: {app: "+
			"wbe}}}]}]") + ownNamespace, "NetworkPolicy shop p",
			"SelectsNothing spec.ingress[0].from[0].podSelector app=wbe app=web", "own namespace"},
		{policy("ingress: [{from: [{namespaceSelector: {matchLabels: {name: other}}, podSelector: {matchLabels: "+
			"{app: wbe}}}]}]") + ownNamespace, "NetworkPolicy shop p", "no SelectsNothing", ""},
		{policy("ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: wbe}}}]}]") + ownNamespace,
			"NetworkPolicy shop p", "no SelectsNothing", ""},

		{ingress("tls: [{hosts: [shpo.example.com]}], rules: [{host: shop.example.com}, {host: web.example.com}]"),
			"Ingress shop i", "HostWithoutRule spec.tls[0].hosts[0] shpo.example.com shop.example.com",
			"differs by one letter"},
		{ingress("tls: [{hosts: [a.example.com]}, {hosts: [a.example.com, other.org]}], rules: [{host: " +
			"a.example.com}]"),
			"Ingress shop i", "HostWithoutRule spec.tls[1].hosts[1] other.org a.example.com", "the only one"},
		{ingress("tls: [{hosts: ['*.example.com']}], rules: [{host: a.example.com}]"), "Ingress shop i",
			"no HostWithoutRule", ""},
		{ingress("tls: [{hosts: [a.example.com]}], rules: [{host: '*.example.com'}]"), "Ingress shop i",
			"no HostWithoutRule", ""},
		{ingress("tls: [{hosts: [a.example.com]}], rules: [{}]"), "Ingress shop i", "no HostWithoutRule", ""},
		{ingress("tls: [{hosts: [a.example.com]}]"), "Ingress shop i", "no HostWithoutRule", ""},

		{service("clusterIP: None, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]"), "Service shop s",
			"HeadlessPort spec.ports[0].port 80 8080", "asked of the Pods' port 80"},
		{service("clusterIP: None, selector: {app: web}, ports: [{port: 8080}, {port: 81, targetPort: http}]"),
			"Service shop s", "HeadlessPort spec.ports[1].port 81 8080", "headless"},
		{service("clusterIP: None, selector: {app: web}, ports: [{port: 8080}]"), "Service shop s", "no " +
			"HeadlessPort", ""},
		{service("clusterIP: 10.0.0.1, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]"), "Service shop s",
			"no HeadlessPort", ""},

		{slice("", "ready: false"), "EndpointSlice shop e", "EndpointNotReady endpoints[1].conditions.ready false true",
			"10.0.0.2"},
		{slice("", "ready: false"), "Service shop s", "EndpointNotReady endpoints[1].conditions.ready false true", ""},
		{slice("", "ready: true"), "EndpointSlice shop e", "no EndpointNotReady", ""},
		{slice("", "ready: false, terminating: true"), "EndpointSlice shop e", "no EndpointNotReady", ""},
		{slice(", endpointslice.kubernetes.io/managed-by: someone", "ready: false"), "EndpointSlice shop e",
			"no EndpointNotReady", ""},

		{ingress("rules: [{}]") + "\n---\n{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: " +
			"nginx}}",
			"Ingress shop i", "IngressNotServed spec.ingressClassName - nginx", "none of the classes (nginx)"},
		{ingress("rules: [{}]") + "\n---\n{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: " +
			"nginx, annotations: {ingressclass.kubernetes.io/is-default-class: 'true'}}}", "Ingress shop i",
			"IngressNotServed spec.ingressClassName - -", ""},
	} {
		wantFinding(t, clusterOf(t, c.cluster), c.of, c.want, c.words)
	}
}

// A Pod or template whose own parts contradict one another is blamed by its field.
func TestPodsThatContradictThemselves(t *testing.T) {
	containers := func(list string) string { return webPod + "spec: {" + list + "}" }
	const keys = `
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop}, data: {a: x, b: x}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, data: {a: eA==}}`
	projected := func(sources string) string {
		return containers("containers: [{name: a}], volumes: [{name: v, projected: {sources: ["+sources+"]}}]") + keys
	}
	memory := func(limit, size, mount string) string {
		return containers("containers: [{name: a, resources: {limits: {memory: " + limit + "}}, volumeMounts: " +
			"[{name: v, " +
			"mountPath: /v" + mount + "}]}], volumes: [{name: x}, {name: v, emptyDir: {medium: Memory, sizeLimit: " +
			"" + size +
			"}}]")
	}
	named := func(policy, text string) string {
		return containers("dnsPolicy: "+policy+", containers: [{name: a, args: ["+text+"]}]") + `
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: other}}`
	}
	for _, c := range []struct{ cluster, want, words string }{
		{containers("containers: [{name: a, ports: [{containerPort: 80}]}, {name: b, ports: [{containerPort: 81}, " +
			"{containerPort: 80}]}]"), "PortShared spec.containers[1].ports[1].containerPort 80 -", "Containers a " +
			"and b"},
		{containers("initContainers: [{name: side, restartPolicy: Always, ports: [{containerPort: 80}]}], " +
			"containers: [{name: a, ports: [{containerPort: 80, protocol: TCP}]}]"),
			"PortShared spec.containers[0].ports[0].containerPort 80 -", "Containers side and a"},
		{containers("initContainers: [{name: once, ports: [{containerPort: 80}]}], containers: [{name: a, ports: [" +
			"{containerPort: 80}]}]"), "no PortShared", ""},
		{containers("containers: [{name: a, ports: [{containerPort: 53}, {containerPort: 53, protocol: UDP}, {name: " +
			"x, containerPort: 53}]}, {name: b}]"), "no PortShared", ""},

		{projected("{configMap: {name: c}}, {secret: {name: s}}"),
			"FileTwice spec.volumes[0].projected.sources[1] a -", "ConfigMap c and Secret s"},
		{projected("{secret: {name: s, items: [{key: a, path: token}]}}, {configMap: {name: c}}, " +
			"{serviceAccountToken: " +
			"{path: token}}"), "FileTwice spec.volumes[0].projected.sources[2] token -", "the service account token"},
		{projected("{configMap: {name: c, items: [{key: b, path: b}]}}, {secret: {name: s}}"), "no FileTwice", ""},
		{projected("{configMap: {name: gone}}, {secret: {name: s}}"), "no FileTwice", ""},

		{memory("64Mi", "1Gi", ""), "MemoryFiles spec.volumes[1].emptyDir.sizeLimit 1Gi -", "64Mi of memory in all"},
		{memory("500M", "1G", ""), "MemoryFiles spec.volumes[1].emptyDir.sizeLimit 1G -", ""},
		{memory("1Gi", "64Mi", ""), "no MemoryFiles", ""},
		{memory("64Mi", "1Gi", ", readOnly: true"), "no MemoryFiles", ""},

		{named("Default", "'http://db:80/x'"), "NodeNames spec.dnsPolicy Default ClusterFirst", "db " +
			"(spec.containers[0]"},
		{named("Default", "--host, 'user@db.other.svc.cluster.local'"), "NodeNames spec.dnsPolicy Default ClusterFirst",
			"args[1]"},
		{named("Default", "'db:5432'"), "NodeNames spec.dnsPolicy Default ClusterFirst", ""},
		{named("Default", "db, 'http://db.example.com/'"), "no NodeNames", ""},
		{named("ClusterFirst", "'http://db/'"), "no NodeNames", ""},
	} {
		wantFinding(t, clusterOf(t, c.cluster), "Pod shop web", c.want, c.words)
	}
}

// Two containers of a Pod that is ready declare one port and do not both listen there: a note.
func TestASharedPortOfAReadyPodIsANote(t *testing.T) {
	const ports = "spec: {containers: [{name: a, ports: [{containerPort: 80}]}, {name: b, ports: [{containerPort: " +
		"80}]}]}"
	for status, want := range map[string]Severity{"": Threat,
		"\nstatus: {conditions: [{type: Ready, status: 'True'}]}":  Note,
		"\nstatus: {conditions: [{type: Ready, status: 'False'}]}": Threat} {
		all := Of(clusterOf(t, webPod+ports+status), Object{"Pod", "shop", "web"})
		i := slices.IndexFunc(all, func(f Finding) bool { return f.Code == "PortShared" })
		if i < 0 || all[i].Severity != want {
			t.Errorf("%q: got %+v, want PortShared with severity %v", status, all, want)
		}
	}
}

// Roles and bindings of a namespace about what is in none give nothing.
func TestRightsWithoutANamespace(t *testing.T) {
	role := func(rule string) string {
		return "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r, namespace: shop}, rules: " +
			"[{" +
			rule + ", verbs: [get]}]}"
	}
	bound := func(resources string) string {
		return `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: c}, rules: ` +
			`[{apiGroups: [""],` +
			` resources: [` + resources + `], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b, namespace: shop}, roleRef: {kind: ` +
			`ClusterRole, name: c}, subjects: [{kind: ServiceAccount, name: default, namespace: shop}]}`
	}
	for _, c := range []struct{ cluster, of, want, words string }{
		{role(`apiGroups: [""], resources: [pods, nodes]`), "Role shop r",
			"ResourceUnscoped rules[0].resources[1] nodes ClusterRole", "in no namespace"},
		{role(`apiGroups: [storage.k8s.io], resources: [storageclasses]`), "Role shop r",
			"ResourceUnscoped rules[0].resources[0] storageclasses ClusterRole", ""},
		{role(`apiGroups: [""], resources: [nodes/proxy]`), "Role shop r",
			"ResourceUnscoped rules[0].resources[0] nodes/proxy ClusterRole", ""},
		{role(`apiGroups: [""], resources: [pods, namespaces]`), "Role shop r", "no ResourceUnscoped", ""},
		{role(`apiGroups: ["", apps], resources: [nodes]`), "Role shop r", "no ResourceUnscoped", ""},
		{bound("nodes, persistentvolumes"), "RoleBinding shop b", "ResourceUnscoped roleRef c ClusterRoleBinding",
			"nodes and persistentvolumes"},
		{bound("nodes, pods"), "RoleBinding shop b", "ResourceUnscoped roleRef c ClusterRoleBinding", "about nodes,"},
		{bound("pods"), "RoleBinding shop b", "no ResourceUnscoped", ""},
	} {
		x := clusterOf(t, c.cluster)
		x.Unscoped = Served{"": {"nodes", "nodes/proxy", "namespaces", "persistentvolumes"},
			"storage.k8s.io": {"storageclasses"}}
		wantFinding(t, x, c.of, c.want, c.words)
	}
}

// A subject in a namespace that is not there is told once; other objects that are named there are
// told with the namespace.
func TestMissingNamespaceIsReportedOnce(t *testing.T) {
	const namespaces = `
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`
	const accounts = "read: ServiceAccount Service Role\n"
	for _, c := range []struct {
		cluster, kind, ns string
		want              int
		words             string
	}{
		{`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: x, namespace: shop}, ` +
			`subjects: ` +
			`[{kind: ServiceAccount, name: a, namespace: gone}]}`, "RoleBinding", "shop", 1, "there is no namespace " +
			"gone"},
		{`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: x}, subjects: ` +
			`[{kind: ` +
			`ServiceAccount, name: a, namespace: shpo}]}`, "ClusterRoleBinding", "", 1, "Perhaps shop was meant"},
		{`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: x, namespace: shop}, ` +
			`subjects: ` +
			`[{kind: ServiceAccount, name: a, namespace: shop}]}`, "RoleBinding", "shop", 1, "in namespace shop"},
		{`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: x}, ` +
			`webhooks: [{name: w, clientConfig: {service: {name: s, namespace: ` +
			`shpo}}}]}`, "ValidatingWebhookConfiguration",
			"", 1, "There is no namespace shpo either. There is shop"},
	} {
		var got []string
		for _, f := range Of(clusterOf(t, accounts+c.cluster+namespaces), Object{c.kind, c.ns, "x"}) {
			if f.Code == "ReferenceMissing" && f.Field != "roleRef" || f.Code == "WebhookServiceMissing" {
				got = append(got, f.Message)
			}
		}
		if len(got) != c.want || !strings.Contains(strings.Join(got, "\n"), c.words) {
			t.Errorf("%s: got %q, want %d with %q", c.kind, got, c.want, c.words)
		}
	}
}

// What a Pod waits for before its volumes are mounted is found by its node's CSINode and the
// volume's attachment.
func TestVolumesThatAreNotMounted(t *testing.T) {
	pod := func(age, status string) string {
		return strings.Replace(webPod, "11:00:00", age, 1) + "spec: {nodeName: n1, containers: [{name: a}], " +
			"volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}\nstatus: {" + status + "}" + `
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: shop}, spec: {volumeName: pv}, status: ` +
			`{phase: Bound}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv}, spec: {csi: {driver: disk.example.com}}}`
	}
	node := func(drivers string) string {
		return "\n---\n{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n1}, spec: {drivers: " +
			"[" + drivers +
			"]}}"
	}
	const plain = `
---
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: disk.example.com}, spec: {attachRequired: false}}`
	attached := func(status string) string {
		return `
---
{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: va}, spec: {attacher: disk.example.com, ` +
			`nodeName: n1, source: {persistentVolumeName: pv}}, status: {` + status + `}}`
	}
	const running = "containerStatuses: [{name: a, state: {running: {}}}]"
	const has = "{name: disk.example.com, nodeID: n1}"
	for _, c := range []struct{ cluster, want, words string }{
		{pod("11:00:00", "") + plain + node(""), "DriverNotRegistered spec.drivers disk.example.com -", "knows no " +
			"driver"},
		{pod("11:00:00", "") + plain + node("{name: disc.example.com, nodeID: n1}"),
			"DriverNotRegistered spec.drivers disk.example.com disc.example.com", "There is disc.example.com"},
		{pod("11:00:00", "") + plain + node(has), "no DriverNotRegistered", ""},
		{pod("11:00:00", running) + plain + node(""), "no DriverNotRegistered", ""},
		{pod("11:59:58", "") + plain + node(""), "no DriverNotRegistered", ""},
		{pod("11:00:00", "") + node(has) + attached("attached: false"), "NotAttached spec.attacher disk.example.com -",
			"VolumeAttachment va waits for the attacher"},
		{pod("11:00:00", "") + node(has) + attached("attached: false, attachError: {message: full}"),
			"AttachFailed status.attachError full -", "full"},
		{pod("11:00:00", "") + node(has) + attached("attached: true"), "no NotAttached", ""},
		{pod("11:00:00", "") + plain + node(has) + attached("attached: false"), "no NotAttached", ""},
	} {
		wantFinding(t, clusterOf(t, c.cluster), "Pod shop web", c.want, c.words)
	}
}

// How many volumes a node takes of a claim's driver is known by its CSINode, and by its Pods who
// uses them.
func TestAttachmentsOfANode(t *testing.T) {
	c := clusterOf(t, `{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n1}, spec: {drivers: [{name: `+
		`other}, `+
		`{name: disk.example.com, allocatable: {count: 2}}, {name: plain.example.com}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}, spec: {nodeName: n1, volumes: [{name: x, `+
		`persistentVolumeClaim: {claimName: one}}, {name: w, persistentVolumeClaim: {claimName: two}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: shop}, spec: {nodeName: n1, volumes: [{name: x, `+
		`persistentVolumeClaim: {claimName: one}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: ended, namespace: shop}, spec: {nodeName: n1, volumes: [{name: x, `+
		`persistentVolumeClaim: {claimName: new}}]}, status: {phase: Succeeded}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: one, namespace: shop}, spec: {volumeName: v1}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: two, namespace: shop}, spec: {volumeName: v2}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: new, namespace: shop}, spec: {storageClassName: fast}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: plain, namespace: shop}, spec: {volumeName: v3}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: disk.example.com}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: v1}, spec: {csi: {driver: disk.example.com}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: v2}, spec: {csi: {driver: disk.example.com}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: v3}, spec: {csi: {driver: plain.example.com}}}`)
	for _, claim := range []string{"one", "new"} {
		got, ok := c.AttachmentsOn("n1", "shop", claim)
		if !ok || got.Count != 2 || got.Index != 1 || got.Used != 2 || len(got.Pods) != 2 {
			t.Errorf("%s: got %+v, %v", claim, got, ok)
		}
	}
	for _, x := range [][2]string{{"n1", "plain"}, {"n1", "gone"}, {"n2", "one"}} {
		if got, ok := c.AttachmentsOn(x[0], "shop", x[1]); ok {
			t.Errorf("%v: got %+v, want nothing", x, got)
		}
	}
}

// A webhook that fails closed and is asked about the Pods that serve it is found.
func TestWebhooksThatAskAboutThemselves(t *testing.T) {
	hook := func(kind, more, rule string) string {
		return `{apiVersion: admissionregistration.k8s.io/v1, kind: ` + kind + `, metadata: {name: h}, webhooks: ` +
			`[{name: ` +
			`h.example.com, clientConfig: {service: {name: s, namespace: shop}}, ` + more + `rules: [{` + rule + `}]}]}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {name: shop}}}
---
{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {selector: {app: web}, ports: [{port: ` +
			`443}]}}
---
` + webPod + "spec: {containers: []}"
	}
	const validating, mutating = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"
	const pods = `apiGroups: [""], resources: [pods], operations: [CREATE]`
	for _, c := range []struct{ kind, more, rule, want string }{
		{validating, "", pods, "WebhookOfItself webhooks[0].objectSelector <none> -"},
		{mutating, "", `apiGroups: ["*"], resources: ["*"], operations: ["*"]`,
			"WebhookOfItself webhooks[0].objectSelector <none> -"},
		{validating, "namespaceSelector: {matchLabels: {name: shop}}, objectSelector: {matchLabels: {app: web}}, " +
			"", pods,
			"WebhookOfItself webhooks[0].objectSelector app=web -"},
		{validating, "failurePolicy: Ignore, ", pods, "no WebhookOfItself"},
		{validating, "namespaceSelector: {matchLabels: {name: other}}, ", pods, "no WebhookOfItself"},
		{validating, "objectSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}, ", pods,
			"no WebhookOfItself"},
		{validating, "", `apiGroups: [""], resources: [pods], operations: [DELETE]`, "no WebhookOfItself"},
		{validating, "", `apiGroups: [apps], resources: [deployments], operations: [CREATE]`, "no WebhookOfItself"},
	} {
		wantFinding(t, clusterOf(t, hook(c.kind, c.more, c.rule)), c.kind+" - h", c.want, "")
	}
}

// Names that two definitions of a group want, and finalizers of a namespace's spec, are blamed by
// their fields.
func TestNamesAndFinalizersThatAreTaken(t *testing.T) {
	definition := func(name, group, names, status string) string {
		return `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: ` + name +
			`}, spec: {group: ` + group + `, names: {` + names + `}}, status: {` + status + `}}`
	}
	const refused = "conditions: [{type: NamesAccepted, status: 'False', reason: ShortNamesConflict, message: taken}]"
	mine := func(names string) string { return definition("mine", "example.com", names, refused) + "\n---\n" }
	ending := func(finalizers string) string {
		return `{apiVersion: v1, kind: Namespace, metadata: {name: old, deletionTimestamp: "2026-05-01T11:00:00Z"}, ` +
			`spec: ` +
			`{finalizers: [` + finalizers + `]}}`
	}
	const crd = "CustomResourceDefinition - mine"
	for _, c := range []struct{ cluster, of, want, words string }{
		{mine("plural: as, shortNames: [x, w]") + definition("theirs", "example.com", "plural: bs, shortNames: "+
			"[w]", ""), crd,
			"NameTaken spec.names.shortNames[1] w -", "theirs of the same group has it (spec.names.shortNames[0])"},
		{mine("plural: as, kind: A") + definition("theirs", "example.com", "plural: bs, kind: A", ""), crd,
			"NameTaken spec.names.kind A -", ""},
		{mine("plural: as, singular: w") + definition("theirs", "example.com", "plural: w", ""), crd,
			"NameTaken spec.names.singular w -", "spec.names.plural"},
		{mine("plural: as, kind: A") + definition("theirs", "other.com", "plural: as, kind: A", ""), crd, "no " +
			"NameTaken", ""},
		{mine("plural: as") + definition("theirs", "other.com", "plural: as", ""), crd,
			"ConditionWrong status.conditions NamesAccepted=False NamesAccepted=True", "taken"},
		{ending("kubernetes, example.com/hold"), "Namespace - old", "FinalizerHolds spec.finalizers example.com/hold -",
			"in spec.finalizers"},
		{ending("example.com/a, example.com/b"), "Namespace - old", "FinalizerHolds spec.finalizers example.com/b " +
			"-", ""},
		{ending("kubernetes"), "Namespace - old", "no FinalizerHolds", ""},
	} {
		wantFinding(t, clusterOf(t, c.cluster), c.of, c.want, c.words)
	}
}

// What Pod Security says of a Pod's own fields, or of a container's, is told with what stands
// there.
func TestPodSecurityTellsWhatStandsThere(t *testing.T) {
	refusal := func(words string) string {
		return `{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, type: Warning, reason: ` +
			`FailedCreate, ` +
			`lastTimestamp: "2026-05-01T11:59:50Z", involvedObject: {kind: Deployment, namespace: shop, name: d}, ` +
			`message: ` +
			`'pods is forbidden: violates PodSecurity "baseline:latest": ` + words + `'}
---
` + shopDeployment + `{template: {spec: {hostNetwork: true, hostPID: true, containers: [{name: a}]}}}}`
	}
	for _, c := range [][2]string{
		{"host namespaces (hostNetwork=true)", "PodSecurityViolated spec.template.spec.hostNetwork true false"},
		{"host namespaces (hostNetwork=true, hostPID=true)", "PodSecurityViolated spec.template.spec.hostPID true " +
			"false"},
		{`privileged (container "a" must not set securityContext.privileged=true)`,
			"PodSecurityViolated spec.template.spec.containers[0].securityContext.privileged true false"},
	} {
		wantFinding(t, clusterOf(t, refusal(c[0])), "Deployment shop d", c[1], "")
	}
}

// A workload of several Pods over a claim for one is found, whatever its kind.
func TestClaimsForOnePod(t *testing.T) {
	workload := func(kind, replicas, mode string) string {
		return `{apiVersion: apps/v1, kind: ` + kind + `, metadata: {name: w, namespace: shop}, spec: {` + replicas +
			`template: {spec: {containers: [], volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: shop}, spec: {accessModes: ` +
			`[` + mode + `]}}`
	}
	for _, c := range [][4]string{
		{"Deployment", "replicas: 3, ", "ReadWriteOncePod", "ClaimForOne spec.replicas 3 1"},
		{"StatefulSet", "replicas: 2, ", "ReadWriteOncePod", "ClaimForOne spec.replicas 2 1"},
		{"Deployment", "", "ReadWriteOncePod", "no ClaimForOne"},
		{"Deployment", "replicas: 3, ", "ReadWriteOnce", "no ClaimForOne"},
	} {
		wantFinding(t, clusterOf(t, workload(c[0], c[1], c[2])), c[0]+" shop w", c[3], "")
	}
}

// What a request lacks of what the signers of kubelets demand is told by its content.
func TestRequestsThatAreNotSigned(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const client, serving = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"
	for _, c := range []struct {
		signer, name, group string
		hosts               []string
		want                string
	}{
		{client, "somebody", "system:nodes", nil, `RequestUnfit spec.request "somebody" system:node:NODE`},
		{client, "system:node:n1", "nodes", nil, "RequestUnfit spec.request nodes system:nodes"},
		{client, "system:node:n1", "system:nodes", []string{"n1"}, "RequestUnfit spec.request 1 none"},
		{client, "system:node:n1", "system:nodes", nil, "no RequestUnfit"},
		{serving, "system:node:n1", "system:nodes", nil, "RequestUnfit spec.request none at_least_one"},
		{serving, "system:node:n1", "system:nodes", []string{"n1"}, "no RequestUnfit"},
		{"kubernetes.io/kube-apiserver-client", "somebody", "x", nil, "no RequestUnfit"},
	} {
		raw, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: c.hosts,
			Subject: pkix.Name{CommonName: c.name, Organization: []string{c.group}}}, key)
		if err != nil {
			t.Fatal(err)
		}
		usage := certificatesv1.UsageClientAuth
		if c.signer == serving {
			usage = certificatesv1.UsageServerAuth
		}
		r := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: c.signer, Usages: []certificatesv1.KeyUsage{usage},
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw})}}
		r.Name = "r"
		x := &Cluster{Now: now}
		x.Add("CertificateSigningRequest", r)
		wantFinding(t, x, "CertificateSigningRequest - r", c.want, "")
	}
}

// A volume that would serve a claim, and is kept for a claim that is gone, is blamed beside the
// claim.
func TestVolumesKeptForClaimsThatAreGone(t *testing.T) {
	cluster := func(size, phase, policy string) string {
		return `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: shop}, spec: ` +
			`{storageClassName: ` +
			`"", accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {capacity: {storage: ` + size + `}, accessModes: ` +
			`[ReadWriteOnce], persistentVolumeReclaimPolicy: ` + policy + `, claimRef: {namespace: shop, name: gone, ` +
			`uid: u}}, status: {phase: ` + phase + `}}`
	}
	for _, c := range [][4]string{
		{"9Gi", "Released", "Retain", "VolumeReleased spec.claimRef shop/gone -"},
		{"1Gi", "Released", "Retain", "no VolumeReleased"},
		{"9Gi", "Bound", "Retain", "no VolumeReleased"},
		{"9Gi", "Released", "Delete", "no VolumeReleased"},
	} {
		wantFinding(t, clusterOf(t, cluster(c[0], c[1], c[2])), "PersistentVolumeClaim shop c", c[3], "")
	}
}

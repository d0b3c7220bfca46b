package finding

import (
	"slices"
	"strings"
	"testing"
)

// Each row is a cluster, an object, and what one of its findings blames: code, object, severity,
// and words of its message or remedies.
func TestFindingsAtTheEndOfAChain(t *testing.T) {
	const lock = `
---
{apiVersion: r.io/v1, kind: Lock, metadata: {name: l1, namespace: shop,
 deletionTimestamp: "2026-05-01T11:00:00Z", ` +
		`finalizers: [r.io/wait]}}`
	const definition = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: ` +
		`{name: locks.r.io, deletionTimestamp: "2026-05-01T11:00:00Z", finalizers: ` +
		`[customresourcecleanup.apiextensions.k8s.io]}, ` +
		`spec: {names: {kind: Lock, plural: locks}}, status: {conditions: [{type: Terminating, status: "True"}]}}`
	const claim = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop, ` +
		`deletionTimestamp: "2026-05-01T11:00:00Z", finalizers: [kubernetes.io/pvc-protection]}}
---
`
	const user = `{apiVersion: v1, kind: Pod, metadata: {name: user, namespace: shop, finalizers: ` +
		`[example.com/hold], ` +
		`deletionTimestamp: "2026-05-01T11:00:00Z"}, spec: {nodeName: n1, volumes: [{name: d, persistentVolumeClaim: ` +
		`{claimName: data}}]}, status: {phase: Succeeded}}`
	denied := func(kind, more string) string {
		return `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, namespace: shop, uid: s}, spec: ` +
			`{template: ` +
			`{spec: {containers: [{name: a}]}}}}
---
{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, type: Warning,
 reason: FailedCreate, message: "` +
			kind + ` 'p' with binding 'b' denied request: failed to configure binding: no params found for policy ` +
			`binding ` +
			`with Deny", lastTimestamp: "2026-05-01T11:59:30Z", involvedObject: {kind: StatefulSet, name: s,
 namespace: shop}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p},
 spec: {paramKind: ` +
			`{apiVersion: v1, kind: ConfigMap}, validations: [{expression: "size(object.spec.containers) < 9"}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: b}, spec: ` +
			`{policyName: p, paramRef: {name: limits, namespace: shop, parameterNotFoundAction: Deny}}}` + more
	}
	for _, c := range []struct{ name, cluster, of, code, object, words string }{
		{"a definition's object", definition + lock, "CustomResourceDefinition  locks.r.io", "FinalizerHolds",
			"lock/l1 -n shop", `patch lock l1 --type=merge -p '{"metadata":{"finalizers":null}}'`},
		{"a definition", definition + lock, "CustomResourceDefinition  locks.r.io", "FinalizerHolds",
			"customresourcedefinition/locks.r.io", "there is Lock l1 in namespace shop"},
		{"a claim's Pod that has ended", claim + user, "PersistentVolumeClaim shop data", "FinalizerHolds",
			"pod/user -n shop", "patch pod user"},
		{"a claim whose Pod is held", claim + user, "PersistentVolumeClaim shop data", "ClaimInUse",
			"persistentvolumeclaim/data -n shop", "Pod user is being deleted and is held by example.com/hold."},
		{"parameters of a policy", "read: ConfigMap\n" + denied("ValidatingAdmissionPolicy", ""), "StatefulSet shop s",
			"ReferenceMissing", "validatingadmissionpolicybinding/b", "create the ConfigMap limits in namespace shop"},
	} {
		cl := clusterOf(t, c.cluster)
		parts := strings.Split(c.of, " ")
		all := Of(cl, Object{parts[0], parts[1], parts[2]})
		if !slices.ContainsFunc(all, func(f Finding) bool {
			text := f.Message
			for _, r := range f.Remedies {
				text += "\n" + r.Say + "\n" + strings.Join(r.Run, "\n")
			}
			return f.Code == c.code && f.Object.String() == c.object && f.Severity == Broken &&
				strings.Contains(text, c.words)
		}) {
			t.Errorf("%s: got %+v, want %s of %s with %q", c.name, all, c.code, c.object, c.words)
		}
		for _, f := range all {
			for _, r := range f.Remedies {
				if text := strings.Join(r.Run, "\n"); strings.Contains(text, "patch customresourcedefinition") ||
					strings.Contains(text, "delete pod user") {
					t.Errorf("%s: got remedy %q, want none that strips a definition's own finalizer or deletes "+
						"again", c.name,
						text)
				}
			}
		}
	}
}

// A class that only volumes made by hand have needs no StorageClass: the volumes are compared.
func TestClassOfVolumesMadeByHand(t *testing.T) {
	const claim = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: big, namespace: shop}, spec: ` +
		`{storageClassName: man, accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}, ` +
		`status: {phase: Pending}}
---
`
	volume := func(annotations string) string {
		return `{apiVersion: v1, kind: PersistentVolume, metadata: {name: v1` + annotations + `}, spec: ` +
			`{storageClassName: ` +
			`man, accessModes: [ReadWriteOnce], capacity: {storage: 2Gi}}, status: {phase: Available}}`
	}
	for _, c := range []struct{ name, cluster, code, words string }{
		{"made by hand", "read: StorageClass\n" + claim + volume(""), "NoVolumeFits", "Volume v1 holds 2Gi, 5Gi " +
			"are asked"},
		{"provisioned", "read: StorageClass\n" + claim + volume(`, annotations: {pv.kubernetes.io/provisioned-by: d}`),
			"ReferenceMissing", "names StorageClass man"},
	} {
		all := Of(clusterOf(t, c.cluster), Object{"PersistentVolumeClaim", "shop", "big"})
		if len(all) != 1 || all[0].Code != c.code || !strings.Contains(all[0].Message, c.words) {
			t.Errorf("%s: got %+v, want %s with %q", c.name, all, c.code, c.words)
		}
	}
}

// Each row is a name as somebody in namespace shop asks for it, and what is said of it: words, and
// whether it is broken, a threat or a note; "outside" for a name that is none of the cluster's.
func TestHost(t *testing.T) {
	c := clusterOf(t, `read: Pod StatefulSet EndpointSlice
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: store}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: 10.0.0.1,
 selector: {app: web}}}
---
{apiVersion: v1, kind: Service, metadata: {name: peer, namespace: shop}, spec: {clusterIP: None,
 selector: {app: peer}}}
---
{apiVersion: v1, kind: Service, metadata: {name: ledger, namespace: store}, spec: {clusterIP: 10.0.0.2}}
---
{apiVersion: v1, kind: Service, metadata: {name: ext, namespace: shop}, spec: {type: ExternalName,
 externalName: a.example}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p0, namespace: shop, labels: {app: peer}},
 spec: {hostname: p0, subdomain: peer}, status: {podIP: 10.1.0.1, conditions: [{type: Ready, status: "True"}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p1, namespace: shop, labels: {app: peer}},
 spec: {hostname: p1, subdomain: peer}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: w, namespace: shop,
 labels: {kubernetes.io/service-name: web}}, endpoints: [{addresses: [10.1.0.2]}]}`)
	for _, x := range []struct{ host, want, severity string }{
		{"web.shop", "has the address 10.0.0.1 of Service web in namespace shop; behind that 1 endpoints are ready",
			"note"},
		{"web.shop.svc.cluster.local.", "has the address 10.0.0.1", "note"},
		{"ledger.store", "behind that no endpoint is ready", "threat"},
		{"wev.shop.svc", "There is web: perhaps that was meant", "broken"},
		{"peer.shop", "is headless, and none of its endpoints is ready", "broken"},
		{"p0.peer", "p0.peer has the address 10.1.0.1 of Pod p0", "note"},
		{"p1.peer.shop", "Pod p1 is not ready", "broken"},
		{"p2.peer.shop", "no Pod of namespace shop has hostname p2", "broken"},
		{"p0.peers.shop", "There is peer: perhaps that was meant", "broken"},
		{"p0.web", "only a headless Service has names of its Pods", "broken"},
		{"ext.shop", "another name for a.example", "note"},
		{"web", "", "outside"},
		{"nobody", "", "outside"},
		{"www.example.com", "", "outside"},
	} {
		f, ok := Host(c, x.host, "shop")
		got := severities[f.Severity]
		if !ok {
			got = "outside"
		}
		if got != x.severity || !strings.Contains(f.Message, x.want) {
			t.Errorf("%s: got %s %q, want %s %q", x.host, got, f.Message, x.severity, x.want)
		}
	}
}

// What a quota counts is said where it does not count everything.
func TestScopeOf(t *testing.T) {
	for scope, want := range map[string]string{
		"hard: {pods: 1}":      "",
		"scopes: [BestEffort]": " It counts only Pods of scope BestEffort.",
		"scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}": " It " +
			"counts only Pods of scope PriorityClass In high.",
	} {
		c := clusterOf(t, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: shop}, spec: `+
			`{`+scope+`}}`)
		if got := c.ScopeOf("shop", "q"); got != want {
			t.Errorf("%s: got %q, want %q", scope, got, want)
		}
	}
	if got := (*Cluster)(nil).ScopeOf("shop", "q"); got != "" {
		t.Errorf("nothing was read: got %q, want nothing", got)
	}
}

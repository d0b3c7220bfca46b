package finding

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// clusterOf reads manifests with --- between; kinds without a type stay unstructured. Events are
// warnings. "read: KIND KIND" as the first line names kinds of which there are none.
func clusterOf(t *testing.T, text string) *Cluster {
	t.Helper()
	c := &Cluster{Now: now}
	if first, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(first, "read: ") {
		for _, kind := range strings.Fields(strings.TrimPrefix(first, "read: ")) {
			c.Add(kind)
		}
		text = rest
	}
	for part := range strings.SplitSeq(text, "\n---\n") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		raw, err := yaml.YAMLToJSON([]byte(part))
		if err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		o, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			u := &unstructured.Unstructured{}
			if u.UnmarshalJSON(raw) != nil {
				t.Fatalf("%v in\n%s", err, part)
			}
			c.Add(u.GetKind(), u)
			continue
		}
		if e, ok := o.(*corev1.Event); ok {
			c.Events = append(c.Events, *e)
			continue
		}
		c.Add(gvk.Kind, o.(metav1.Object))
	}
	return c
}

const webPod = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}, creationTimestamp: "2026-05-01T11:00:00Z"}
`

// Each row is a cluster, an object, and what is found of it: code, field, value, wanted value, and
// words of the message; no code: nothing is found.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, cluster, of               string
		code, field, value, want, words string
	}{
		{"another namespace", webPod + `spec: {containers: [{name: a, envFrom: [{secretRef: {name: s}}]}]}
---
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: other}}`, "Pod shop web", "ReferenceMissing",
			"spec.containers[0].envFrom[0].secretRef", "s", "", "A Secret of that name is in namespace other"},
		{"another kind", webPod + `spec: {containers: [{name: a, envFrom: [{secretRef: {name: s}}]}]}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: s, namespace: shop}}
---
{apiVersion: v1, kind: Secret, metadata: {name: t, namespace: shop}}`, "Pod shop web", "ReferenceMissing",
			"secretRef", "s", "", "There is a ConfigMap of that name"},
		{"not read", webPod + `spec: {containers: [{name: a, envFrom: [{secretRef: {name: s}}]}]}`, "Pod shop web", "",
			"", "",
			"", ""},
		{"optional", "read: Secret\n" + webPod +
			`spec: {containers: [{name: a, envFrom: [{secretRef: {name: s, optional: true}}]}]}`, "Pod shop web", "",
			"", "", "", ""},
		{"letters exchanged",
			"read: ConfigMap\n" + webPod + `spec: {containers: [{name: a}], volumes: [{name: v, configMap: ` +
				`{name: settigns}}]}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}}`, "Pod shop web", "ReferenceMissing",
			"spec.volumes[0].configMap.name", "settigns", "settings", "it differs by one letter"},
		{"schedule that never comes",
			`{apiVersion: batch/v1, kind: CronJob, metadata: {name: c, namespace: shop}, spec: ` +
				`{schedule: "0 0 30 2 *", jobTemplate: {spec: {template: {spec: {}}}}}}`, "CronJob shop c",
			"ScheduleNever",
			"spec.schedule", "0 0 30 2 *", "", "never starts"},
		{"schedule on the 29th of February",
			`{apiVersion: batch/v1, kind: CronJob, metadata: {name: c, namespace: shop}, spec: ` +
				`{schedule: "0 0 29 2 *", jobTemplate: {spec: {template: {spec: {}}}}}}`, "CronJob shop c",
			"ScheduleFar",
			"spec.schedule", "0 0 29 2 *", "", "29 February 2028"},
		{"node whose kubelet reports",
			`{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {conditions: [{type: Ready, ` +
				`status: "False", reason: KubeletNotReady, message: no network}]}}`, "Node - n1", "NodeNotReady",
			"status.conditions",
			"KubeletNotReady", "", "its kubelet runs and reports: no network"},
		{"silent node",
			`{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {conditions: [{type: Ready, status: ` +
				`Unknown, reason: NodeStatusUnknown, lastHeartbeatTime: "2026-05-01T11:58:00Z"}]}}`, "Node - n1",
			"NodeSilent",
			"status.conditions", "", "", "last reported 2m0s ago"},
		{"scheduler that stands still", webPod + `spec: {containers: [{name: a}]}
---
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: kube-scheduler, namespace: kube-system}, spec: ` +
			`{holderIdentity: x, leaseDurationSeconds: 15, renewTime: "2026-05-01T11:55:00.000000Z"}}`, "Pod shop web",
			"ComponentDown", "spec.renewTime", "", "", "renewed last 5m0s ago"},
		{"scheduler at work", webPod + `spec: {containers: [{name: a}]}
---
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: kube-scheduler, namespace: kube-system}, spec: ` +
			`{holderIdentity: x, leaseDurationSeconds: 15, renewTime: "2026-05-01T11:59:58.000000Z"}}`, "Pod shop web",
			"", "",
			"", "", ""},
		{"lease that was released", webPod + `spec: {containers: [{name: a}]}
---
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: kube-controller-manager,
  namespace: kube-system}, spec: ` +
			`{holderIdentity: "", renewTime: "2026-05-01T11:59:58.000000Z"}}`, "Pod shop web", "ComponentDown", "",
			"", "",
			"was released"},
		{"controllers behind",
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: shop, generation: 4}, ` +
				`spec: {template: {}}, status: {observedGeneration: 3}}`, "Deployment shop d", "ControllersIdle",
			"status.observedGeneration", "3", "4", "generation 4 is written"},
		{"quota used up",
			`{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: shop}, spec: {hard: {pods: "2"}}, ` +
				`status: {hard: {pods: "2"}, used: {pods: "2"}}}`, "ResourceQuota shop q", "QuotaUsedUp",
			"spec.hard.pods", "2", "",
			"2 of 2 pods"},
		{"quota with room",
			`{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: shop}, spec: {hard: {pods: "2"}}, ` +
				`status: {hard: {pods: "2"}, used: {pods: "1"}}}`, "ResourceQuota shop q", "", "", "", "", ""},
		{"percentage of a budget",
			`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b, namespace: shop}, ` +
				`spec: {minAvailable: 60%, selector: {}}, status: {expectedPods: 2, desiredHealthy: 2,` +
				` currentHealthy: 2}}`,
			"PodDisruptionBudget shop b", "BudgetNeverAllows", "spec.minAvailable", "60%", "", "60% of 2, which is 2"},
		{"budget used up", `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b, namespace: shop}, ` +
			`spec: {minAvailable: 2, selector: {}}, status: {expectedPods: 3, desiredHealthy: 2, currentHealthy: 2}}`,
			"PodDisruptionBudget shop b", "BudgetUsedUp", "status.currentHealthy", "2", "", "2 of 3 must be"},
		{"no signer",
			`{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: r}, spec: ` +
				`{signerName: example.com/own, request: eA==}, status: {conditions: [{type: Approved, status: ` +
				`"True"}]}}`,
			"CertificateSigningRequest - r", "SignerUnknown", "spec.signerName", "example.com/own", "",
			"serves signer"},
		{"names taken",
			`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, status: ` +
				`{conditions: [{type: NamesAccepted, status: "False", reason: PluralConflict, message: taken}]}}`,
			"CustomResourceDefinition - x", "ConditionWrong", "status.conditions", "NamesAccepted=False",
			"NamesAccepted=True",
			"PluralConflict"},
		{"namespace that waits for a finalizer",
			`{apiVersion: v1, kind: Namespace, metadata: {name: shop, deletionTimestamp: ` +
				`"2026-05-01T11:50:00Z"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: shop,
  finalizers: [example.com/keep], deletionTimestamp: ` +
				`"2026-05-01T11:50:00Z"}}`, "Namespace - shop", "NamespaceTerminating", "", "", "",
			"ConfigMap m is held by example.com/keep"},
		{"warning of another component", webPod + `spec: {containers: [{name: a}]}
---
{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, type: Warning,
  reason: FailedAttachVolume, message: busy, ` +
			`involvedObject: {kind: Pod, name: web, namespace: shop}, lastTimestamp: "2026-05-01T11:59:00Z", source: ` +
			`{component: attacher}}`, "Pod shop web", "Warning", "", "FailedAttachVolume", "", "attacher warned"},
		{"warning of long ago", webPod + `spec: {containers: [{name: a}]}
---
{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, type: Warning,
  reason: FailedAttachVolume, message: busy, ` +
			`involvedObject: {kind: Pod, name: web, namespace: shop}, lastTimestamp: "2026-05-01T11:00:00Z"}`,
			"Pod shop web",
			"", "", "", "", ""},
		{"released volume",
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: shop}, spec: ` +
				`{storageClassName: "", accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}},
  status: {phase: Pending}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {accessModes: [ReadWriteOnce],
  capacity: {storage: 1Gi}, ` +
				`claimRef: {name: old, namespace: shop}}, status: {phase: Released}}`, "PersistentVolumeClaim shop c",
			"NoVolumeFits", "spec", "", "", "released, taken by claim shop/old"},
		{"device of another vendor", webPod + `spec: {containers: [{name: a, resources: {requests: {amd.com/gpu: 1}}}]}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {nvidia.com/gpu: 4}}}`, "Pod shop web",
			"NoNodeCanHold", "amd.com/gpu", "1", "nvidia.com/gpu", "no node offers"},
		{"reserved memory", webPod + `spec: {containers: [{name: a, resources: {requests: {memory: 15Gi}}}]}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {capacity: {memory: 16Gi}, allocatable: {memory: 14Gi}}}`,
			"Pod shop web", "NoNodeCanHold", "memory", "15Gi", "14Gi", "capacity 16Gi, 2Gi reserved"},
	} {
		parts := strings.Fields(c.of)
		self := Object{parts[0], strings.TrimPrefix(parts[1], "-"), parts[2]}
		got := Of(clusterOf(t, c.cluster), self)
		if c.code == "" {
			if len(got) > 0 {
				t.Errorf("%s: got %+v, want nothing", c.name, got)
			}
			continue
		}
		i := slices.IndexFunc(got, func(f Finding) bool { return f.Code == c.code })
		if i < 0 {
			t.Errorf("%s: got %+v, want %s", c.name, got, c.code)
			continue
		}
		f := got[i]
		if !strings.Contains(f.Field, c.field) || c.value != "" && f.Value != c.value ||
			c.want != "" && f.Want != c.want ||
			!strings.Contains(f.Message, c.words) {
			t.Errorf("%s: got %+v, want field %q value %q want %q words %q", c.name, f, c.field, c.value, c.want,
				c.words)
		}
	}
}

func TestNear(t *testing.T) {
	for _, c := range []struct{ want, have, name, differs string }{
		{"Database", "database password", "database", "it differs in letter case"},
		{"log_level", "log-level", "log-level", "it differs in separators"},
		{"bulder", "builder default", "builder", "it differs by one letter"},
		{"setting", "settings", "settings", "it differs by one letter"},
		{"web", "web-config other", "web-config", "one begins with the other"},
		{"web", "mail default", "", ""},
		{"settings", "settings", "", ""},
		{"orders.example.com", "billing.example.com reports.example.com", "", ""},
		{"app.kubernetes.io/name", "app.kubernetes.io/part", "", ""},
		{"oders.example.com", "billing.example.com orders.example.com", "orders.example.com",
			"it differs by one letter"},
		{"app.kubernets.io/name", "app.kubernetes.io/name", "app.kubernetes.io/name", "it differs by one letter"},
		{"example.com/disk", "example.com/dsk", "example.com/dsk", "it differs by one letter"},
	} {
		if name, differs := Near(c.want, strings.Fields(c.have)); name != c.name || differs != c.differs {
			t.Errorf("%s among %s: got %q (%s), want %q (%s)", c.want, c.have, name, differs, c.name, c.differs)
		}
	}
}

// One cause that a Pod, its ReplicaSet and its Deployment share is told once, of the Deployment.
func TestACauseOfAWorkloadIsGivenOnce(t *testing.T) {
	spec := `spec: {containers: [{name: a, envFrom: [{configMapRef: {name: gone}}]}]}`
	c := clusterOf(t, `read: ConfigMap
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: shop, uid: d}, spec: {template: {`+spec+`}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r, namespace: shop, uid: r,
  ownerReferences: [{kind: Deployment, `+
		`name: d, uid: d, controller: true}]}, spec: {template: {`+spec+`}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, uid: p,
  ownerReferences: [{kind: ReplicaSet, name: r, `+
		`uid: r, controller: true}]}, `+spec+`}`)
	for _, got := range [][]Finding{Of(c, Object{"Deployment", "shop", "d"}), All(c, "shop")} {
		if len(got) != 1 || got[0].Object.Kind != "Deployment" || got[0].Value != "gone" {
			t.Errorf("got %+v, want one finding of the Deployment", got)
		}
	}
}

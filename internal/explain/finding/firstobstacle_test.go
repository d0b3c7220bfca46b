package finding

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// What is compared with numbers that nobody wrote down, or with what others hold, is told with a
// command: the default of a LimitRange, the neighbours of a Pod that grows, old Pods that keep the
// new one out, a key that is missing.
//
// row: RST-10
func TestWhatOthersSetIsCompared(t *testing.T) {
	limits := func(resources string) string {
		return `{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: shop}, spec: {limits: [{type: ` +
			`Container, default: {cpu: 500m}, maxLimitRequestRatio: {cpu: 4}}]}}
---
` + shopDeployment + `{template: {spec: {containers: [{name: a` + resources + `}]}}}}`
	}
	const node = `
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "2", memory: 4Gi}}}
`
	grown := func(want, other string) string {
		return webPod + `spec: {nodeName: n1, containers: [{name: a, resources: {requests: {cpu: ` + want + `}}}]}
status: {phase: Running, conditions: [{type: PodResizePending, status: "True", reason: Deferred, message: no room}],
 containerStatuses: [{name: a, allocatedResources: {cpu: 100m}}]}` + node + `---
{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: shop}, spec: {nodeName: ` + other + `, containers: ` +
			`[{name: a, resources: {requests: {cpu: 600m}}}]}, status: {phase: Running}}`
	}
	rollout := func(strategy, old, more string) string {
		return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: shop, uid: d}, spec: ` +
			`{replicas: 1,
 strategy: {rollingUpdate: ` + strategy + `}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: d-1, namespace: shop, uid: d-1, annotations: {` +
			`deployment.kubernetes.io/revision: "1"}, ownerReferences: [{kind: Deployment, name: d, uid: d, ` +
			`controller: true}]}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: d-2, namespace: shop, uid: d-2, annotations: {` +
			`deployment.kubernetes.io/revision: "2"}, ownerReferences: [{kind: Deployment, name: d, uid: d, ` +
			`controller: true}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: d-1-a, namespace: shop, labels: {app: ` + old + `}` + more + `, ` +
			`ownerReferences: [{kind: ReplicaSet, name: d-1, uid: d-1, controller: true}]}, spec: {nodeName: n1, ` +
			`containers: [{name: a}]}, status: {phase: Running}}
---
{apiVersion: v1, kind: Pod, metadata: {name: d-2-a, namespace: shop, labels: {app: web}, creationTimestamp: ` +
			`"2026-05-01T11:59:58Z", ownerReferences: [{kind: ReplicaSet, name: d-2, uid: d-2, controller: true}]}, ` +
			`spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: ` +
			`host, ` +
			`labelSelector: {matchLabels: {app: web}}}]}}, containers: [{name: a}]}, status: {phase: Pending, ` +
			`conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}}` + node
	}
	keyed := func(key string) string {
		return webPod + `spec: {containers: [{name: a}], volumes: [{name: v, secret: {secretName: s, items: ` +
			`[{key: ` + key +
			`, path: p}]}}]}
---
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, data: {cert.pem: eA==}}`
	}
	const request = "OutOfLimitRange spec.template.spec.containers[0].resources.requests.cpu 100m"
	const waits = "HeldByStrategy spec.strategy.rollingUpdate.maxUnavailable 0"
	const size = "ResizePending spec.containers[0].resources.requests.cpu "
	const one = "{maxSurge: 1, maxUnavailable: 0}"
	expectRemedies(t, []remedyRow{
		{"a default limit beyond the ratio", limits(`, resources: {requests: {cpu: 100m}}`), "Deployment shop d",
			request,
			`"requests":{"cpu":"125m"}`},
		{"a default limit within it", limits(`, resources: {requests: {cpu: 125m}}`), "Deployment shop d",
			"no OutOfLimitRange", ""},
		{"a limit of its own", limits(`, resources: {requests: {cpu: 100m}, limits: {cpu: 400m}}`), "Deployment shop d",
			"no OutOfLimitRange", ""},
		{"a limit that is the request too", limits(`, resources: {limits: {cpu: 400m}}`), "Deployment shop d",
			"no OutOfLimitRange", ""},
		{"nothing stated", limits(""), "Deployment shop d", "no OutOfLimitRange", ""},
		{"grows beside a neighbour", grown("1500m", "n1"), "Pod shop web", size + "1500m",
			`patch pod web --subresource=resize --type=strategic -p '{"spec":{"containers":[{"name":"a",` +
				`"resources":{"requests":{"cpu":"1400m"}}}]}}'`},
		{"grows, and the other is elsewhere", grown("1500m", "n2"), "Pod shop web", size + "1500m", ""},
		{"grows within what is left", grown("1300m", "n1"), "Pod shop web", size + "1300m", ""},
		{"an old Pod keeps the new one out", rollout(one, "web", ""), "Deployment shop d", waits,
			`"maxUnavailable":1`},
		{"the old Pod ends already", rollout(one, "web", `, deletionTimestamp: "2026-05-01T11:59:59Z"`),
			"Deployment shop d", "no HeldByStrategy", ""},
		{"an old Pod that nobody minds", rollout(one, "db", ""), "Deployment shop d", "no HeldByStrategy", ""},
		{"one may be away", rollout("{maxSurge: 1, maxUnavailable: 1}", "web", ""), "Deployment shop d",
			"no HeldByStrategy", ""},
		{"a key that is missing", keyed("tls.crt"), "Pod shop web", "KeyMissing " +
			"spec.volumes[0].secret.items[0].key tls.crt",
			`patch secret s --type=merge -p '{"stringData":{"tls.crt":"CHANGE-ME"}}'`},
		{"a key that is there", keyed("cert.pem"), "Pod shop web", "no KeyMissing", ""},
	})
}

// Programs of probes ask for hosts too: one that no name server knows is told with its field.
//
// row: RST-10
func TestProbesAskForHosts(t *testing.T) {
	probe := func(host string) string {
		return `read: Service
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {ports: [{port: 80}], selector: {app: db}}}
---
` + webPod + `spec: {containers: [{name: a, command: [sleep, "9"], readinessProbe: {exec: {command: [wget, "-q", ` +
			`"http://` + host + `/ok"]}}}]}`
	}
	of := func(host string) []string {
		var out []string
		for _, f := range Of(clusterOf(t, probe(host)), Object{"Pod", "shop", "web"}) {
			if f.Field == "spec.containers[0].readinessProbe.exec.command[2]" {
				out = append(out, f.Code)
			}
		}
		return out
	}
	if got := of("db.shp.svc.cluster.local"); len(got) == 0 {
		t.Errorf("a namespace that is not there: got nothing of the probe's command, want a finding")
	}
	for _, host := range []string{"db", "db.shop", "db.shop.svc.cluster.local", "localhost", "127.0.0.1"} {
		if got := of(host); len(got) > 0 {
			t.Errorf("%s: got %q, want nothing", host, got)
		}
	}
}

// By how much a volume is too small is told in a unit that people read.
func TestShortBy(t *testing.T) {
	for want, x := range map[string][2]string{"703Mi": {"10Gi", "10G"}, "1Gi": {"2Gi", "1Gi"}, "47Ki": {"1Mi", "1M"},
		"3": {"1003", "1k"}} {
		if got := shortBy(resource.MustParse(x[0]), resource.MustParse(x[1])); got != want {
			t.Errorf("%s of %s: got %s, want %s", x[1], x[0], got, want)
		}
	}
}

// Nobody means itself: a StatefulSet whose Service is not there is not proposed as that.
func TestNobodyMeansItself(t *testing.T) {
	const set = `read: Service
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web, namespace: shop}, spec: {serviceName: web}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {}}`
	for _, f := range Of(clusterOf(t, set), Object{"StatefulSet", "shop", "web"}) {
		if f.Code == "ReferenceMissing" && (strings.Contains(f.Message, "There is a StatefulSet of that name") ||
			!strings.Contains(f.Message, "There is a Deployment of that name")) {
			t.Errorf("got %q, want the Deployment alone", f.Message)
		}
	}
}

// A volume that is kept for an earlier claim of the same name is not said to be the asking claim's.
func TestAVolumeOfAnEarlierClaim(t *testing.T) {
	volume := func(uid string) string {
		return `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop, uid: now}, ` +
			`spec: ` +
			`{accessModes: [ReadWriteOnce], storageClassName: m, resources: {requests: {storage: 1Gi}}}, status: ` +
			`{phase: Pending}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: v1}, spec: {storageClassName: m, accessModes: ` +
			`[ReadWriteOnce], capacity: {storage: 1Gi}, persistentVolumeReclaimPolicy: Retain, claimRef: ` +
			`{namespace: shop, ` +
			`name: data, uid: ` + uid + `}}, status: {phase: Released}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: m}, provisioner: kubernetes.io/no-provisioner}`
	}
	for uid, want := range map[string]bool{"before": true, "now": false} {
		text := ""
		for _, f := range Of(clusterOf(t, volume(uid)), Object{"PersistentVolumeClaim", "shop", "data"}) {
			text += f.Message + "\n"
		}
		if got := strings.Contains(text, "of an earlier claim shop/data, which had another uid"); got != want ||
			strings.Contains(text, "taken by claim shop/data") {
			t.Errorf("uid %s: got %s, want an earlier claim: %v", uid, text, want)
		}
	}
}

package finding

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const heldNode = `{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {unschedulable: true}}`
const sharedClaims = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: share, namespace: shop}, ` +
	`spec: {volumeName: v}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {csi: {driver: d.test, volumeHandle: h}}}
---
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: d.test}, spec: {seLinuxMount: true}}
---
{apiVersion: v1, kind: Pod, metadata: {name: first, namespace: shop}, spec: {nodeName: n1, securityContext: {` +
	`seLinuxOptions: {level: "s0:c1"}}, volumes: [{name: s, persistentVolumeClaim: {claimName: share}}], ` +
	`containers: [{name: a}]}, status: {phase: Running}}
---
`
const secondPod = `{apiVersion: v1, kind: Pod, metadata: {name: second, namespace: shop}, spec: {nodeName: n1, ` +
	`securityContext: {seLinuxOptions: {level: "LEVEL"}}, volumes: [{name: s, persistentVolumeClaim: {` +
	`claimName: share}}], containers: [{name: a}]}, status: {phase: Pending}}`

// resizing is a Pod whose memory limit is to become another, with its condition of the resize.
func resizing(has, want, reason, words string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: cache, namespace: shop}, spec: {nodeName: n1, `+
		`containers: [{name: a, resources: {limits: {memory: %s}}}]}, status: {phase: Running, conditions: [{`+
		`type: PodResizeInProgress, status: "True", reason: %q, message: %q}], containerStatuses: [{name: a, `+
		`resources: {limits: {memory: %s}}}]}}`, want, reason, words, has)
}

// heldRows are rows of TestRulesOfHeldAndTakenThings.
var heldRows = []struct{ name, objects, of, want, run string }{
	{"a finalizer holds a drain", heldNode + `
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, finalizers: [a.test/save], ` +
		`deletionTimestamp: "2026-05-01T11:58:00Z"}, spec: {nodeName: n1, containers: [{name: a}]}}`, "Node//n1",
		"DrainHeld metadata.finalizers[0] a.test/save", "patch pod db"},
	{"a budget holds a drain", heldNode + `
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, labels: {a: b}}, spec: {nodeName: n1, ` +
		`containers: [{name: a}]}, status: {phase: Running}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: keep, namespace: shop}, spec: {` +
		`maxUnavailable: 0, selector: {matchLabels: {a: b}}}, status: {expectedPods: 1, desiredHealthy: 1, ` +
		`currentHealthy: 1, disruptionsAllowed: 0}}`, "Node//n1", "DrainHeld spec.maxUnavailable 0",
		"patch poddisruptionbudget keep"},
	{"a DaemonSet's Pod stays", heldNode + `
---
{apiVersion: v1, kind: Pod, metadata: {name: log, namespace: shop, finalizers: [a.test/save], ` +
		`deletionTimestamp: "2026-05-01T11:58:00Z", ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, ` +
		`name: log, uid: u1, controller: true}]}, spec: {nodeName: n1, containers: [{name: a}]}}`, "Node//n1",
		"no DrainHeld", ""},
	{"a Job takes a Pod", `{apiVersion: batch/v1, kind: Job, metadata: {name: sum, namespace: shop, uid: j1}, ` +
		`spec: {manualSelector: true, selector: {matchLabels: {k: v}}, template: {metadata: {labels: {k: v}}, ` +
		`spec: {containers: [{name: a}]}}}, status: {active: 1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: sum-by-hand, namespace: shop, labels: {k: v}, ownerReferences: [{` +
		`apiVersion: batch/v1, kind: Job, name: sum, uid: j1, controller: true}]}, ` +
		`spec: {containers: [{name: a}]}}`,
		"Job/shop/sum", "PodAdopted spec.manualSelector true", `"manualSelector":null`},
	{"a Job's own Pod", `{apiVersion: batch/v1, kind: Job, metadata: {name: sum, namespace: shop, uid: j1}, ` +
		`spec: {manualSelector: true, selector: {matchLabels: {k: v}}, template: {metadata: {labels: {k: v}}, ` +
		`spec: {containers: [{name: a}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: sum-x1, generateName: sum-, namespace: shop, labels: {k: v}, ` +
		`ownerReferences: [{apiVersion: batch/v1, kind: Job, name: sum, uid: j1, controller: true}]}, spec: {` +
		`containers: [{name: a}]}}`, "Job/shop/sum", "no PodAdopted", ""},
	{"two labels on one volume", sharedClaims + strings.ReplaceAll(secondPod, "LEVEL", "s0:c2"), "Pod/shop/second",
		"SELinuxConflict spec.securityContext.seLinuxOptions s0:c2", `"level":"s0:c1"`},
	{"one label", sharedClaims + strings.ReplaceAll(secondPod, "LEVEL", "s0:c1"), "Pod/shop/second", "no " +
		"SELinuxConflict", ""},
	{"mount options of a hostPath", `{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {` +
		`mountOptions: [ro], hostPath: {path: /x}}}`, "PersistentVolume//v", "MountOptionRefused " +
		"spec.mountOptions ro",
		`"remove","path":"/spec/mountOptions"`},
	{"a resize below what is used", resizing("64Mi", "32Mi", "Error", "attempting to set pod memory limit "+
		"(33554432) below current usage (50331648)"), "Pod/shop/cache",
		"ResizeFailed spec.containers[0].resources.limits.memory 32Mi", `"memory":"64Mi"`},
	{"a resize that goes on", resizing("64Mi", "32Mi", "", ""), "Pod/shop/cache", "no ResizeFailed", ""},
	{"a Pod that keeps a namespace", `{apiVersion: v1, kind: Namespace, metadata: {name: shop, ` +
		`deletionTimestamp: "2026-05-01T11:59:00Z"}, spec: {finalizers: [kubernetes]}, status: {phase: Terminating}}
---
{apiVersion: v1, kind: Pod, metadata: {name: slow, namespace: shop, deletionGracePeriodSeconds: 300, ` +
		`deletionTimestamp: "2026-05-01T12:04:00Z"}, spec: {nodeName: n1, containers: [{name: a}]}}`,
		"Namespace//shop", "NamespaceTerminating spec.finalizers ", ""},
	{"mount options of NFS", `{apiVersion: v1, kind: PersistentVolume, metadata: {name: v}, spec: {` +
		`mountOptions: [ro], nfs: {server: s, path: /x}}}`, "PersistentVolume//v", "no MountOptionRefused", ""},
}

// Each row is a cluster, an object, and a finding of it: code, field, value and words of its first
// commands; a code with "no" before it is not given.
func TestRulesOfHeldAndTakenThings(t *testing.T) {
	for _, c := range heldRows {
		cluster := clusterOf(t, c.objects)
		part := strings.Split(c.of, "/")
		list := Of(cluster, Object{part[0], part[1], part[2]})
		if code, none := strings.CutPrefix(c.want, "no "); none {
			if slices.ContainsFunc(list, func(f Finding) bool { return f.Code == code }) {
				t.Errorf("%s: got %s, want none", c.name, code)
			}
			continue
		}
		i := slices.IndexFunc(list, func(f Finding) bool { return f.Code+" "+f.Field+" "+f.Value == c.want })
		if i < 0 {
			t.Errorf("%s: got %+v, want %s", c.name, list, c.want)
			continue
		}
		run := ""
		for _, r := range list[i].Remedies {
			run += strings.Join(r.Run, "\n")
		}
		if !strings.Contains(run, c.run) {
			t.Errorf("%s: got the commands %s, want %s", c.name, run, c.run)
		}
	}
}

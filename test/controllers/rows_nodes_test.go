package controllers_test

import (
	"fmt"
	"time"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

func decidesOften(c *controllerruntime.ControllerContext) {
	h := controllerruntime.DefaultHorizontalPodAutoscaling()
	h.SyncPeriod = 50 * time.Millisecond
	c.HorizontalPodAutoscaling = &h
}

const node = "kind: Node\nmetadata: {name: NS-n}\n"

// held is a Pod of the instance's node that is kept for a look when it is deleted.
const held = `kind: Pod
metadata: {name: held, finalizers: [example.com/looked-at]}
spec: {nodeName: NS-n, containers: [{name: c, image: web}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
`

// endsWithReason is a held Pod with this reason of its disruption.
func endsWithReason(reason string) func(*instance) error {
	return allOf(fieldIs("Pod/held", "status.conditions[DisruptionTarget].reason", reason), func(w *instance) error {
		if w.get("Pod/held").GetDeletionTimestamp() == nil {
			return fmt.Errorf("the Pod is not deleted")
		}
		return nil
	})
}

var rowsOfNodes = []row{
	{name: "ttl", steps: []step{
		{makes(node), func(w *instance) error {
			const key = "node.alpha.kubernetes.io/ttl"
			if got := w.get("Node/NS-n").GetAnnotations()[key]; got != "0" {
				return fmt.Errorf("annotation %s is %q, want 0", key, got)
			}
			return nil
		}}}},
	{name: "nodelifecycle", set: func(c *controllerruntime.ControllerContext) {
		c.NodeMonitorGracePeriod = 300 * time.Millisecond
	}, steps: []step{
		{func(w *instance) {
			// one zone each: a zone's nodes are tainted one after the other
			w.make("kind: Node\nmetadata: {name: NS-n, labels: {topology.kubernetes.io/zone: NS}}\n" +
				"status: {conditions: [{type: Ready, status: \"True\"}]}\n---\n" + held)
		}, allOf(fieldIs("Node/NS-n", "status.conditions[Ready].status", "Unknown"),
			fieldIs("Node/NS-n", "spec.taints[0].key", "node.kubernetes.io/unreachable"),
			fieldIs("Node/NS-n", "spec.taints[1].key", "node.kubernetes.io/unreachable"),
			fieldIs("Pod/held", "status.conditions[Ready].status", "False"))}}},
	{name: "nodecidr", set: func(c *controllerruntime.ControllerContext) {
		c.NodeRanges = controllerruntime.NodeRanges{Cluster: "10.200.0.0/16"}
	}, steps: []step{{makes(node), ownRange}}},
	{name: "taintevict", steps: []step{
		{func(w *instance) {
			w.make(node + "---\n" + held)
			w.patch("Node/NS-n", `{"spec":{"taints":[{"key":"leave","effect":"NoExecute"}]}}`)
		}, endsWithReason("DeletionByTaintManager")}}},
	{name: "podgc", set: func(c *controllerruntime.ControllerContext) { c.NodeQuarantine = time.Millisecond },
		steps: []step{
			{func(w *instance) {
				w.make(node + "---\n" + held)
				w.delete("Node/NS-n")
			}, allOf(endsWithReason("DeletionByPodGC"), fieldIs("Pod/held", "status.phase", "Failed"))}}},
	{name: "devicetaint", steps: []step{
		{func(w *instance) {
			w.make(node + `---
kind: ResourceSlice
metadata: {name: NS-gpus}
spec:
  driver: NS.example.com
  nodeName: NS-n
  pool: {name: NS-n, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}]
---
kind: ResourceClaim
metadata: {name: gpu}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
kind: Pod
metadata: {name: held, finalizers: [example.com/looked-at]}
spec:
  nodeName: NS-n
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
  containers: [{name: c, image: web, resources: {claims: [{name: gpu}]}}]
`)
			w.status("ResourceClaim/gpu", map[string]any{
				"allocation": map[string]any{"devices": map[string]any{"results": []any{map[string]any{
					"request": "gpu", "driver": w.token + ".example.com", "pool": w.token + "-n", "device": "gpu-0"}}}},
				"reservedFor": []any{map[string]any{"resource": "pods", "name": "held",
					"uid": string(w.get("Pod/held").GetUID())}}})
			w.make("kind: DeviceTaintRule\nmetadata: {name: NS-broken}\nspec:\n" +
				"  deviceSelector: {driver: NS.example.com}\n  taint: {key: broken, effect: NoExecute}\n")
			// the rule's condition is written every ten seconds at most: its text may be any
		}, allOf(endsWithReason("DeletionByDeviceTaintManager"), fieldIs("DeviceTaintRule/NS-broken",
			"status.conditions[0].type", "EvictionInProgress"))}}},
}

// ownRange: the node has a range that no other has.
func ownRange(w *instance) error {
	mine := ""
	seen := map[string]string{}
	for _, n := range w.list("Node", "") {
		r := field(&n, "spec.podCIDR")
		if other := seen[r]; r != "" && other != "" {
			return fmt.Errorf("nodes %s and %s have the range %s", other, n.GetName(), r)
		}
		seen[r] = n.GetName()
		if n.GetName() == w.token+"-n" {
			mine = r
		}
	}
	if mine == "" {
		return fmt.Errorf("the node has no range")
	}
	return nil
}

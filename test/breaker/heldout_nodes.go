package breaker

import (
	"time"

	"github.com/gantry-project/gantry/testcluster"
)

// heldOutNodes are nodes and parts that are stopped, slow or full, each in a cluster of its own.
var heldOutNodes = []situation{
	{name: "controllers stand still", ask: "deployment/$C", nodes: []string{"node-1"},
		before:   []step{do(func(c *testcluster.Cluster) { c.KillControllers() })},
		manifest: workload("$C", plainApp),
		truth: []truth{{kinds: "Lease Deployment",
			field: "observedGeneration|renewTime|holderIdentity|spec|status", want: "controller"}}},
	{name: "controllers stand still, and a Job waits", ask: "job/$C", nodes: []string{"node-1"},
		before:   []step{do(func(c *testcluster.Cluster) { c.KillControllers() })},
		manifest: jobOf("$C", "", "exit-0"),
		truth: []truth{{kinds: "Lease Job",
			field: "observedGeneration|renewTime|holderIdentity|spec|status", want: "controller"}}},
	{name: "node's kubelet is dead, and its Pod is deleted", ask: "pod/$C", nodes: []string{"node-1", "node-2"},
		options: []testcluster.Option{testcluster.WithNodeMonitorGracePeriod(12 * time.Second)}, unseen: true,
		manifest: single("$C", `{terminationGracePeriodSeconds: 1, nodeSelector: {kubernetes.io/hostname: `+
			`node-2}, containers: [`+app+`]}`),
		steps: []step{reached("pod/$C"), do(func(c *testcluster.Cluster) { c.KillNode("node-2") }),
			change("pod/$C delete"),
			pause(20 * time.Second)},
		truth: []truth{{kinds: "Node Lease", field: "Ready|conditions|renewTime", numbers: []string{"node-2"},
			want: "kubelet|node-2"}}},
	{name: "node's runtime is dead", ask: "pod/$C", nodes: []string{"node-1"},
		before:   []step{do(func(c *testcluster.Cluster) { c.KillRuntime("node-1") }), pause(5 * time.Second)},
		manifest: single("$C", `{tolerations: [{operator: Exists}], containers: [`+app+`]}`),
		truth: []truth{{kinds: "Node", field: "Ready|conditions", numbers: []string{"node-1"},
			want: "runtime|containerd"}}},
	{name: "runtime does not stop a container", ask: "pod/$C", nodes: []string{"node-1"}, unseen: true,
		manifest: single("$C", `{terminationGracePeriodSeconds: 1, containers: [`+app+`]}`),
		steps: []step{reached("pod/$C"), do(func(c *testcluster.Cluster) {
			c.Fault("node-1", "StopContainer",
				"hang")
		}),
			change("pod/$C delete"), pause(10 * time.Second)},
		truth: []truth{{kinds: "Pod Node", field: "containers[0]|containerRuntime|deletion|status|nodeName",
			numbers: []string{"StopContainer|node-1"},
			want:    "runtime|containerd|force"}}},
	{name: "disk of the node is full", ask: "pod/$C", nodes: []string{"node-1"},
		before: []step{do(func(c *testcluster.Cluster) {
			c.Fault("node-1", "CreateContainer",
				"error(failed to create containerd container: failed to prepare extraction snapshot: "+
					"mkdir /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/new-1: "+
					"no space left on device)")
		})},
		manifest: single("$C", plainApp),
		truth: []truth{{kinds: "Node Pod",
			field: "DiskPressure|conditions|containers[0]|ephemeral-storage|nodeName", numbers: []string{"node-1"},
			want: "prune|rmi|disk|space"}}},
	{name: "a taint that ends Pods after a time", ask: "pod/$C", nodes: []string{"node-1", "node-2"},
		manifest: single("$C", `{tolerations: [{key: repair, operator: Exists, effect: NoExecute, `+
			`tolerationSeconds: $N}], nodeSelector: `+
			`{kubernetes.io/hostname: node-2}, containers: [`+app+`]}`),
		steps: []step{reached("pod/$C"), change(`<<node/node-2 ` +
			`{"spec":{"taints":[{"key":"repair","effect":"NoExecute"}]}}||>>`),
			pause(14 * time.Second)},
		truth: []truth{{kinds: "Pod Node", field: "tolerationSeconds|tolerations|taints",
			numbers: []string{"$N"}, want: "tolerat|taint|repair-"}}},
	{name: "a Pod of higher priority needs the room", ask: "pod/$C", nodes: []string{"node-1"},
		manifest: object("scheduling.k8s.io/v1", "PriorityClass", "$NS", "value: 1000") + single("$C",
			`{terminationGracePeriodSeconds: 1, containers: [{name: app, image: app, resources: {requests: `+
				`{cpu: "6"}}}]}`),
		steps: []step{reached("pod/$C"), create(single("$A", `{priorityClassName: $NS, containers: [{name: app, `+
			`image: app, `+
			`resources: {requests: {cpu: "<<$N||1>>"}}}]}`)), pause(6 * time.Second)},
		truth: []truth{{kinds: "Pod PriorityClass", field: "priority", numbers: []string{"$A", "1000"},
			want: "priority"}}},
	{name: "a class that may not preempt", ask: "pod/$C", nodes: []string{"node-1"},
		manifest: object("scheduling.k8s.io/v1", "PriorityClass", "$NS",
			"value: 1000, preemptionPolicy: <<Never||PreemptLowerPriority>>") +
			single("$A", `{terminationGracePeriodSeconds: 1, containers: [{name: app, image: app, resources: `+
				`{requests: {cpu: "6"}}}]}`),
		steps: []step{reached("pod/$A"), create(single("$C", `{priorityClassName: $NS, containers: [{name: app, `+
			`image: app, `+
			`resources: {requests: {cpu: "5"}}}]}`))},
		truth: []truth{{kinds: "PriorityClass Pod", field: "preemptionPolicy", value: "Never",
			numbers: []string{"$A"},
			want:    "PreemptLowerPriority|preemptionPolicy|delete pod"}}},
	{name: "Pod bound by hand to a node that is not there", ask: "pod/$C", nodes: []string{"node-1"},
		manifest: single("$C", `{nodeName: node-<<$N||1>>, containers: [`+app+`]}`),
		truth:    []truth{{kinds: "Pod", field: "nodeName", value: "node-$N", want: "node-1"}}},
	{name: "more Pods than the node may hold", ask: "pod/$C", nodes: []string{"node-1"},
		manifest: deploy("$A", "replicas: <<110||5>>, ", plainApp),
		steps:    []step{pause(25 * time.Second), create(single("$C", plainApp))},
		truth:    []truth{{kinds: "Pod Node", field: "pods", numbers: []string{"110"}, want: "delete|scale|node"}}},
}

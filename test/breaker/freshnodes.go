package breaker

import (
	"time"

	"github.com/gantry-project/gantry/testcluster"
)

// onSecondNode is a Pod's spec that goes to node-2.
const onSecondNode = `{terminationGracePeriodSeconds: 1, nodeSelector: {kubernetes.io/hostname: node-2}, containers: ` +
	`[` + app + `]}`

var (
	twoNodes  = []string{"node-1", "node-2"}
	shortLife = []testcluster.Option{testcluster.WithNodeMonitorGracePeriod(12 * time.Second)}
)

// killSecond stops node-2's kubelet with all that runs there.
var killSecond = do(func(c *testcluster.Cluster) { c.KillNode("node-2") })

// silent are the truths of a node whose kubelet has stopped.
var silent = []truth{{kinds: "Node Lease", field: "Ready|conditions|renewTime", numbers: []string{"node-2"},
	want: "kubelet|node-2"}}

// freshNodes are nodes' lives, each in a cluster of its own, written from Kubernetes' documentation
// of nodes, leases and taints on 2026-11-29, before the rules of why were read.
var freshNodes = []situation{
	{name: "fresh: node: kubelet stopped, asked of the node", ask: "node/node-2", nodes: twoNodes, options: shortLife,
		steps: []step{killSecond, pause(16 * time.Second)}, truth: silent},
	{name: "fresh: node: kubelet stopped, asked of a Deployment", ask: "deployment/$C", nodes: twoNodes,
		options: shortLife, manifest: workload("$C", onSecondNode),
		steps: []step{reached("deployment/$C"), killSecond, pause(16 * time.Second)}, truth: silent},
	{name: "fresh: node: kubelet stopped, asked of the Service", ask: "service/$C", nodes: twoNodes,
		options: shortLife, manifest: workload("$C", onSecondNode) + serviceOf("$C", "$C", "8080"),
		steps: []step{reached("deployment/$C"), killSecond, pause(16 * time.Second)}, truth: silent},
	{name: "fresh: node: kubelet stopped, and a StatefulSet's Pod is deleted", ask: "statefulset/$C", nodes: twoNodes,
		options: shortLife, manifest: stateful("$C", `""`, "", onSecondNode),
		steps: []step{reached("statefulset/$C"), killSecond, pause(14 * time.Second), change("pod/$C-1 delete"),
			pause(5 * time.Second)}, truth: []truth{{kinds: "Node Lease", field: "Ready|conditions|renewTime",
			numbers: []string{"node-2"}, want: "out-of-service|--force"}}},
	{name: "fresh: node: kubelet stopped, asked of a DaemonSet", ask: "daemonset/$C", nodes: twoNodes,
		options: shortLife, manifest: object("apps/v1", "DaemonSet", "$C", `spec: {selector: {matchLabels: `+
			`{app: $C}}, `+
			`template: {metadata: {labels: {app: $C}}, spec: `+plainApp+`}}`),
		steps: []step{reached("daemonset/$C"), killSecond, pause(16 * time.Second)}, truth: silent},
	{name: "fresh: node: deleted, and a Deployment selects it", ask: "deployment/$C", nodes: twoNodes,
		manifest: workload("$C", onSecondNode),
		steps: []step{reached("deployment/$C"), killSecond, change("node/node-2 delete"), pause(12 * time.Second),
			change(`deployment/$C {"spec":{"replicas":3}}`), pause(3 * time.Second)},
		truth: []truth{{kinds: podOrOwner, field: "nodeSelector", value: "node-2"}}},
	{name: "fresh: node: taint of a repair ends all Pods", ask: "deployment/$C", nodes: []string{"node-1"},
		manifest: workload("$C", plainApp), steps: []step{reached("deployment/$C"),
			change(`node/node-1 {"spec":{"taints":[{"key":"example.com/$A","value":"$B","effect":"NoExecute"}]}}`),
			pause(3 * time.Second)},
		truth: []truth{{kinds: podOrOwner + " Node", field: "tolerations|taints",
			numbers: []string{"example.com/$A=$B:NoExecute"}}}},
	{name: "fresh: node: tolerates a taint for a moment only", ask: "pod/$C", nodes: twoNodes,
		manifest: single("$C", `{restartPolicy: Always, terminationGracePeriodSeconds: 3$N0, tolerations: [{key: `+
			`example.com/$A, operator: Exists, effect: NoExecute, tolerationSeconds: $N}], nodeSelector: {`+
			`kubernetes.io/hostname: node-2}, containers: [{name: app, image: ignores-term}]}`),
		steps: []step{reached("pod/$C"), change(`node/node-2 {"spec":{"taints":[{"key":"example.com/$A",` +
			`"effect":"NoExecute"}]}}`), pause(11 * time.Second)},
		truth: []truth{{kinds: "Pod Node", field: "tolerations|taints|tolerationSeconds",
			numbers: []string{"$N", "example.com/$A:NoExecute|example.com/$A"}}}},
	{name: "fresh: node: all cordoned", ask: "deployment/$C", nodes: twoNodes,
		before: []step{change(`node/node-1 {"spec":{"unschedulable":true}}`),
			change(`node/node-2 {"spec":{"unschedulable":true}}`)}, manifest: workload("$C", plainApp),
		truth: []truth{{kinds: "Node", field: "unschedulable", value: "true", want: "uncordon"}}},
	{name: "fresh: node: one cordoned, the other full", ask: "deployment/$C", nodes: twoNodes,
		before:   []step{change(`node/node-1 {"spec":{"unschedulable":true}}`)},
		manifest: single("$A", withRequest("cpu", "7")) + oneOf("$C", withRequest("cpu", "$N")),
		truth: []truth{{kinds: "Node", field: "unschedulable", value: "true", want: "uncordon"},
			{kinds: podOrOwner, field: "cpu", value: "$N", numbers: []string{"1"}}}},
	{name: "fresh: node: object that no kubelet fills", ask: "pod/$C", nodes: []string{"node-1"}, options: shortLife,
		before: []step{create(`{apiVersion: v1, kind: Node, metadata: {name: $NS-$A, labels: ` +
			`{kubernetes.io/hostname: ` +
			`$NS-$A}}}`)}, manifest: single("$C", `{nodeSelector: {kubernetes.io/hostname: $NS-$A}, containers: [`+app+
			`]}`), steps: []step{pause(15 * time.Second)},
		truth: []truth{{kinds: "Node Lease", field: "status|Ready|conditions|renewTime|taints",
			numbers: []string{"$NS-$A"}}}},
	{name: "fresh: node: Pod ended by the node's shutdown", ask: "pod/$C", nodes: twoNodes,
		manifest: single("$C", onSecondNode), steps: []step{reached("pod/$C"), killSecond,
			change(`pod/$C/status {"status":{"phase":"Failed","reason":"Terminated","message":"Pod was terminated in ` +
				`response to imminent node ` +
				`shutdown.","conditions":[{"type":"DisruptionTarget","status":"True","reason":` +
				`"TerminationByKubelet","message":"Pod was terminated in response to imminent node shutdown."}]}}`)},
		truth: []truth{{kinds: "Pod Node", field: "status|nodeName|shutdown|conditions",
			numbers: []string{"shutdown"}}}},
	{name: "fresh: node: Pod refused by a node that shuts down", ask: "pod/$C", nodes: twoNodes,
		before: []step{killSecond}, manifest: single("$C", `{nodeName: node-2, containers: [`+app+`]}`),
		steps: []step{change(`pod/$C/status {"status":{"phase":"Failed","reason":"NodeShutdown","message":"Pod was ` +
			`rejected as the node is shutting down."}}`)},
		truth: []truth{{kinds: "Pod Node", field: "status|nodeName|shutdown|conditions",
			numbers: []string{"shutting"}}}},
	{name: "fresh: node: Pod evicted for process ids", ask: "pod/$C", nodes: twoNodes,
		manifest: single("$C", onSecondNode), steps: []step{reached("pod/$C"), killSecond,
			change(`pod/$C/status {"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on ` +
				`resource: ` +
				`pids. Threshold quantity: 3276, available: 2$N00. "}}`)},
		truth: []truth{{kinds: "Pod Node", field: "status|pids|nodeName|conditions",
			numbers: []string{"pids|pid", "3276", "2$N00"}}}},
	{name: "fresh: node: Pod refused for what the node has no more", ask: "pod/$C", nodes: twoNodes,
		before: []step{killSecond}, manifest: single("$C", `{nodeName: node-2, containers: [{name: app, image: app, `+
			`resources: {requests: {cpu: "$N"}}}]}`),
		steps: []step{change(`pod/$C/status {"status":{"phase":"Failed","reason":"OutOfcpu","message":"Pod ` +
			`was rejected: ` +
			`Node didn't have enough resource: cpu, requested: $N000, used: 7500, capacity: 8000"}}`)},
		truth: []truth{{kinds: "Pod Node", field: "cpu|nodeName",
			numbers: []string{"$N|$N000|$N000m", "7500|7.5|7500m", "8|8000|8000m"}}}},
	{name: "fresh: node: kubelet stopped, and the roll-out's budget is used up by it", ask: "deployment/$C",
		nodes: twoNodes, options: shortLife, manifest: object("apps/v1", "Deployment", "$C", `spec: {replicas: 2, `+
			`strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}, selector: {matchLabels: {app: $C}}, `+
			`template: `+
			`{metadata: {labels: {app: $C}}, spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: `+
			`kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: $C}}}], `+
			`containers: [`+app+`]}}}`), steps: []step{reached("deployment/$C"), killSecond, pause(16 * time.Second),
			change(`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`),
			pause(4 * time.Second)}, truth: silent},
	{name: "fresh: node: runtime stopped, asked of the node", ask: "node/node-1", nodes: []string{"node-1"},
		steps: []step{do(func(c *testcluster.Cluster) { c.KillRuntime("node-1") }), pause(8 * time.Second)},
		truth: []truth{{kinds: "Node", field: "Ready|conditions", numbers: []string{"node-1"},
			want: "runtime|containerd"}}},
	{name: "fresh: node: controllers stand still, and a Service changes", ask: "service/$C", nodes: []string{"node-1"},
		before:   []step{do(func(c *testcluster.Cluster) { c.KillControllers() })},
		manifest: single("$A", plainApp) + serviceOf("$C", "$A", "8080"), steps: []step{pause(15 * time.Second)},
		truth: []truth{{kinds: "Lease Service", field: "renewTime|holderIdentity|spec|status|selector",
			want: "controller"}}},

	{name: "fresh: well: node: another node's kubelet stopped", ask: "deployment/$C", nodes: twoNodes,
		options: shortLife, manifest: workload("$C", `{nodeSelector: {kubernetes.io/hostname: node-1}, containers: [`+
			app+`]}`), steps: []step{reached("deployment/$C"), killSecond, pause(16 * time.Second)}},
	{name: "fresh: well: node: cordoned, and its Pods run", ask: "deployment/$C", nodes: []string{"node-1"},
		manifest: workload("$C", plainApp), steps: []step{reached("deployment/$C"),
			change(`node/node-1 {"spec":{"unschedulable":true}}`)}},
	{name: "fresh: well: node: tainted for new Pods after it took some", ask: "pod/$C", nodes: []string{"node-1"},
		manifest: single("$C", plainApp), steps: []step{reached("pod/$C"),
			change(`node/node-1 {"spec":{"taints":[{"key":"example.com/$A","effect":"NoSchedule"}]}}`)}},
	{name: "fresh: well: node: kubelet was away for a moment", ask: "node/node-2", nodes: twoNodes, options: shortLife,
		steps: []step{killSecond, pause(14 * time.Second),
			do(func(c *testcluster.Cluster) { c.StartNode("node-2") }), pause(25 * time.Second)}},
}

package breaker

import (
	"time"

	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/testcluster"
)

// heldOutWell are things that are well, were slow, or ended as they should.
var heldOutWell = []situation{
	{name: "well: claim that waits for its first Pod", ask: "pvc/$C", unseen: true,
		manifest: object("storage.k8s.io/v1", "StorageClass", "$NS",
			"provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer") +
			localOf("$NS-$A", "node-1", "/tmp") + claimOf("$C", "storageClassName: $NS, ")},
	{name: "well: roll-out that takes its time", ask: "deployment/$C", unseen: true,
		manifest: deploy("$C", "replicas: 3, minReadySeconds: 8, ", plainApp),
		steps: []step{reached("deployment/$C"), change(`deployment/$C ` +
			`{"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`)}},
	{name: "well: Job that succeeded the second time", ask: "job/$C",
		manifest: object("batch/v1", "Job", "$C", `spec: {template: {spec: {restartPolicy: OnFailure, `+
			`containers: [`+shell("app",
			"if [ -f /d/x ]; then exit 0; fi; touch /d/x; exit 1", `volumeMounts: [{name: v, mountPath: /d}]`)+
			`], volumes: [{name: v, emptyDir: {}}]}}}`), steps: []step{pause(18 * time.Second)}},
	{name: "well: scaled down, a Pod takes its time to end", ask: "deployment/$C", unseen: true,
		manifest: deploy("$C", "replicas: 3, ", `{containers: [`+shell("app", "run", `lifecycle: {preStop: `+
			`{exec: {command: [sh, -c, sleep 20]}}}`)+`]}`),
		steps: []step{reached("deployment/$C"), change(`deployment/$C {"spec":{"replicas":1}}`)}},
	{name: "well: Pod that ends within its grace", ask: "pod/$C", unseen: true,
		manifest: single("$C", `{containers: [`+shell("app", "run", `lifecycle: {preStop: {exec: {command: [sh, `+
			`-c, sleep 25]}}}`)+`]}`),
		steps: []step{reached("pod/$C"), change("pod/$C delete")}},
	{name: "well: Job with a sidecar", ask: "job/$C",
		manifest: object("batch/v1", "Job", "$C", `spec: {template: {spec: {restartPolicy: Never, `+
			`terminationGracePeriodSeconds: 1, initContainers: [`+
			`{name: $A, image: app, restartPolicy: Always}], containers: [{name: app, image: exit-0}]}}}`)},
	{name: "well: slow init container", ask: "pod/$C",
		manifest: single("$C", `{initContainers: [`+shell("$A", "sleep 7", "")+`], containers: [`+app+`]}`)},
	{name: "well: slow start, with a probe for it", ask: "pod/$C",
		manifest: single("$C", `{containers: [`+serving(7, `startupProbe: {periodSeconds: 1, failureThreshold: `+
			`40, tcpSocket: {port: 8080}}, `+
			`livenessProbe: {periodSeconds: 1, tcpSocket: {port: 8080}}`)+`]}`)},
	{name: "well: image that takes its time", ask: "pod/$C", nodes: []string{"node-1"},
		before: []step{always(func(c *testcluster.Cluster) {
			c.Runtime("node-1").SetRegistry([]crifake.Image{{Names: []string{"large:1"}, Pull: 14 * time.Second}})
		})},
		manifest: single("$C", `{containers: [{name: app, image: "large:1"}]}`)},
	{name: "well: CronJob of another time zone", ask: "cronjob/$C", unseen: true,
		manifest: cronOf("$C", "30 3 1 * *", `timeZone: "Pacific/Auckland", startingDeadlineSeconds: 600, `)},
	{name: "well: Job that may end early", ask: "job/$C",
		manifest: object("batch/v1", "Job", "$C", `spec: {completions: 3, parallelism: 3, completionMode: `+
			`Indexed, successPolicy: {rules: `+
			`[{succeededIndexes: "0"}]}, template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: `+
			`1, containers: [`+shell("app",
			"if [ $JOB_COMPLETION_INDEX = 0 ]; then exit 0; fi; run", "")+`]}}}`)},
	{name: "well: headless Service with endpoints made by hand", ask: "service/$C",
		manifest: object("v1", "Service", "$C", `spec: {clusterIP: None, ports: [{name: db, port: 5432}]}`) +
			`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: "$C-1", labels: ` +
			`{kubernetes.io/service-name: $C}}, ` +
			`addressType: IPv4, ports: [{name: db, port: 5432}], endpoints: [{addresses: [192.0.2.$N]}]}`},
	{name: "well: name of the world outside", ask: "service/$C", unseen: true,
		manifest: object("v1", "Service", "$C", `spec: {type: ExternalName, externalName: $A.example.com}`)},
	{name: "well: restarted once, then well", ask: "pod/$C",
		manifest: single("$C", `{containers: [`+shell("app",
			"if [ -f /d/x ]; then run; exit 0; fi; touch /d/x; exit 1",
			`volumeMounts: [{name: v, mountPath: /d}]`)+`], volumes: [{name: v, emptyDir: {}}]}`),
		steps: []step{pause(40 * time.Second)}},
	{name: "well: prefers a node that is not there", ask: "deployment/$C",
		manifest: workload("$C", `{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: `+
			`[{weight: $N, preference: `+
			`{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}]}}, containers: [`+app+`]}`)},
	{name: "well: tolerates the taint", ask: "pod/$C",
		manifest: single("$C", `{tolerations: [{key: team, operator: Exists}], nodeSelector: `+
			`{kubernetes.io/hostname: node-3}, containers: [`+app+`]}`)},
	{name: "well: ConfigMap that came late", ask: "pod/$C",
		manifest: single("$C", `{containers: [`+mounted+`], volumes: [{name: v, configMap: {name: $A}}]}`),
		steps:    []step{pause(5 * time.Second), create(configMap("$A", "$K: x")), pause(15 * time.Second)}},
	{name: "well: quota that was raised", ask: "deployment/$C",
		manifest: quotaOf("$A", "pods: 1") + deploy("$C", "replicas: 2, ", plainApp),
		steps: []step{pause(5 * time.Second), change(`quota/$A {"spec":{"hard":{"pods":"5"}}}`),
			pause(25 * time.Second)}},
	{name: "well: policy that lets nobody in, and one that lets the port in", ask: "networkpolicy/allow",
		unseen: true,
		manifest: workload("$A", plainApp) + serviceOf("$C", "$A", "http") + object("networking.k8s.io/v1",
			"NetworkPolicy", "deny",
			`spec: {podSelector: {}, policyTypes: [Ingress]}`) + object("networking.k8s.io/v1",
			"NetworkPolicy", "allow",
			`spec: {podSelector: {matchLabels: {app: $A}}, ingress: [{ports: [{port: http}]}]}`)},
	{name: "well: Ingress with all that it names", ask: "ingress/$C", unseen: true,
		manifest: workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + tlsSecret("$B", "$CRT") +
			tlsIngress("$C", "$A", "$B")},
	{name: "well: webhook that may be left out", ask: "deployment/$C",
		before:   []step{create(webhookOf("Ignore", "pods")), pause(3 * time.Second)},
		manifest: workload("$C", plainApp)},
	{name: "well: namespace that ends with its Pod", ask: "namespace/$NS-x", unseen: true,
		manifest: `{apiVersion: v1, kind: Namespace, metadata: {name: "$NS-x"}}` + "\n---\n" + `{apiVersion: ` +
			`v1, kind: Pod, metadata: ` +
			`{namespace: "$NS-x", name: $A}, spec: {serviceAccountName: default, containers: [` + shell("app", "run",
			`lifecycle: {preStop: {exec: {command: [sh, -c, sleep 25]}}}`) + `]}}`,
		steps: []step{pause(8 * time.Second), change("namespace/$NS-x delete")}},
	{name: "well: runtime that was away", ask: "pod/$C", nodes: []string{"node-1"},
		manifest: single("$C", plainApp),
		steps: []step{reached("pod/$C"), always(func(c *testcluster.Cluster) { c.KillRuntime("node-1") }),
			pause(5 * time.Second),
			always(func(c *testcluster.Cluster) { c.StartRuntime("node-1") }), pause(15 * time.Second)}},
}

package breaker

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// heldOutLives are starts, ends, roll-outs and schedules.
var heldOutLives = []situation{
	{name: "post-start hook fails", ask: "pod/$C",
		manifest: single("$C", `{terminationGracePeriodSeconds: 1, containers: [`+shell("app", "run",
			`lifecycle: {postStart: {exec: {command: [sh, -c, <<exit $N||exit 0>>]}}}`)+`]}`),
		truth: []truth{{kinds: "Pod", field: "postStart", numbers: []string{"$N"}, want: "postStart|lifecycle"}}},
	{name: "init container that serves for ever", ask: "pod/$C",
		manifest: single("$C", `{initContainers: [{name: $A, image: app<<||, restartPolicy: Always>>}], `+
			`containers: [`+app+`]}`),
		truth: []truth{{kinds: "Pod", field: "initContainers[0]", value: "$A|", want: "restartPolicy"}}},
	{name: "sidecar that never starts up", ask: "pod/$C",
		manifest: single("$C", `{initContainers: [{name: $A, image: app, restartPolicy: Always, startupProbe: `+
			`{periodSeconds: 1, `+
			`failureThreshold: 60, exec: {command: [sh, -c, <<exit 1||exit 0>>]}}}], containers: [`+app+`]}`),
		truth: []truth{{kinds: "Pod", field: "initContainers[0].startupProbe|initContainers[0]",
			numbers: []string{"1"},
			want:    "startupProbe|logs"}}},
	{name: "program that ignores TERM", ask: "pod/$C", unseen: true,
		manifest: single("$C", `{terminationGracePeriodSeconds: $N00, containers: [`+shell("app",
			"<<trap : TERM; while true; do sleep 1; done||run>>", "")+`]}`),
		steps: []step{reached("pod/$C"), change("pod/$C delete"), pause(4 * time.Second)},
		truth: []truth{{kinds: "Pod", field: "terminationGracePeriodSeconds", value: "$N00",
			numbers: []string{"$N00"},
			want:    "grace"}}},
	{name: "pre-stop hook as long as the grace period", ask: "pod/$C", unseen: true,
		manifest: single("$C", `{terminationGracePeriodSeconds: $N00, containers: [`+shell("app", "run",
			`lifecycle: {preStop: {exec: {command: [sh, -c, sleep <<1000||0>>]}}}`)+`]}`),
		steps: []step{reached("pod/$C"), change("pod/$C delete"), pause(4 * time.Second)},
		truth: []truth{{kinds: "Pod", field: "preStop|terminationGracePeriodSeconds", numbers: []string{"$N00"},
			want: "preStop|grace"}}},
	{name: "finalizer of a Pod that has ended", ask: "pod/$C", unseen: true,
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: $C, finalizers: [example.com/$A]}, spec: ` +
			plainApp + `}`,
		steps: []step{reached("pod/$C"), change("pod/$C delete"), pause(3 * time.Second)},
		truth: []truth{{kinds: "Pod", field: "finalizers", value: "example.com/$A", want: "finalizers"}}},
	{name: "Deployment waits for the end of its Pod, that has a finalizer", ask: "deployment/$C", unseen: true,
		manifest: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: $C}, spec: {replicas: 1, selector: ` +
			`{matchLabels: ` +
			`{app: $C}}, template: {metadata: {labels: {app: $C}, finalizers: [example.com/$A]}, spec: ` +
			plainApp + "}}}\n---\n",
		steps: []step{reached("deployment/$C"), deleteForeground(schema.GroupKind{Group: "apps",
			Kind: "Deployment"}, "$C"),
			pause(3 * time.Second)},
		truth: []truth{{kinds: "Pod", field: "finalizers", value: "example.com/$A", want: "finalizers"}}},
	{name: "namespace that a finalizer holds", ask: "namespace/$NS-x",
		manifest: `{apiVersion: v1, kind: Namespace, metadata: {name: "$NS-x"}}` + "\n---\n" +
			`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: "$NS-x", name: $A, finalizers: ` +
			`[<<example.com/$B||>>]}}` + "\n---\n",
		steps: []step{pause(2 * time.Second), change("namespace/$NS-x delete")},
		truth: []truth{{kinds: "ConfigMap", field: "finalizers", value: "example.com/$B", want: "finalizers"}}},
	{name: "owner that is not there", ask: "pod/$C",
		manifest: `{apiVersion: v1, kind: Pod, metadata: {name: $C, ownerReferences: [<<{apiVersion: v1, kind: ` +
			`ConfigMap, name: $A, ` +
			`uid: 1b671a64-40d5-491e-99b0-da01ff1f3341}||>>]}, spec: ` + plainApp + `}`,
		steps: []step{pause(6 * time.Second)},
		truth: []truth{{kinds: "Pod", field: "ownerReferences", value: "$A", want: "ownerReferences"}}},
	{name: "StatefulSet behind its first Pod", ask: "statefulset/$C",
		manifest: serviceOf("$C", "$C", "8080") + stateful("$C", "$C", "", `{containers: [`+shell("app", "run",
			`readinessProbe: {periodSeconds: 1, exec: {command: [sh, -c, <<exit 1||exit 0>>]}}`)+`]}`),
		truth: []truth{{kinds: podOrOwner, field: "readinessProbe", numbers: []string{"$C-0"},
			want: "readinessProbe|logs|exec|Parallel"}}},
	{name: "StatefulSet whose name another Pod has", ask: "statefulset/$C",
		manifest: serviceOf("$C", "$C", "8080") + single("$C-<<0||x>>", plainApp) + stateful("$C", "$C", "",
			plainApp),
		truth: []truth{{kinds: "Pod StatefulSet", field: "name|ownerReferences|labels",
			numbers: []string{"$C-0"}, want: "delete pod"}}},
	{name: "StatefulSet's claims of a class that is not there", ask: "statefulset/$C",
		manifest: object("v1", "Service", "$C", `spec: {clusterIP: None, selector: {app: $C}, ports: [{port: 80}]}`) +
			classOf("$NS-$A", "kubernetes.io/no-provisioner") + volumeOf("$NS-v", `storageClassName: "$NS-$A", `+
			``, "9Gi",
			"ReadWriteOnce") + object("apps/v1", "StatefulSet", "$C", `spec: {serviceName: $C, replicas: 1, `+
			`selector: `+
			`{matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+plainApp+`}, `+
			`volumeClaimTemplates: `+
			`[{metadata: {name: v}, spec: {storageClassName: "$NS-<<$a||$A>>", accessModes: [ReadWriteOnce], `+
			`resources: `+
			`{requests: {storage: 1Gi}}}}]}`),
		truth: []truth{{kinds: "PersistentVolumeClaim StatefulSet", field: "storageClassName", value: "$a",
			want: "$A"}}},
	{name: "DaemonSet whose one Pod crashes on a node", ask: "daemonset/$C",
		manifest: object("apps/v1", "DaemonSet", "$C", `spec: {selector: {matchLabels: {app: $C}}, template: `+
			`{metadata: {labels: `+
			`{app: $C}}, spec: {containers: [{name: app, image: app, env: [{name: WHERE, valueFrom: {fieldRef: `+
			`{fieldPath: `+
			`spec.nodeName}}}], command: [sh, -c, "if [ $WHERE = <<node-2||node-9>> ]; then echo no disk; exit `+
			`$N; fi; run"]}]}}}`),
		truth: []truth{{kinds: "Pod DaemonSet", field: "containers[0]", numbers: []string{"$N", "node-2"},
			want: "logs|node-2"}}},
	{name: "CronJob that waits for its own last run", ask: "cronjob/$C", unseen: true,
		manifest: object("batch/v1", "CronJob", "$C", `spec: {concurrencyPolicy: <<Forbid||Replace>>, schedule: `+
			`"* * * * *", jobTemplate: `+
			`{spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: app}]}}}}}`),
		steps: []step{pause(130 * time.Second)},
		truth: []truth{{kinds: "CronJob", field: "concurrencyPolicy", value: "Forbid", want: "Replace|delete job"}}},
	{name: "CronJob whose Jobs fail", ask: "cronjob/$C", unseen: true,
		manifest: object("batch/v1", "CronJob", "$C", `spec: {schedule: "* * * * *", jobTemplate: {spec: `+
			`{backoffLimit: 0, template: `+
			`{spec: {restartPolicy: Never, containers: [{name: app, image: exit-<<3||0>>}]}}}}}`),
		steps: []step{pause(75 * time.Second)},
		truth: []truth{{kinds: "CronJob Job Pod", field: "containers[0]|backoffLimit|jobTemplate",
			numbers: []string{"3"}, want: "logs|image|command"}}},
	{name: "running program that a Service's port misses, as its probe tells", ask: "service/$C", unseen: true,
		manifest: workload("$A", `{containers: [`+serving(0, `readinessProbe: {periodSeconds: 1, httpGet: `+
			`{path: /, port: <<8181||8080>>}}`)+
			`]}`) + serviceOf("$C", "$A", "8080"),
		truth: []truth{{kinds: podOrOwner, field: "readinessProbe", value: "8181", want: "8080"}}},
}

package finding

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	namedNodes = `
---
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {host: n1, zone: a}}, status: {allocatable: {cpu: "8", ` +
		`memory: 16Gi}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {host: n2, zone: b}}, status: {allocatable: {cpu: "4", ` +
		`memory: 16Gi}}}`
	oldOf = `
---
{apiVersion: v1, kind: Pod, metadata: {name: s-0, namespace: shop, labels: {controller-revision-hash: old}, ` +
		`creationTimestamp: "2026-05-01T11:00:00Z", ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, ` +
		`name: s, ` +
		`uid: s, controller: true}]}, spec: {nodeName: n1, containers: [{name: a}]}, status: {phase: Running`
)

// Each row is a cluster, an object, and what one of its findings is: "CODE KIND/NAME FIELD VALUE
// WANT SEVERITY", - for what is empty, and words of its message and remedies; "no CODE" for none.
//
// row: RST-10
func TestWhatPeopleWriteByMistake(t *testing.T) {
	container := func(more string) string {
		return webPod + `spec: {containers: [{name: a, ` + more + `}]}`
	}
	at := "Pod/web spec.containers[0]"
	affinity := func(more, terms string) string {
		return webPod + `spec: {` + more + `affinity: {nodeAffinity: ` +
			`{requiredDuringSchedulingIgnoredDuringExecution: ` +
			`{nodeSelectorTerms: [` + terms + `]}}}, containers: [{name: a}]}` + namedNodes
	}
	term := "spec" + termsAt + "[0].matchExpressions"
	set := func(spec, status string) string {
		return `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, namespace: shop, uid: s, ` +
			`creationTimestamp: ` +
			`"2026-05-01T11:00:00Z"}, spec: {replicas: 2` + spec + `}, status: {updateRevision: new, ` +
			`currentRevision: old}}` +
			oldOf + status + `}}`
	}
	replicaSet := func(owner, template, made string) string {
		return `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r, namespace: shop, uid: r, ` +
			`creationTimestamp: ` +
			`"2026-05-01T11:00:00Z"` + owner + `, managedFields: [{manager: kubectl, operation: Update, time: ` +
			`"2026-05-01T11:30:00Z"}]}, spec: {replicas: 1, template: {spec: {containers: [{name: a, image: ` +
			`i2` + template +
			`}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: r-1, namespace: shop, creationTimestamp: "` + made + `", ` +
			`ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: r, controller: true}]}, spec: ` +
			`{containers: [{name: a, image: i1, env: [{name: X, value: "1"}]}]}}`
	}
	cron := func(job string) string {
		return `{apiVersion: batch/v1, kind: CronJob, metadata: {name: c, namespace: shop}, spec: {schedule: ` +
			`"0 0 * * *", jobTemplate: {spec: {` + job + `template: {spec: {containers: [{name: a}]}}}}}}`
	}
	ending := func(kind, spec, name, deleted string) string {
		return `{apiVersion: apps/v1, kind: ` + kind + `, metadata: {name: d, namespace: shop, uid: d}, spec: ` +
			`{` + spec +
			`}}
---
{apiVersion: v1, kind: Pod, metadata: {name: ` + name + `, namespace: shop, deletionTimestamp: "` + deleted +
			`", deletionGracePeriodSeconds: 300, ownerReferences: [{kind: ` + kind + `, name: d, uid: d, ` +
			`controller: true}]}, spec: {containers: [{name: a}]}}`
	}
	resized := func(want, node string) string {
		return webPod + `spec: {nodeName: n1, containers: [{name: a, resources: {requests: {cpu: ` + want + `}}}]}
status: {phase: Running, conditions: [{type: PodResizePending, status: "True", reason: Deferred, ` +
			`message: no room}], containerStatuses: [{name: a, allocatedResources: {cpu: 100m}}]}` + node
	}
	scaler := func(metric string) string {
		return `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h, namespace: shop}, ` +
			`spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: d}, metrics: [` + metric + `]}}`
	}
	idle := func(reason, message string) string {
		active := map[bool]string{true: "True", false: "False"}[reason == "ValidMetricFound"]
		return strings.TrimSuffix(scaler(`{type: Resource, resource: {name: cpu, target: {type: Utilization, `+
			`averageUtilization: 50}}}`), "}") + `, status: {conditions: [{type: ScalingActive, status: "` + active +
			`", reason: ` + reason + `, message: "` + message + `", lastTransitionTime: "` +
			now.Add(-30*time.Second).Format(time.RFC3339) + `"}]}}`
	}
	warning := func(ago int) string {
		return "\n---\n" + `{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, type: Warning, ` +
			`reason: AmbiguousSelector, involvedObject: {kind: HorizontalPodAutoscaler, namespace: shop, name: h}, ` +
			`message: m, lastTimestamp: "` + now.Add(-time.Duration(ago)*time.Second).Format(time.RFC3339) + `"}`
	}
	const sharing = "\n" + `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: x}}
  template: {spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: e, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: x}}
  template: {spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: i, namespace: shop}
spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: e}}`
	own := func(owner string) string {
		return `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: w}
spec: {containers: [{name: a}], volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {}}}}]}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: web-v, namespace: shop` + owner + `}}`
	}
	surging := func(more, ports, may string) string {
		pod := func(name, revision, spec, status string) string {
			return `
---
{apiVersion: v1, kind: Pod, metadata: {name: ` + name + `, namespace: shop, creationTimestamp: ` +
				`"2026-05-01T11:00:00Z", labels: {controller-revision-hash: ` + revision + `}, ownerReferences: ` +
				`[{kind: DaemonSet, ` +
				`name: d, uid: d, controller: true}]}, spec: {` + spec + `containers: [{name: a, ` + ports + `}]}, ` +
				`status: {` + status + `}}`
		}
		revision := func(name string, n string) string {
			return `
---
{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: ` + name + `, namespace: shop, labels: ` +
				`{controller-revision-hash: ` + name + `}, ownerReferences: [{kind: DaemonSet, name: d, uid: d, ` +
				`controller: true}]}, revision: ` + n + `}`
		}
		return `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d, namespace: shop, uid: d}, spec: ` +
			`{updateStrategy: {rollingUpdate: {` + may + `}}}, status: {desiredNumberScheduled: ` +
			`1}}` + revision("old", "1") +
			revision("new", "2") + pod("d-1", "old", "nodeName: n1, ", "phase: Running") + pod("d-2", "new", more,
			`phase: Pending, `+
				`conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "1 Insufficient `+
				`cpu"}]`)
	}
	for _, c := range []struct{ name, cluster, of, want, words string }{
		{"full name", webPod + `spec: {subdomain: ` + strings.Repeat("s", 55) + `, setHostnameAsFQDN: true, ` +
			`containers: [{name: a}]}`, "Pod shop web", "NameTooLong Pod/web spec.setHostnameAsFQDN true false broken",
			"68 characters"},
		{"full name of a host", webPod + `spec: {hostname: ` + strings.Repeat("h", 53) + `, subdomain: s, ` +
			`setHostnameAsFQDN: true, containers: [{name: a}]}`, "Pod shop web",
			"NameTooLong Pod/web spec.setHostnameAsFQDN true false broken", "64 is the most"},
		{"full name that fits", webPod + `spec: {subdomain: s, setHostnameAsFQDN: true, containers: [{name: a}]}`,
			"Pod shop web", "no NameTooLong", ""},
		{"short name of a long one", webPod + `spec: {subdomain: ` + strings.Repeat("s", 55) + `, containers: ` +
			`[{name: a}]}`,
			"Pod shop web", "no NameTooLong", ""},
		{"autoscaler of a Job", `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: ` +
			`h, namespace: ` +
			`shop}, spec: {scaleTargetRef: {apiVersion: batch/v1, kind: Job, name: j}}}`, "HorizontalPodAutoscaler " +
			"shop h",
			"NotScaling HorizontalPodAutoscaler/h spec.scaleTargetRef.kind Job - broken", "no number of replicas"},
		{"autoscaler of a DaemonSet", `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: ` +
			`h, namespace: shop}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: DaemonSet, name: j}}}`,
			"HorizontalPodAutoscaler shop h",
			"NotScaling HorizontalPodAutoscaler/h spec.scaleTargetRef.kind DaemonSet - broken", ""},
		{"autoscaler of others' Job", `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: ` +
			`h, namespace: shop}, spec: {scaleTargetRef: {apiVersion: example.com/v1, kind: Job, name: j}}}`,
			"HorizontalPodAutoscaler shop h", "no NotScaling", ""},
		{"autoscaler of a DaemonSet that is not there", "read: DaemonSet\n" + `{apiVersion: autoscaling/v2, kind: ` +
			`HorizontalPodAutoscaler, metadata: {name: h, namespace: shop}, spec: {scaleTargetRef: {apiVersion: ` +
			`apps/v1, kind: DaemonSet, name: j}}}`, "HorizontalPodAutoscaler shop h",
			"NotScaling HorizontalPodAutoscaler/h spec.scaleTargetRef.kind DaemonSet - broken", ""},
		{"no DaemonSet is asked for", "read: DaemonSet\n" + `{apiVersion: autoscaling/v2, kind: ` +
			`HorizontalPodAutoscaler, metadata: {name: h, namespace: shop}, spec: {scaleTargetRef: {apiVersion: ` +
			`apps/v1, kind: DaemonSet, name: j}}}`, "HorizontalPodAutoscaler shop h", "no ReferenceMissing", ""},
		{"no metrics-server", idle("FailedGetResourceMetric", "unable to get metrics for resource cpu: the server "+
			"could not find the requested resource"), "HorizontalPodAutoscaler shop h", "MetricsNotServed " +
			"HorizontalPodAutoscaler/h spec.metrics[0].resource.name cpu - broken", "install metrics-server"},
		{"no metrics-server, said once", idle("FailedGetResourceMetric", "unable to get metrics for resource cpu"),
			"HorizontalPodAutoscaler shop h", "no NotScaling", ""},
		{"an autoscaler that only warned before", idle("ValidMetricFound", "") + warning(40),
			"HorizontalPodAutoscaler shop h", "no Warning", ""},
		{"one that warned since", idle("ValidMetricFound", "") + warning(20), "HorizontalPodAutoscaler shop h",
			"Warning HorizontalPodAutoscaler/h - AmbiguousSelector - threat", ""},
		{"Deployments of one selector", idle("AmbiguousSelector", "more than one") + sharing,
			"HorizontalPodAutoscaler shop h",
			"AutoscalersOverlap HorizontalPodAutoscaler/h spec.scaleTargetRef d - broken",
			"select the same Pods (app=x)"},
		{"a direction that is off", strings.Replace(idle("ValidMetricFound", ""), "maxReplicas: 3",
			"maxReplicas: 3, behavior: {scaleDown: {selectPolicy: Disabled}}", 1), "HorizontalPodAutoscaler shop h",
			"ScalingDisabled HorizontalPodAutoscaler/h spec.behavior.scaleDown.selectPolicy Disabled Max threat",
			"never scales down"},
		{"surge over its own port", surging("", "ports: [{hostPort: 80, containerPort: 80}]", "maxSurge: 1, "+
			"maxUnavailable: 0"), "DaemonSet shop d",
			"HeldByStrategy DaemonSet/d spec.updateStrategy.rollingUpdate.maxSurge 1 0 broken", "has host port 80"},
		{"surge over its own cpu", surging("", `resources: {requests: {cpu: "5"}}`, `maxSurge: "100%", `+
			`maxUnavailable: 0`),
			"DaemonSet shop d", "HeldByStrategy DaemonSet/d spec.updateStrategy.rollingUpdate.maxSurge 100% 0 broken",
			"has the 5 of cpu"},
		{"no surge", surging("", "ports: [{hostPort: 80, containerPort: 80}]", "maxSurge: 0, maxUnavailable: 1"),
			"DaemonSet shop d", "no HeldByStrategy", ""},
		{"surge that is placed", surging("nodeName: n1, ", "ports: [{hostPort: 80, containerPort: 80}]",
			"maxSurge: 1, maxUnavailable: 0"), "DaemonSet shop d", "no HeldByStrategy", ""},
		{"value before its variable", container(`env: [{name: URL, value: "x://$(HOST)/"}, {name: HOST, value: h}]`),
			"Pod shop web", "VariableLater " + at + ".env[0].value $(HOST) - threat",
			`"from":"/spec/containers/0/env/1",` +
				`"path":"/spec/containers/0/env/0"`},
		{"its own name", container(`env: [{name: PATH, value: "/x:$(PATH)"}]`), "Pod shop web",
			"VariableLater " + at + ".env[0].value $(PATH) - threat", "its own name"},
		{"value after its variable", container(`env: [{name: HOST, value: h}, {name: URL, value: "x://$(HOST)/"}]`),
			"Pod shop web", "no VariableLater", ""},
		{"argument of any variable", container(`args: ["$(B)"], env: [{name: A, value: h}, {name: B, value: i}]`),
			"Pod shop web", "no VariableLater", ""},
		{"defined twice", container(`env: [{name: A, value: h}, {name: B, value: "$(A)"}, {name: A, value: i}]`),
			"Pod shop web", "no VariableLater", ""},
		{"without its prefix", container(`args: ["$(HOST)"], envFrom: [{prefix: APP_, configMapRef: {name: c}}]`) + `
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop}, data: {HOST: h, PORT: "1"}}`, "Pod shop web",
			"VariableUndefined " + at + ".args[0] $(HOST) $(APP_HOST) threat", "differs by APP_"},
		{"with too much before it", container(`command: [x, "$(APP_USER_NAME)"], env: [{name: USER_NAME, value: x}]`),
			"Pod shop web", "VariableUndefined " + at + ".command[1] $(APP_USER_NAME) $(USER_NAME) threat", "APP_"},
		{"two with the same end", container(`args: ["$(HOST)"], env: [{name: READ_HOST, value: x}, {name: ` +
			`WRITE_HOST, value: x}]`), "Pod shop web", "VariableUndefined " + at + ".args[0] $(HOST) - threat", ""},
		{"braces of a shell", container(`args: ["--x=${HOST}:1"], env: [{name: HOST, value: x}]`), "Pod shop web",
			"VariableOfShell " + at + ".args[0] ${HOST} $(HOST) threat", `"--x=$(HOST):1"`},
		{"a shell's word", container(`command: [serve, "$HOST"], env: [{name: HOST, value: x}]`), "Pod shop web",
			"VariableOfShell " + at + ".command[1] $HOST $(HOST) threat", ""},
		{"a shell's operator", container(`command: [serve, "--fast", "&&", sleep, "9"], args: ["a b"]`), "Pod shop web",
			"ShellWord " + at + ".command[2] && sh_-c threat", `"serve --fast && sleep 9 `},
		{"an operator among arguments", container(`command: [serve], args: [x, "|", cat]`), "Pod shop web",
			"ShellWord " + at + ".args[1] | sh_-c threat", `"path":"/spec/containers/0/args"`},
		{"an operator that a shell reads", container(`command: [sh, -c, "a && b", "&&"]`), "Pod shop web",
			"no ShellWord", ""},
		{"an operator of an unknown program", container(`args: [a, "&&", b]`), "Pod shop web", "no ShellWord", ""},
		{"a shell reads it", container(`command: [sh, -c, "serve ${HOST}"], env: [{name: HOST, value: x}]`),
			"Pod shop web", "no VariableOfShell", ""},
		{"the image's shell may read it", container(`args: ["-c", "serve ${HOST}"], env: [{name: HOST, value: x}]`),
			"Pod shop web", "no VariableOfShell", ""},
		{"no variable of that name", container(`args: ["${HOST}", "cost: $5"], env: [{name: HOSTS, value: x}]`),
			"Pod shop web", "no VariableOfShell", ""},
		{"seldom asked", container(`readinessProbe: {periodSeconds: 3600, failureThreshold: 3}`), "Pod shop web",
			"no ProbeLate", ""},
		{"asked often", container(`readinessProbe: {periodSeconds: 10, successThreshold: 61}`), "Pod shop web",
			"ProbeLate " + at + ".readinessProbe.successThreshold 61 1 threat", "after 600 s"},
		{"cores for thousandths", container(`resources: {requests: {cpu: "500"}}`) + namedNodes, "Pod shop web",
			"NoNodeCanHold " + at + ".resources.requests.cpu 500 500m broken", "whole cores"},
		{"many cores", container(`resources: {requests: {cpu: "64"}}`) + namedNodes, "Pod shop web",
			"NoNodeCanHold " + at + ".resources.requests.cpu 64 8 broken", "No node can ever"},
		{"thousandths that do not fit either", container(`resources: {requests: {cpu: "9000"}}`) + namedNodes,
			"Pod shop web", "NoNodeCanHold " + at + ".resources.requests.cpu 9k 8 broken", ""},
		{"two values of one key", affinity("", `{matchExpressions: [{key: host, operator: In, values: [n1]}, {key: `+
			`host, `+
			`operator: In, values: [n2]}]}`), "Pod shop web", "NodeLabelMissing Pod/web " + term + "[1] host_In_n2 " +
			"- broken",
			"none meets both"},
		{"keys of two nodes", affinity("", `{matchExpressions: [{key: host, operator: In, values: [n1]}, {key: zone, `+
			`operator: NotIn, values: [a]}]}`), "Pod shop web", "NodeLabelMissing Pod/web " + term + "[1] " +
			"zone_NotIn_a - broken", `"op":"remove"`},
		{"one of them is nowhere", affinity("", `{matchExpressions: [{key: host, operator: In, values: [n1]}, {key: `+
			`host, operator: In, values: [other]}]}`), "Pod shop web", "NodeLabelMissing Pod/web " + term + "[1] " +
			"host_In_other - broken", "the others are met by n1"},
		{"terms are alternatives", affinity("", `{matchExpressions: [{key: host, operator: In, values: [n1]}]}, `+
			`{matchExpressions: [{key: host, operator: In, values: [other]}]}`), "Pod shop web",
			"no NodeLabelMissing", ""},
		{"selector against affinity", affinity("nodeSelector: {host: n1}, ", `{matchExpressions: [{key: zone, `+
			`operator: `+
			`In, values: [b]}]}`), "Pod shop web", "NodeLabelMissing Pod/web spec.nodeSelector host=n1 - broken",
			"the first fits n1, the second n2"},
		{"selector with affinity", affinity("nodeSelector: {host: n1}, ", `{matchExpressions: [{key: zone, operator: `+
			`In, values: [a, b]}]}`), "Pod shop web", "no NodeLabelMissing", ""},
		{"old template is waited for", set("", ""), "StatefulSet shop s",
			"OldTemplateWaits Pod/s-0 metadata.labels[controller-revision-hash] old new broken",
			"kubectl -n shop delete pod s-0"},
		{"old template is ready", set("", `, conditions: [{type: Ready, status: "True"}]`), "StatefulSet shop s",
			"no OldTemplateWaits", ""},
		{"nobody waits in parallel", set(", podManagementPolicy: Parallel", ""), "StatefulSet shop s",
			"no OldTemplateWaits", ""},
		{"below the partition", set(", updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}", ""),
			"StatefulSet shop s", "no OldTemplateWaits", ""},
		{"image of a ReplicaSet's template", replicaSet("", "", "2026-05-01T11:10:00Z"), "ReplicaSet shop r",
			"OlderTemplate ReplicaSet/r spec.template.spec.containers[0].image i2 - threat", "kubectl -n shop " +
				"delete pod r-1"},
		{"in one second, and nothing changes Pods", "read: MutatingWebhookConfiguration MutatingAdmissionPolicy\n" +
			replicaSet(", generation: 2", "", "2026-05-01T11:30:00Z"), "ReplicaSet shop r",
			"OlderTemplate ReplicaSet/r spec.template.spec.containers[0].image i2 - threat", ""},
		{"in one second, and something may", replicaSet(", generation: 2", "", "2026-05-01T11:30:00Z"),
			"ReplicaSet shop r", "no OlderTemplate", ""},
		{"in one second, of the first template", "read: MutatingWebhookConfiguration MutatingAdmissionPolicy\n" +
			replicaSet(", generation: 1", "", "2026-05-01T11:30:00Z"), "ReplicaSet shop r", "no OlderTemplate", ""},
		{"made since then", replicaSet("", "", "2026-05-01T11:40:00Z"), "ReplicaSet shop r", "no OlderTemplate", ""},
		{"not by admission", replicaSet("", "", "2026-05-01T11:10:00Z"), "ReplicaSet shop r",
			"no ChangedByAdmission", ""},
		{"of a Deployment", replicaSet(`, ownerReferences: [{kind: Deployment, name: d, uid: d, controller: true}]`, "",
			"2026-05-01T11:10:00Z"), "ReplicaSet shop r", "no OlderTemplate", ""},
		{"Jobs that are suspended", cron("suspend: true, "), "CronJob shop c",
			"Suspended CronJob/c spec.jobTemplate.spec.suspend true false note", "Of the Jobs that CronJob c makes"},
		{"Jobs without Pods", cron("parallelism: 0, "), "CronJob shop c",
			"ParallelismZero CronJob/c spec.jobTemplate.spec.parallelism 0 1 broken",
			"/spec/jobTemplate/spec/parallelism"},
		{"Jobs of others", cron("managedBy: example.com/x, "), "CronJob shop c",
			"OtherController CronJob/c spec.jobTemplate.spec.managedBy example.com/x - broken", ""},
		{"Jobs as usual", cron("parallelism: 2, "), "CronJob shop c", "no ParallelismZero", ""},
		{"recreated after minutes", ending("Deployment", "replicas: 1, strategy: {type: Recreate}", "d-1",
			"2026-05-01T12:04:00Z"), "Deployment shop d", "WaitsForEnd Deployment/d spec.strategy.type Recreate - " +
			"threat",
			"300 s"},
		{"recreated soon", ending("Deployment", "replicas: 1, strategy: {type: Recreate}", "d-1",
			"2026-05-01T12:00:20Z"),
			"Deployment shop d", "WaitsForEnd Deployment/d spec.strategy.type Recreate - note", ""},
		{"replaced beside it", ending("Deployment", "replicas: 1, strategy: {type: RollingUpdate}", "d-1",
			"2026-05-01T12:04:00Z"), "Deployment shop d", "no WaitsForEnd", ""},
		{"name of a StatefulSet's Pod", ending("StatefulSet", "replicas: 1", "d-0", "2026-05-01T12:04:00Z"),
			"StatefulSet shop d", "WaitsForEnd StatefulSet/d spec.template.spec.terminationGracePeriodSeconds 300 - " +
				"threat",
			"has the same name"},
		{"scaled down", ending("StatefulSet", "replicas: 1", "d-1", "2026-05-01T12:04:00Z"), "StatefulSet shop d",
			"no WaitsForEnd", ""},
		{"node of a DaemonSet's Pod", ending("DaemonSet", "", "d-x", "2026-05-01T12:04:00Z"), "DaemonSet shop d",
			"WaitsForEnd DaemonSet/d spec.template.spec.terminationGracePeriodSeconds 300 - threat", "one on each " +
				"node"},
		{"resized beyond its node", resized(`"12"`, namedNodes), "Pod shop web",
			"ResizePending " + at + ".resources.requests.cpu 12 100m broken", "8 allocatable"},
		{"resized beyond what is free", resized(`"6"`, namedNodes), "Pod shop web",
			"ResizePending " + at + ".resources.requests.cpu 6 100m threat", "no room"},
		{"resized on an unknown node", resized(`"6"`, ""), "Pod shop web",
			"ResizePending " + at + ".resources.requests.cpu 6 100m threat", "Deferred"},
		{"metric of Pods", scaler(`{type: Pods, pods: {metric: {name: rps}, target: {type: AverageValue, ` +
			`averageValue: 1}}}`),
			"HorizontalPodAutoscaler shop h", "MetricsNotServed HorizontalPodAutoscaler/h " +
				"spec.metrics[0].pods.metric.name rps - broken", "custom.metrics.k8s.io"},
		{"metric from outside", scaler(`{type: External, external: {metric: {name: queue}, target: {type: Value, ` +
			`value: 1}}}`), "HorizontalPodAutoscaler shop h", "MetricsNotServed HorizontalPodAutoscaler/h " +
			"spec.metrics[0].external.metric.name queue - broken", "external.metrics.k8s.io"},
		{"metric of resources", scaler(`{type: Resource, resource: {name: cpu, target: {type: AverageValue, ` +
			`averageValue: 1}}}`), "HorizontalPodAutoscaler shop h", "no MetricsNotServed", ""},
		{"claim of nobody", own(""), "Pod shop web", "NameTaken Pod/web spec.volumes[0].ephemeral web-v - broken",
			"belongs to nobody"},
		{"claim of another Pod", own(`, ownerReferences: [{kind: Pod, name: web, uid: other, controller: true}]`),
			"Pod shop web", "NameTaken Pod/web spec.volumes[0].ephemeral web-v - broken", "belongs to Pod web"},
		{"its own claim", own(`, ownerReferences: [{kind: Pod, name: web, uid: w, controller: true}]`), "Pod shop web",
			"no NameTaken", ""},
	} {
		kind, rest, _ := strings.Cut(c.of, " ")
		ns, name, _ := strings.Cut(rest, " ")
		of := clusterOf(t, c.cluster)
		of.Served = Served{"apps": {"deployments"}}
		found := Of(of, Object{kind, ns, name})
		if code, none := strings.CutPrefix(c.want, "no "); none {
			if slices.ContainsFunc(found, func(f Finding) bool { return f.Code == code }) {
				t.Errorf("%s: got %+v, want %s", c.name, found, c.want)
			}
			continue
		}
		var have []string
		ok := false
		for _, f := range found {
			severity, _ := f.Severity.MarshalText()
			words := []string{f.Code, f.Object.Kind + "/" + f.Object.Name, f.Field, f.Value, f.Want, string(severity)}
			for i, w := range words {
				if words[i] = strings.ReplaceAll(w, " ", "_"); w == "" {
					words[i] = "-"
				}
			}
			line := strings.Join(words, " ")
			text := f.Message
			for _, r := range f.Remedies {
				text += "\n" + r.Say + "\n" + strings.Join(r.Run, "\n")
			}
			have = append(have, line+" "+f.Message)
			ok = ok || line == c.want && strings.Contains(text, c.words)
		}
		if !ok {
			t.Errorf("%s: got\n  %s\nwant\n  %s (%s)", c.name, strings.Join(have, "\n  "), c.want, c.words)
		}
	}
}

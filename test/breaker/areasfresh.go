package breaker

// freshAreaKinds are more of workloads and scheduling, written on 2026-11-29 with those of
// newWorkloadKinds and newSchedulingKinds and before any rule was read; no rule is made for them.
var freshAreaKinds = []kind{
	{"fresh: Job's deadline passes in its init container", object("batch/v1", "Job", "$C", `spec: `+
		`{activeDeadlineSeconds: `+
		`3, template: {spec: {restartPolicy: Never, initContainers: [{name: $A, image: app}], containers: `+
		`[`+app+`]}}}`),
		"job/$C", []truth{{kinds: "Job", field: "activeDeadlineSeconds", value: "3", numbers: []string{"3"},
			want: "activeDeadlineSeconds"}}, ""},
	{"fresh: Job of which one Pod of three has room", object("batch/v1", "Job", "$C", `spec: {completions: 3, `+
		`parallelism: `+
		`3, template: {spec: `+needs("1", "restartPolicy: Never, ")+`}}`), "job/$C",
		[]truth{{kinds: "Job Pod", field: "example.com/$NS", value: "1", numbers: []string{"1", "node-1"}}}, room("1")},
	{"fresh: init container needs more than the node has", single("$C", `{initContainers: [{name: $A, image: exit-0, `+
		`resources: {limits: {example.com/$NS: 4}}}], containers: [{name: app, image: app, resources: {limits: `+
		`{example.com/$NS: 1}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "initContainers[0].resources", value: "4",
			numbers: []string{"4", "2"}}}, room("2")},
	{"fresh: quota refuses a ReplicationController", quotaOf("$A", "pods: "+
		"0") + object("v1", "ReplicationController", "$C",
		`spec: {replicas: 1, selector: {app: $C}, template: {metadata: {labels: {app: $C}}, spec: `+plainApp+`}}`),
		"replicationcontroller/$C", []truth{{kinds: "ResourceQuota", field: "hard.pods", value: "0",
			numbers: []string{"$A", "0"}}}, ""},
	{"fresh: StatefulSet scaled beyond its quota", quotaOf("$A", "pods: 2") + stateful("$C", `""`, "", plainApp),
		"statefulset/$C", []truth{{kinds: "ResourceQuota", field: "hard.pods", value: "2",
			numbers: []string{"2", "$A"}}},
		`statefulset/$C {"spec":{"replicas":4}}`},
	{"fresh: DaemonSet rolled out to a probe that fails", object("apps/v1", "DaemonSet", "$C", `spec: {selector: `+
		`{matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {terminationGracePeriodSeconds: 1, `+
		`tolerations: [{operator: Exists}], containers: [`+app+`]}}}`), "daemonset/$C",
		[]truth{{kinds: "DaemonSet Pod", field: "readinessProbe", numbers: []string{"$N"}}},
		`daemonset/$C {"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app","readinessProbe":` +
			`{"periodSeconds":1,"exec":{"command":["sh","-c","exit $N"]}}}]}}}}`},
	{"fresh: autoscaler of a Job", object("batch/v1", "Job", "$A", `spec: {template: {spec: {restartPolicy: Never, `+
		`containers: [`+app+`]}}}`) + object("autoscaling/v2", "HorizontalPodAutoscaler", "$C", `spec: {maxReplicas: `+
		`5, `+
		`scaleTargetRef: {apiVersion: batch/v1, kind: Job, name: $A}}`), "hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "scaleTargetRef", value: "Job"}}, ""},
	{"fresh: autoscaler of a metric from " +
		"outside", workload("$A", withRequest("cpu", "100m")) + scalerOf("$C", "Deployment",
		"$A", `metrics: [{type: External, external: {metric: {name: queue_$B}, target: {type: Value, value: "$N"}}}]`),
		"hpa/$C", []truth{{kinds: "HorizontalPodAutoscaler", field: "external", value: "queue_$B"}}, ""},
	{"fresh: budget wants more Pods than there are", workload("$A", plainApp) + budgetOf("$C", "$A", "minAvailable: 5"),
		"pdb/$C", []truth{{kinds: "PodDisruptionBudget", field: "minAvailable", value: "5", numbers: []string{"5", "2"},
			want: "minAvailable"}}, ""},
	{"fresh: quota of Pods without requests, used up by another", object("v1", "ResourceQuota", "$A", `spec: {hard: `+
		`{pods: `+
		`1}, scopes: [BestEffort]}`) + single("$B", plainApp), "deployment/$C",
		[]truth{{kinds: "ResourceQuota", field: "hard.pods", value: "1", numbers: []string{"1", "$A"}}},
		"quota/$A until status.used.pods=1\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: $C}, spec: " +
			"{selector: " +
			"{matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: " + plainApp + "}}}"},
	{"fresh: quota asks for requests of the disk", quotaOf("$A", "requests.ephemeral-storage: 8Gi") + workload("$C",
		plainApp), "deployment/$C",
		[]truth{{kinds: podOrOwner + " ResourceQuota", field: "ephemeral-storage", numbers: []string{"$A"},
			want: "ephemeral-storage"}}, ""},
	{"fresh: default limit of memory below the request", rangeOf("$A", "default: {memory: $N0Mi}") + workload("$C",
		withRequest("memory", "200Mi")), "deployment/$C",
		[]truth{{kinds: "LimitRange " + podOrOwner, field: "default.memory|requests.memory", numbers: []string{"200Mi",
			"$N0Mi", "$A"}}}, ""},
	{"fresh: claim smaller than a range allows", object("v1", "LimitRange", "$A", `spec: {limits: [{type: `+
		`PersistentVolumeClaim, min: {storage: 1$NGi}}]}`) + claimTemplates("$C", "1Gi"), "statefulset/$C",
		[]truth{{kinds: "LimitRange StatefulSet", field: "min|volumeClaimTemplates", value: "1$NGi|1Gi",
			numbers: []string{"$A", "1$NGi"}}}, ""},
	{"fresh: priority class with one letter wrong", priority("$A", "100$N", "") + workload("$C", `{priorityClassName: `+
		`$NS-$a, containers: [`+app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "priorityClassName", value: "$NS-$a", want: "$NS-$A"}}, ""},
	{"fresh: room is being kept for a Pod that matters more", priority("$P", "100$N", "") + single("$A",
		`{terminationGracePeriodSeconds: $N00, containers: [{name: app, image: ignores-term, resources: {limits: `+
			`{example.com/$NS: 1}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "example.com/$NS", value: "1", numbers: []string{"$A|$B"}}},
		room("1") + "pod/$A until status.phase=Running\n" + later("$B", needs("1", "priorityClassName: $NS-$P, ")) +
			"pod/$B until status.nominatedNodeName=node-1\n" + later("$C", needs("1", ""))},
	{"fresh: gang whose member's claim is missing", gangOf("$A", "2") + member("$C", "$A", "") + member("$B", "$A",
		"volumes: [{name: v, persistentVolumeClaim: {claimName: $P}}], "), "pod/$C",
		[]truth{{kinds: "Pod", field: "claimName", value: "$P", numbers: []string{"$B"}}}, ""},
	{"fresh: gang whose member tolerates nothing", gangOf("$A", "2") + member("$C", "$A", "") + member("$B", "$A",
		"nodeSelector: {kubernetes.io/hostname: node-2}, "), "pod/$C",
		[]truth{{kinds: "Pod", field: "tolerations|nodeSelector", numbers: []string{"$B"}}}, ""},
	{"fresh: resize to more memory than the node has", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-1}, `+
		`containers: [{name: app, image: app, resources: {requests: {memory: 10Mi}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "resources.requests.memory", value: "9$N0Gi", numbers: []string{"9$N0Gi"}}},
		`pod/$C until status.phase=Running` + "\n" + `pod/$C/resize ` +
			`{"spec":{"containers":[{"name":"app","image":"app",` +
			`"resources":{"requests":{"memory":"9$N0Gi"}}}]}}`},
	{"fresh: Pods of a StatefulSet that may not share the only node", stateful("$C", `""`, "", `{containers: [`+app+
		`], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: `+
		`kubernetes.io/hostname, labelSelector: {matchLabels: {app: $C}}}]}}}`), "statefulset/$C",
		[]truth{{kinds: podOrOwner, field: "podAntiAffinity", numbers: []string{"$C-0", "node-1"}}}, ""},
	{"fresh: toleration without its value", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-2}, `+
		`tolerations: `+
		`[{key: team, operator: Equal, effect: NoSchedule}], containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "tolerations", value: "team", want: "$TEAM|Exists"}}, ""},
	{"fresh: StatefulSet whose Pods have a gate", stateful("$C", `""`, "", `{schedulingGates: [{name: `+
		`example.com/$A}], `+
		`containers: [`+app+`]}`), "statefulset/$C",
		[]truth{{kinds: podOrOwner, field: "schedulingGates", value: "example.com/$A", numbers: []string{"$C-0"}}}, ""},
	{"fresh: device's taint, and a toleration with one letter wrong", taintedDevice("$NS", "example.com/$A") + object(
		"resource.k8s.io/v1", "ResourceClaim", "$B", `spec: {devices: {requests: [{name: d, exactly: `+
			`{deviceClassName: `+
			`$NS.example.com, tolerations: [{key: example.com/$a, operator: `+
			`Exists}]}}]}}`) + claiming("$C", "$B"), "pod/$C",
		[]truth{{kinds: "ResourceClaim " +
			"ResourceSlice", field: "tolerations|taints", value: "example.com/$a|example.com/$A",
			want: "example.com/$A"}}, ""},
	{"fresh: the only device is of a cordoned " +
		"node", object("resource.k8s.io/v1", "DeviceClass", "$NS.example.com", `spec: `+
		`{selectors: [{cel: {expression: "device.driver == '$NS.example.com'"}}]}`) + object("resource.k8s.io/v1",
		"ResourceSlice", "$NS-3", `spec: {nodeName: node-3, driver: $NS.example.com, pool: {name: $NS, generation: 1, `+
			`resourceSliceCount: 1}, devices: [{name: one}]}`) + deviceClaim("$A") + claiming("$C", "$A"), "pod/$C",
		[]truth{{kinds: "Node Pod ResourceClaim", field: "unschedulable|deviceClassName|requests",
			numbers: []string{"node-3"}, want: "uncordon"}}, ""},
	{"fresh: finalizer of a claim", volumeOf("$NS-$A", `storageClassName: $NS, `, "9Gi", "ReadWriteOnce") +
		`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: $C, finalizers: [example.com/$A]}, spec: ` +
		`{storageClassName: $NS, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`, "pvc/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "finalizers", value: "example.com/$A", want: "finalizers"}},
		`persistentvolumeclaim/$C delete`},
	{"fresh: two: gate, and a Secret that is missing", single("$C", `{schedulingGates: [{name: example.com/$A}], `+
		`containers: [{name: app, image: app, envFrom: [{secretRef: {name: $B}}]}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "schedulingGates", value: "example.com/$A"},
			{kinds: "Pod", field: "secretRef", value: "$B"}}, ""},
	{"fresh: two: Service missing, and Pods that count after an hour", stateful("$C", "$A", "minReadySeconds: 3$N00, ",
		plainApp), "statefulset/$C",
		[]truth{{kinds: "StatefulSet", field: "serviceName", value: "$A"},
			{kinds: "StatefulSet", field: "minReadySeconds", value: "3$N00"}}, ""},
	{"fresh: well: Job far from its deadline", jobOf("$C", "activeDeadlineSeconds: $N00, ", "app"), "job/$C", nil, ""},
	{"fresh: well: gang of more than it " +
		"needs", gangOf("$A", "2") + member("$C", "$A", "") + member("$B", "$A", "") + member(
		"$P", "$A", ""), "podgroup/$A", nil, "pod/$C until status.phase=Running"},
	{"fresh: well: StatefulSet scaled down", stateful("$C", `""`, "", plainApp), "statefulset/$C", nil,
		`statefulset/$C {"spec":{"replicas":1}}`},
	{"fresh: well: within all bounds", rangeOf("$A", "min: {cpu: 10m}, max: {cpu: 500m}, default: {cpu: "+
		"100m}") + workload(
		"$C", plainApp), "deployment/$C", nil, ""},
	{"fresh: well: quota of Pods with a deadline, and a Pod without", object("v1", "ResourceQuota", "$A", `spec: `+
		`{hard: `+
		`{pods: 0}, scopes: [Terminating]}`) + workload("$C", plainApp), "deployment/$C", nil, ""},
}

package breaker

// areaKinds are scheduling, quotas, workloads, deletions and nodes, beyond the plain cases.
var areaKinds = []kind{
	{"area: host port that two Pods want", object("apps/v1", "Deployment", "$C", `spec: {replicas: 2, selector: `+
		`{matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {containers: [{name: app, `+
		`image: app, ports: [{containerPort: 8080, hostPort: 70$N0}]}]}}}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "hostPort", value: "70$N0", numbers: []string{"70$N0"}}}, ""},
	{"area: node affinity with a number that is none", single("$C", `{containers: [`+app+`], affinity: {nodeAffinity: `+
		`{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: `+
		`example.com/$A, operator: Gt, values: ["$N"]}]}]}}}}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "nodeAffinity", value: "example.com/$A"}}, ""},
	{"area: node affinity that excludes the only node", single("$C", `{containers: [`+app+`], affinity: `+
		`{nodeAffinity: `+
		`{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: `+
		`kubernetes.io/hostname, operator: NotIn, values: [node-1]}]}]}}}}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "nodeAffinity", value: "node-1"}}, ""},
	{"area: matchFields of a node that is not there", single("$C", `{containers: [`+app+`], affinity: {nodeAffinity: `+
		`{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: `+
		`metadata.name, operator: In, values: [nod-1]}]}]}}}}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "nodeAffinity", value: "nod-1", want: "node-1"}}, ""},
	{"area: nodeName of a node that is not there", single("$C", `{nodeName: nod-1, containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "nodeName", value: "nod-1", want: "node-1"}}, ""},
	{"area: anti-affinity of another Pod", single("$A", `{nodeSelector: {kubernetes.io/hostname: node-1}, containers: `+
		`[`+app+`], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: `+
		`kubernetes.io/hostname, labelSelector: {matchLabels: {app: $C}}}]}}}`) + single("$C", plainApp), "pod/$C",
		[]truth{{kinds: "Pod", field: "podAntiAffinity", numbers: []string{"$A"}}}, ""},
	{"area: affinity to Pods of another namespace", single("$A", plainApp) + single("$C", `{containers: [`+app+`], `+
		`affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: `+
		`kubernetes.io/hostname, namespaces: [$NSx], labelSelector: {matchLabels: {app: $A}}}]}}}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "podAffinity", value: "$NSx", want: "$NS"}}, ""},
	{"area: affinity over a key that no node has", single("$A", plainApp) + single("$C", `{containers: [`+app+`], `+
		`affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: `+
		`kubernetes.io/hostnam, labelSelector: {matchLabels: {app: $A}}}]}}}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "topologyKey", value: "hostnam", want: "kubernetes.io/hostname"}}, ""},
	{"area: cpu of several containers", single("$C", `{containers: [{name: $A, image: app, resources: {requests: `+
		`{cpu: `+
		`5500m}}}, {name: $B, image: app, resources: {requests: {cpu: 4500m}}}]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "cpu", numbers: []string{"10", "8"}}}, ""},
	{"area: cpu of a container and a sidecar", single("$C", `{initContainers: [{name: $A, image: app, restartPolicy: `+
		`Always, resources: {requests: {cpu: "5"}}}], containers: [{name: $B, image: app, resources: {requests: `+
		`{cpu: "6"}}}]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "cpu", numbers: []string{"11", "8"}}}, ""},
	{"area: overhead of a runtime class", object("node.k8s.io/v1", "RuntimeClass", "$NS-$A", `handler: runc, `+
		`overhead: `+
		`{podFixed: {cpu: "1$N"}}`) + single("$C", `{runtimeClassName: $NS-$A, containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod RuntimeClass", field: "overhead", value: "1$N", numbers: []string{"8"}}}, ""},
	{"area: resources of the Pod", single("$C", `{resources: {requests: {cpu: "1$N"}}, containers: `+
		`[`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "spec.resources.requests.cpu", value: "1$N", numbers: []string{"8"}}}, ""},
	{"area: huge pages that no node has", single("$C", `{containers: [{name: app, image: app, resources: {requests: `+
		`{memory: 1Gi, cpu: 100m}, limits: {hugepages-2Mi: 1$N0Mi, memory: 1Gi}}}]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "hugepages-2Mi", value: "1$N0Mi"}}, ""},
	{"area: ephemeral storage that no node has", single("$C", withRequest("ephemeral-storage", "9$NTi")), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "ephemeral-storage", value: "9$NTi"}}, ""},
	{"area: node selector and taint at once", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-2}, `+
		`containers: `+
		`[{name: app, image: app, resources: {requests: {cpu: "1$N"}}}]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "cpu", value: "1$N", numbers: []string{"8"}},
			{kinds: podOrOwner, field: "tolerations", numbers: []string{"team=$TEAM:NoSchedule"}}}, ""},
	{"area: quota of a scope", object("v1", "ResourceQuota", "$A", `spec: {hard: {pods: 0}, scopes: `+
		`[BestEffort]}`) + workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: "ResourceQuota Deployment", field: "hard|template", numbers: []string{"$A", "0"}}}, ""},
	{"area: quota of objects", quotaOf("$C", `count/configmaps: 9, services: 0`) + configMap("$A", `x: "1"`),
		"quota/$C",
		[]truth{{kinds: "ResourceQuota", field: "services", value: "0"}}, ""},
	{"area: quota of claims", quotaOf("$A", "persistentvolumeclaims: 0") + object("apps/v1", "StatefulSet", "$C",
		`spec: `+
			`{serviceName: "", selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+
			plainApp+`}, volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: `+
			`{requests: {storage: 1Gi}}}}]}`), "statefulset/$C",
		[]truth{{kinds: "ResourceQuota StatefulSet", field: "hard|volumeClaimTemplates", numbers: []string{"$A",
			"0"}}}, ""},
	{"area: claim template of a missing class", object("apps/v1", "StatefulSet", "$C", `spec: {serviceName: "", `+
		`selector: `+
		`{matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+plainApp+`}, `+
		`volumeClaimTemplates: [{metadata: {name: d}, spec: {storageClassName: $A, accessModes: [ReadWriteOnce], `+
		`resources: {requests: {storage: 1Gi}}}}]}`), "statefulset/$C",
		[]truth{{kinds: "StatefulSet PersistentVolumeClaim", field: "storageClassName", value: "$A"}}, ""},
	{"area: Job that waits for more completions", object("batch/v1", "Job", "$C", `spec: {completions: 3, `+
		`parallelism: 1, `+
		`backoffLimit: 1, template: {spec: {restartPolicy: Never, containers: [{name: $A, image: exit-4}]}}}`),
		"job/$C", []truth{{kinds: "Job", field: "backoffLimit", value: "1", numbers: []string{"1"}}}, ""},
	{"area: indexed Job with failing indexes", object("batch/v1", "Job", "$C", `spec: {completions: 2, `+
		`parallelism: 2, `+
		`completionMode: Indexed, backoffLimitPerIndex: 0, template: {spec: {restartPolicy: Never, containers: `+
		`[{name: app, image: exit-3}]}}}`), "job/$C",
		[]truth{{kinds: "Job", field: "backoffLimitPerIndex", value: "0"}}, ""},
	{"area: Job whose failure policy ends it", object("batch/v1", "Job", "$C", `spec: {podFailurePolicy: {rules: `+
		`[{action: `+
		`FailJob, onExitCodes: {operator: In, values: [3]}}]}, template: {spec: {restartPolicy: Never, containers: `+
		`[{name: app, image: exit-3}]}}}`), "job/$C",
		[]truth{{kinds: "Job", field: "podFailurePolicy.rules[0]", numbers: []string{"3"}}}, ""},
	{"area: CronJob in a month without that day", cronOf("$C", "0 $N 31 4,6,9,11 *", ""), "cronjob/$C",
		[]truth{{kinds: "CronJob", field: "schedule", value: "0 $N 31 4,6,9,11 *"}}, ""},
	{"area: DaemonSet to a cordoned and tainted node only", object("apps/v1", "DaemonSet", "$C", `spec: {selector: `+
		`{matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {nodeSelector: `+
		`{kubernetes.io/hostname: node-2}, containers: [`+app+`]}}}`), "daemonset/$C",
		[]truth{{kinds: "DaemonSet", field: "tolerations", numbers: []string{"team=$TEAM:NoSchedule"}}}, ""},
	{"area: roll-out to an image that crashes", workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "containers[0]", value: "app", numbers: []string{"3"}}},
		`deployment/$C {"spec":{"template":{"spec":{"containers":[{"name":"app","image":"exit-3"}]}}}}`},
	{"area: roll-out that asks for too much", workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "cpu", value: "1$N", numbers: []string{"1$N", "8"}}},
		`deployment/$C {"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app","resources":` +
			`{"requests":{"cpu":"1$N"}}}]}}}}`},
	{"area: StatefulSet held by its first Pod", object("apps/v1", "StatefulSet", "$C", `spec: {serviceName: "", `+
		`replicas: `+
		`3, selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {containers: `+
		`[{name: $A, image: exit-4}]}}}`), "statefulset/$C",
		[]truth{{kinds: podOrOwner, field: "containers[0]", value: "$A", numbers: []string{"4"}}}, ""},
	{"area: budget of another namespace's words", workload("$A", plainApp) + object("policy/v1", "PodDisruptionBudget",
		"$C", `spec: {minAvailable: 1, selector: {matchExpressions: [{key: app, operator: In, values: [$a]}]}}`),
		"pdb/$C", []truth{{kinds: "PodDisruptionBudget", field: "selector", value: "$a", want: "$A"}}, ""},
	{"area: finalizer of a Pod", `{apiVersion: v1, kind: Pod, metadata: {name: $C, finalizers: ` +
		`[example.com/$A]}, spec: ` +
		`{terminationGracePeriodSeconds: 0, containers: [{name: app, image: app}]}}`, "pod/$C",
		[]truth{{kinds: "Pod", field: "finalizers", value: "$A", want: "finalizers"}}, `pod/$C delete`},
	{"area: finalizer of a Service", `{apiVersion: v1, kind: Service, metadata: {name: $C, finalizers: [` +
		`example.com/$A]}, spec: {clusterIP: None, selector: {app: $C}}}` + "\n---\n" + single("$C", plainApp),
		"service/$C", []truth{{kinds: "Service", field: "finalizers", value: "$A"}}, `service/$C delete`},
	{"area: preemption that is forbidden", object("scheduling.k8s.io/v1", "PriorityClass", "$NS-$A", `value: 100$N, `+
		`preemptionPolicy: Never`) + single("$C", `{priorityClassName: `+
		`$NS-$A, containers: [{name: app, image: app, resources: {requests: {cpu: "1$N"}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "cpu", value: "1$N", numbers: []string{"8"}}}, ""},
	{"area: device claim of a missing template", single("$C", `{resourceClaims: [{name: d, `+
		`resourceClaimTemplateName: $A}], `+
		`containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "resourceClaimTemplateName", value: "$A"}}, ""},
	{"area: device claim that no device meets", object("resource.k8s.io/v1", "DeviceClass", "$NS.example.com",
		`spec: {}`) +
		object("resource.k8s.io/v1", "ResourceClaim", "$A", `spec: {devices: {requests: [{name: d, exactly: `+
			`{deviceClassName: $NS.example.com}}]}}`) + single("$C", `{resourceClaims: [{name: d, resourceClaimName: `+
		`$A}], containers: [{name: app, image: app, resources: {claims: [{name: d}]}}]}`), "pod/$C",
		[]truth{{kinds: "ResourceClaim Pod", field: "deviceClassName|resourceClaims"}}, ""},
	{"area: toleration that Exists with another key", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-2}, `+
		`tolerations: [{key: teams, operator: Exists}], containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "tolerations", value: "teams", want: "team"}}, ""},
	{"area: autoscaler between equal bounds", workload("$A", withRequest("cpu", "100m")) + object("autoscaling/v2",
		"HorizontalPodAutoscaler", "$C", `spec: {minReplicas: $N, maxReplicas: $N, scaleTargetRef: {apiVersion: `+
			`apps/v1, kind: Deployment, name: $A}}`), "hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "minReplicas|maxReplicas", value: "$N"}}, ""},
	{"area: owner of a Pod that is not there", `{apiVersion: v1, kind: Pod, metadata: {name: $C, finalizers: ` +
		`[example.com/$A], ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: $b, uid: "$N"}]}, spec: ` +
		`{containers: [{name: app, image: app}]}}`, "pod/$C",
		[]truth{{kinds: "Pod", field: "ownerReferences|finalizers"}}, ""},
	{"area: no requests and a priority that is missing", single("$A", plainApp) + workload("$C", `{priorityClassName: `+
		`$NS-$A, runtimeClassName: $NS-$B, containers: [`+app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "priorityClassName", value: "$NS-$A"},
			{kinds: podOrOwner, field: "runtimeClassName", value: "$NS-$B"}}, ""},
	{"area: well: Pod beside another", single("$A", plainApp) + single("$C", `{containers: [`+app+`], affinity: `+
		`{podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, `+
		`labelSelector: {matchLabels: {app: $A}}}]}}}`), "pod/$C", nil, ""},
	{"area: well: first Pod of its own affinity", single("$C", `{containers: [`+app+`], affinity: {podAffinity: `+
		`{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: `+
		`{matchLabels: {app: $C}}}]}}}`), "pod/$C", nil, ""},
	{"area: well: tolerates and is sent there", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-2}, `+
		`tolerations: `+
		`[{key: team, operator: Exists}], containers: [`+app+`]}`), "pod/$C", nil, ""},
	{"area: well: preferred affinity that nothing meets", single("$C", `{containers: [`+app+`], affinity: `+
		`{nodeAffinity: `+
		`{preferredDuringSchedulingIgnoredDuringExecution: [{weight: 5$N, preference: {matchExpressions: [{key: `+
		`example.com/$A, operator: Exists}]}}]}}}`), "pod/$C", nil, ""},
	{"area: well: spread where it may", workload("$C", `{containers: [`+app+`], topologySpreadConstraints: `+
		`[{maxSkew: 1, `+
		`topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: `+
		`{app: $C}}}]}`), "deployment/$C", nil, ""},
	{"area: well: Job that tried twice", jobOf("$C", "backoffLimit: $N, ttlSecondsAfterFinished: 600, ", "exit-0"),
		"job/$C",
		nil, ""},
	{"area: well: ranges with defaults", rangeOf("$A", "default: {cpu: 500m}, defaultRequest: {cpu: 100m}") +
		workload("$C",
			plainApp), "deployment/$C", nil, ""},
	{"area: well: quota with defaults", quotaOf("$B", "requests.cpu: 4") + rangeOf("$A", "defaultRequest: {cpu: "+
		"100m}") +
		workload("$C", plainApp), "deployment/$C", nil, ""},
	{"area: well: rolled out", workload("$C", plainApp), "deployment/$C", nil,
		`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"area: well: priority class", object("scheduling.k8s.io/v1", "PriorityClass", "$NS-$A", `value: `+
		`100$N`) + workload("$C",
		`{priorityClassName: $NS-$A, containers: [`+app+`]}`), "deployment/$C", nil, ""},
	{"area: well: scaled to one with a budget of a quarter", workload("$A", plainApp) + budgetOf("$C", "$A",
		`maxUnavailable: "25%"`), "pdb/$C", nil, ""},
	{"area: well: CronJob with a time zone", cronOf("$C", "0 $N * * *", "timeZone: Europe/Berlin, "), "cronjob/$C",
		nil, ""},
	{"area: well: parallel StatefulSet", object("apps/v1", "StatefulSet", "$C", `spec: {serviceName: "", replicas: 3, `+
		`podManagementPolicy: Parallel, selector: {matchLabels: {app: $C}}, template: {metadata: {labels: `+
		`{app: $C}}, spec: `+plainApp+`}}`), "statefulset/$C", nil, ""},
}

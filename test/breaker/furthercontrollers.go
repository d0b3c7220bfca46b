package breaker

// furtherControllerKinds are more of what controllers cannot do.
var furtherControllerKinds = []kind{
	{"roll-out: all of a node's cpu, and no Pod may be away", object("apps/v1", "Deployment", "$C", `spec: {replicas: `+
		`1, strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}, selector: {matchLabels: {app: $C}}, `+
		`template: `+
		`{metadata: {labels: {app: $C}}, spec: {nodeSelector: {kubernetes.io/hostname: node-2}, tolerations: [{key: `+
		`team, operator: Exists}], containers: [{name: app, image: app, resources: {requests: {cpu: "5"}}}]}}}`),
		"deployment/$C",
		[]truth{{kinds: podOrOwner, field: "cpu|maxUnavailable", want: "maxUnavailable|Recreate",
			numbers: []string{"5|5000m|1"}}},
		`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"claim that a finished namespace's Pod holds", volumeOf("$NS-$A", `storageClassName: $NS, `, "9Gi",
		"ReadWriteOnce") + claimOf("$A", `storageClassName: $NS, volumeName: $NS-$A, `) + single("$C",
		claimVolume("$A")),
		"persistentvolumeclaim/$A", []truth{{kinds: "PersistentVolumeClaim", field: "finalizers",
			value: "pvc-protection", numbers: []string{"$C"}, want: "$C"}}, `persistentvolumeclaim/$A delete`},
	{"Job that waits for the end of its Pods", `{apiVersion: batch/v1, kind: Job, metadata: {name: $C, finalizers: ` +
		`[foregroundDeletion]}, spec: {template: {metadata: {finalizers: [example.com/$A]}, spec: {restartPolicy: ` +
		`Never, ` +
		`terminationGracePeriodSeconds: 1, containers: [` + app + `]}}}}`, "job/$C",
		[]truth{{kinds: "Pod", field: "finalizers", value: "$A", want: "finalizers"}}, `job/$C delete`},
	{"StatefulSet that waits for the end of its Pods", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: ` +
		`$C, ` +
		`finalizers: [foregroundDeletion]}, spec: {serviceName: "", replicas: 1, selector: {matchLabels: {app: $C}}, ` +
		`template: {metadata: {labels: {app: $C}, finalizers: [example.com/$A]}, spec: ` +
		`{terminationGracePeriodSeconds: 1, ` +
		`containers: [` + app + `]}}}}`, "statefulset/$C",
		[]truth{{kinds: "Pod", field: "finalizers", value: "$A", want: "finalizers"}}, `statefulset/$C delete`},
	{"namespace that waits for a Pod's finalizer", `{apiVersion: v1, kind: Pod, metadata: {name: $C, finalizers: ` +
		`[example.com/$A]}, spec: {terminationGracePeriodSeconds: 0, containers: [` + app + `]}}`, "namespace/$NS",
		[]truth{{kinds: "Pod", field: "finalizers", value: "$A", want: "finalizers"}}, `namespace/$NS delete`},
	{"quota of Pods refuses a StatefulSet's second", quotaOf("$A", "pods: 1") + stateful("$C", `""`, "", plainApp),
		"statefulset/$C", []truth{{kinds: "ResourceQuota", field: "spec.hard.pods", value: "1",
			numbers: []string{"1"}, want: "2"}}, ""},
	{"quota of memory limits by a default", rangeOf("$A", `default: {memory: $NGi}`) + quotaOf("$B",
		"limits.memory: 1Gi") + workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: "LimitRange", field: "default.memory", value: "$NGi", numbers: []string{"$B", "1Gi"}},
			{kinds: "ResourceQuota", field: "limits.memory", value: "1Gi"}}, ""},
	{"quota of GPUs", quotaOf("$A", "requests.example.com/gpu: 1") + workload("$C", `{containers: [{name: app, image: `+
		`app, resources: {limits: {example.com/gpu: $N}}}]}`), "deployment/$C",
		[]truth{{kinds: "ResourceQuota " + podOrOwner, field: "example.com/gpu", value: "1|$N",
			numbers: []string{"$N", "1"}}}, ""},
	{"quota of load balancers", quotaOf("$C", "services.loadbalancers: 0"), "quota/$C",
		[]truth{{kinds: "ResourceQuota", field: "services.loadbalancers", value: "0"}}, ""},
	{"quota of a priority class", quotaScoped("$A", "pods: 0", "$NS-$B") + object("scheduling.k8s.io/v1",
		"PriorityClass", "$NS-$B", "value: 1$N") + workload("$C", `{priorityClassName: $NS-$B, containers: [`+app+`]}`),
		"deployment/$C", []truth{{kinds: "ResourceQuota", field: "spec.hard.pods", value: "0",
			numbers: []string{"$A"}}}, ""},
	{"range: Pod's minimum", object("v1", "LimitRange", "$A", `spec: {limits: [{type: Pod, min: {cpu: "1"}}]}`) +
		workload("$C", withRequest("cpu", "$N0m")), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "requests.cpu", value: "$N0m", want: "1", numbers: []string{"$A"}}}, ""},
	{"default request of a range that a quota refuses", rangeOf("$A", `defaultRequest: {cpu: "$N"}`) + quotaOf("$B",
		"requests.cpu: 1") + workload("$C", `{containers: [{name: app, image: app, resources: {limits: {memory: `+
		`1Gi}}}]}`), "deployment/$C",
		[]truth{{kinds: "LimitRange", field: "defaultRequest.cpu", value: "$N", numbers: []string{"$B"}},
			{kinds: "ResourceQuota", field: "requests.cpu", value: "1"}}, ""},
	{"bound by hand to a node, memory", single("$C", `{nodeName: node-1, containers: [{name: app, image: app, `+
		`resources: {requests: {memory: 90$NGi}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "memory", value: "90$NGi", numbers: []string{"90$NGi"}}}, ""},
	{"bound by hand to a node without its label", single("$C", `{nodeName: node-1, nodeSelector: {example.com/$A: `+
		`"yes"}, containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "nodeSelector", value: "example.com/$A"}}, ""},
	{"bound by hand, host port taken", single("$A", `{nodeName: node-1, containers: [{name: app, image: app, ports: `+
		`[{containerPort: 80, hostPort: 73$N0}]}]}`) + single("$C", `{nodeSelector: {kubernetes.io/hostname: node-1}, `+
		`containers: [{name: app, image: app, ports: [{containerPort: 80, hostPort: 73$N0}]}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "hostPort", value: "73$N0", numbers: []string{"$A"}}}, ""},
	{"budget of a percentage over bare Pods", single("$A", plainApp) + budgetOf("$C", "$A", `minAvailable: "50%"`),
		"pdb/$C", []truth{{kinds: "PodDisruptionBudget", field: "spec.minAvailable", value: "50%",
			want: "minAvailable"}}, ""},
	{"budget over Pods that are not ready", workload("$A", `{containers: [{name: app, image: exit-3}]}`) +
		budgetOf("$C",
			"$A", "minAvailable: 1"), "pdb/$C",
		[]truth{{kinds: "PodDisruptionBudget " + podOrOwner, field: "currentHealthy|containers[0]|minAvailable",
			numbers: []string{"0", "1"}}}, ""},
	{"device claim with its own selector", deviceOf("$NS") + object("resource.k8s.io/v1", "ResourceClaim", "$A",
		`spec: {devices: {requests: [{name: d, exactly: {deviceClassName: $NS.example.com, selectors: `+
			`[{cel: {expression: "device.driver == '$B.example.com'"}}]}}]}}`) + claiming("$C", "$A"), "pod/$C",
		[]truth{{kinds: "ResourceClaim", field: "selectors[0]", value: "$B.example.com"}}, ""},
	{"well: device claim that no Pod uses yet", deviceOf("$NS") + deviceClaim("$A") + deviceClaim("$B") + claiming("$P",
		"$A"), "resourceclaim/$B", nil, ""},
	{"autoscaler whose bounds are below its target", object("apps/v1", "Deployment", "$A", `spec: {replicas: 3, `+
		`selector: {matchLabels: {app: $A}}, template: {metadata: {labels: {app: $A}}, spec: `+withRequest("cpu",
		"10m")+
		`}}`) + object("autoscaling/v2", "HorizontalPodAutoscaler", "$C", `spec: {minReplicas: 1, maxReplicas: 5, `+
		`scaleTargetRef: {apiVersion: apps/v1, kind: Deploymnt, name: $A}}`), "hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "scaleTargetRef", value: "Deploymnt",
			want: "Deployment"}}, ""},
	{"certificate request that asks for too short a time", object("certificates.k8s.io/v1",
		"CertificateSigningRequest", "$NS-$C", `spec: {request: $CSR, signerName: kubernetes.io/kubelet-serving, `+
			`usages: [client auth]}`), "csr/$NS-$C",
		[]truth{{kinds: "CertificateSigningRequest", field: "usages", value: "client auth", want: "server auth"}}, ""},
	{"DaemonSet to nodes by a taint it does not tolerate", object("apps/v1", "DaemonSet", "$C", `spec: {selector: `+
		`{matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {nodeSelector: `+
		`{kubernetes.io/hostname: node-2}, tolerations: [{key: team, value: $A}], containers: [`+app+`]}}}`),
		"daemonset/$C", []truth{{kinds: "DaemonSet", field: "tolerations", value: "team=$A",
			want: "team=$TEAM"}}, ""},
	{"well: init container that takes its time", object("apps/v1", "Deployment", "$C", `spec: {replicas: 1, `+
		`selector: {matchLabels: `+
		`{app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {initContainers: [{name: $A, image: app}], `+
		`containers: [`+app+`]}}}`), "deployment/$C", nil, ""},
	{"well: budget of a whole number over bare Pods", single("$A", plainApp) + single("$B", plainApp) + object(
		"policy/v1", "PodDisruptionBudget", "$C", `spec: {minAvailable: 1, selector: {matchExpressions: [{key: app, `+
			`operator: In, values: [$A, $B]}]}}`), "pdb/$C", nil, ""},
	{"well: StatefulSet from an ordinal", object("apps/v1", "StatefulSet", "$C", `spec: {serviceName: "", `+
		`replicas: 2, `+
		`ordinals: {start: $N}, selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+
		plainApp+`}}`), "statefulset/$C", nil, ""},
	{"well: roll-out of three by default", object("apps/v1", "Deployment", "$C", `spec: {replicas: 3, selector: `+
		`{matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+plainApp+`}}`), "deployment/$C",
		nil, `deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"well: Job of an index", object("batch/v1", "Job", "$C", `spec: {completions: $N, parallelism: $N, `+
		`completionMode: `+
		`Indexed, template: {spec: {restartPolicy: Never, containers: [{name: app, image: exit-0}]}}}`), "job/$C", nil,
		""},
	{"well: class of a runtime", object("node.k8s.io/v1", "RuntimeClass", "$NS-$A", `handler: runc, scheduling: `+
		`{nodeSelector: {kubernetes.io/hostname: node-1}}`) + single("$C", `{runtimeClassName: $NS-$A, `+
		`containers: [`+app+
		`]}`), "pod/$C", nil, ""},
	{"well: defaults within the quota", rangeOf("$A", "default: {cpu: 100m, memory: 64Mi}") + quotaOf("$B",
		"requests.cpu: 1, limits.memory: 1Gi") + workload("$C", plainApp), "deployment/$C", nil, ""},
	{"well: deleted in order", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: $C, finalizers: ` +
		`[foregroundDeletion]}, spec: {serviceName: "", replicas: 1, selector: {matchLabels: {app: $C}}, template: ` +
		`{metadata: {labels: {app: $C}}, spec: {terminationGracePeriodSeconds: 120, containers: [{name: app, image: ` +
		`ignores-term}]}}}}`, "statefulset/$C", nil, `statefulset/$C delete`},
}

// quotaScoped is a quota over Pods of a priority class.
func quotaScoped(name, hard, class string) string {
	return object("v1", "ResourceQuota", name, `spec: {hard: {`+hard+`}, scopeSelector: {matchExpressions: `+
		`[{scopeName: `+
		`PriorityClass, operator: In, values: [`+class+`]}]}}`)
}

// deviceClaim is a claim of one device of the namespace's class.
func deviceClaim(name string) string {
	return object("resource.k8s.io/v1", "ResourceClaim", name, `spec: {devices: {requests: [{name: d, exactly: `+
		`{deviceClassName: $NS.example.com}}]}}`)
}

package breaker

// newWorkloadKinds are what stops, slows or refuses workloads, their roll-outs, autoscalers,
// budgets, quotas and deletions. They were written from the API's documentation on 2026-11-29,
// before their first score.
var newWorkloadKinds = []kind{
	{"workloads: roll-out past its deadline, with Pods that are never ready", deploy("$C", `replicas: 1, `+
		`progressDeadlineSeconds: $N, `, plainApp), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "readinessProbe", numbers: []string{"1"}},
			{kinds: "Deployment", field: "progressDeadlineSeconds|status.conditions", numbers: []string{"$N"}}},
		`deployment/$C {"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app","readinessProbe":` +
			`{"periodSeconds":1,"exec":{"command":["sh","-c","exit 1"]}}}]}}}}`},
	{"workloads: roll-out whose Pods count only after an hour", deploy("$C", `replicas: 2, minReadySeconds: 3$N00, `+
		`progressDeadlineSeconds: 9000, `, plainApp), "deployment/$C",
		[]truth{{kinds: "Deployment", field: "minReadySeconds", value: "3$N00", numbers: []string{"3$N00"},
			want: "minReadySeconds"}}, ""},
	{"workloads: StatefulSet whose first Pod counts only after an hour", stateful("$C", `""`, "minReadySeconds: "+
		"3$N00, ",
		plainApp), "statefulset/$C",
		[]truth{{kinds: "StatefulSet", field: "minReadySeconds", value: "3$N00", numbers: []string{"3$N00"},
			want: "minReadySeconds"}}, ""},
	{"workloads: DaemonSet whose first new Pod counts only after an hour", object("apps/v1", "DaemonSet", "$C",
		`spec: {minReadySeconds: 3$N00, selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: `+
			`$C}}, spec: {tolerations: [{operator: Exists}], containers: [`+app+`]}}}`), "daemonset/$C",
		[]truth{{kinds: "DaemonSet", field: "minReadySeconds", value: "3$N00", numbers: []string{"3$N00"},
			want: "minReadySeconds"}},
		`daemonset/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"workloads: StatefulSet rolled out to what crashes, the last Pod first", stateful("$C", `""`, "", plainApp),
		"statefulset/$C", []truth{{kinds: podOrOwner, field: "containers[0]", numbers: []string{"3", "$C-1"}}},
		`statefulset/$C {"spec":{"template":{"spec":{"containers":[{"name":"app","image":"exit-3"}]}}}}`},
	{"workloads: ReplicaSet that took a stray Pod as its own", single("$C", `{containers: [{name: $A, image: `+
		`exit-4}]}`) +
		object("apps/v1", "ReplicaSet", "$P", `spec: {replicas: 1, selector: {matchLabels: {app: $C}}, template: `+
			`{metadata: {labels: {app: $C}}, spec: `+plainApp+`}}`), "replicaset/$P",
		[]truth{{kinds: "Pod", field: "containers[0]", value: "$A", numbers: []string{"4", "$C"}}}, ""},
	{"workloads: old Pod of a recreated Deployment has a finalizer", `{apiVersion: apps/v1, kind: Deployment, ` +
		`metadata: ` +
		`{name: $C}, spec: {replicas: 1, strategy: {type: Recreate}, selector: {matchLabels: {app: $C}}, template: ` +
		`{metadata: {labels: {app: $C}, finalizers: [example.com/$A]}, spec: {terminationGracePeriodSeconds: 1, ` +
		`containers: [` + app + `]}}}}`, "deployment/$C",
		[]truth{{kinds: "Pod", field: "finalizers", value: "example.com/$A", want: "finalizers"}},
		`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"workloads: Deployment of which a part has room", object("apps/v1", "Deployment", "$C", `spec: {replicas: 3, `+
		`selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+needs("1", "")+`}}`),
		"deployment/$C", []truth{{kinds: podOrOwner, field: "example.com/$NS", value: "1", numbers: []string{"2"}}},
		room("2")},
	{"workloads: DaemonSet that asks for what one node of three has", object("apps/v1", "DaemonSet", "$C", `spec: `+
		`{selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+needs("1",
		`tolerations: [{operator: Exists}], `)+`}}`), "daemonset/$C",
		[]truth{{kinds: "DaemonSet Pod", field: "example.com/$NS", value: "1", numbers: []string{"node-2|node-3"}}},
		room("1")},
	{"workloads: Job killed by its deadline while it works", jobOf("$C", "activeDeadlineSeconds: 2, ", "app"), "job/$C",
		[]truth{{kinds: "Job", field: "activeDeadlineSeconds", value: "2", numbers: []string{"2"},
			want: "activeDeadlineSeconds"}}, ""},
	{"workloads: Pod killed by its deadline while it works", single("$C", `{activeDeadlineSeconds: 2, restartPolicy: `+
		`Never, containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "activeDeadlineSeconds", value: "2", numbers: []string{"2"},
			want: "activeDeadlineSeconds"}}, ""},
	{"workloads: Job that waits between attempts", jobOf("$C", "backoffLimit: $N, ", "exit-3"), "job/$C",
		[]truth{{kinds: "Job Pod", field: "containers[0]", numbers: []string{"3"}}}, ""},
	{"workloads: Job whose Pods have a gate", object("batch/v1", "Job", "$C", `spec: {template: {spec: `+
		`{restartPolicy: `+
		`Never, schedulingGates: [{name: example.com/$A}], containers: [`+app+`]}}}`), "job/$C",
		[]truth{{kinds: "Job Pod", field: "schedulingGates", value: "example.com/$A"}}, ""},
	{"workloads: resumed Job waits for the end of its Pods", object("batch/v1", "Job", "$C", `spec: `+
		`{podReplacementPolicy: `+
		`Failed, template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: $N00, containers: [{name: `+
		`app, `+
		`image: ignores-term}]}}}`), "job/$C",
		[]truth{{kinds: "Job Pod", field: "podReplacementPolicy|terminationGracePeriodSeconds",
			numbers: []string{"$N00"}}},
		`job/$C until status.ready=1` + "\n" + `job/$C {"spec":{"suspend":true}}` + "\n" +
			`job/$C until status.terminating=1` + "\n" + `job/$C {"spec":{"suspend":false}}`},
	{"workloads: Service of a version that was rolled away", deploy("$C", "replicas: 1, ", plainApp) + object("v1",
		"Service", "$A", `spec: {selector: {app: $C, version: v$N}, ports: [{port: 80, targetPort: 8080}]}`),
		"service/$A", []truth{{kinds: "Service", field: "selector", value: "v$N", want: "w$N"}},
		`deployment/$C {"spec":{"template":{"metadata":{"labels":{"version":"w$N"}}}}}`},
	{"workloads: StatefulSet below a Service that has an address", object("v1", "Service", "$A", `spec: {selector: `+
		`{app: `+
		`$C}, ports: [{port: 80}]}`) + stateful("$C", "$A", "", plainApp), "statefulset/$C",
		[]truth{{kinds: "Service " +
			"StatefulSet", field: "clusterIP|serviceName", numbers: []string{"$A"}, want: "None"}}, ""},

	{"autoscalers: of memory, and only cpu is requested", workload("$A", withRequest("cpu", "100m")) + scalerOf("$C",
		"Deployment", "$A", `metrics: [{type: Resource, resource: {name: memory, target: {type: Utilization, `+
			`averageUtilization: $N0}}}]`), "hpa/$C",
		[]truth{{kinds: "Deployment HorizontalPodAutoscaler", field: "requests.memory|metrics", value: "memory|",
			want: "memory"}}, ""},
	{"autoscalers: of one container, which requests nothing", workload("$A", `{containers: [`+app+`, {name: $B, `+
		`image: `+
		`app, resources: {requests: {cpu: 100m}}}]}`) + scalerOf("$C", "Deployment", "$A", `metrics: [{type: `+
		`ContainerResource, containerResource: {name: cpu, container: app, target: {type: Utilization, `+
		`averageUtilization: 50}}}]`), "hpa/$C",
		[]truth{{kinds: "Deployment HorizontalPodAutoscaler", field: "containers[0].resources.requests.cpu|container",
			numbers: []string{"app"}, want: "cpu"}}, ""},
	{"autoscalers: of an object with one letter " +
		"wrong", workload("$A", withRequest("cpu", "100m")) + serviceOf("$B", "$A",
		"8080") + scalerOf("$C", "Deployment", "$A", `metrics: [{type: Object, object: {describedObject: {apiVersion: `+
		`v1, kind: Service, name: $b}, metric: {name: requests}, target: {type: Value, value: "10"}}}]`), "hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "describedObject", value: "$b", want: "$B"},
			{kinds: "HorizontalPodAutoscaler", field: "metric"}}, ""},

	{"budgets: eviction of one of as many as are wanted", stateful("$C", `""`, "", plainApp) + budgetOf("$A", "$C",
		"minAvailable: 2"), "pod/$C-0",
		[]truth{{kinds: "PodDisruptionBudget", field: "minAvailable", value: "2", numbers: []string{"$A"},
			want: "minAvailable"}}, `poddisruptionbudget/$A until status.expectedPods=2` + "\n" + `pod/$C-0 evict`},
	{"budgets: eviction of a Pod that is not ready", stateful("$C", `""`, "podManagementPolicy: Parallel, ",
		`{containers: [{name: app, image: app, readinessProbe: {periodSeconds: 1, exec: {command: [sh, -c, exit `+
			`$N]}}}]}`) +
		budgetOf("$A", "$C", "minAvailable: 1"), "pdb/$A",
		[]truth{{kinds: "PodDisruptionBudget", field: "unhealthyPodEvictionPolicy|minAvailable",
			numbers: []string{"0"}, want: "AlwaysAllow"},
			{kinds: "Pod StatefulSet", field: "readinessProbe", numbers: []string{"$N"}}},
		`poddisruptionbudget/$A until status.expectedPods=2` + "\n" + `pod/$C-0 evict`},

	{"quotas: of Pods with a deadline", object("v1", "ResourceQuota", "$A", `spec: {hard: {pods: 0}, scopes: `+
		`[Terminating]}`) + object("batch/v1", "Job", "$C", `spec: {template: {spec: {restartPolicy: Never, `+
		`activeDeadlineSeconds: 6$N0, containers: [`+app+`]}}}`), "job/$C",
		[]truth{{kinds: "ResourceQuota", field: "hard.pods", value: "0", numbers: []string{"$A"}}}, ""},
	{"quotas: the second container requests nothing", quotaOf("$A", "requests.memory: 8Gi") + workload("$C",
		`{containers: [{name: app, image: app, resources: {requests: {memory: 64Mi}}}, {name: $B, image: app}]}`),
		"deployment/$C", []truth{{kinds: podOrOwner + " ResourceQuota", field: "memory", numbers: []string{"$A", "$B"},
			want: "memory"}}, ""},
	{"quotas: made smaller than what is used", quotaOf("$A", "pods: 4") + workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: "ResourceQuota", field: "hard.pods", value: "1", numbers: []string{"1", "2", "$A"}}},
		`deployment/$C {}` + "\n" + `quota/$A {"spec":{"hard":{"pods":"1"}}}` + "\n" + `deployment/$C ` +
			`{"spec":{"replicas":3}}`},
	{"quotas: another workload has most of it", quotaOf("$A", `requests.cpu: "2"`) + deploy("$B", "", withRequest("cpu",
		"1$N00m")), "deployment/$C",
		[]truth{{kinds: "ResourceQuota " + podOrOwner, field: "cpu", numbers: []string{"2", "1$N00m", "900m"}}},
		`deployment/$B {}` + "\n" + `{apiVersion: apps/v1, kind: Deployment, metadata: {name: $C}, spec: {selector: ` +
			`{matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: ` +
			`` + withRequest("cpu", "900m") + `}}}`},
	{"ranges: a default limit below the request", rangeOf("$A", "default: {cpu: "+
		"$N0m}") + workload("$C", withRequest("cpu",
		"500m")), "deployment/$C",
		[]truth{{kinds: "LimitRange " + podOrOwner, field: "default.cpu|requests.cpu", numbers: []string{"500m", "$N0m",
			"$A"}}}, ""},
	{"ranges: two that exclude one another", rangeOf("$A", "max: {cpu: 3$N0m}") + rangeOf("$B", "min: {cpu: 7$N0m}") +
		workload("$C", `{containers: [{name: app, image: app, resources: {limits: {cpu: 500m}}}]}`), "deployment/$C",
		[]truth{{kinds: "LimitRange " + podOrOwner, field: "cpu", numbers: []string{"$A", "3$N0m"}},
			{kinds: "LimitRange " + podOrOwner, field: "cpu", numbers: []string{"$B", "7$N0m"}}}, ""},

	{"deletions: namespace waits for a load balancer's finalizer", `{apiVersion: v1, kind: Service, metadata: {name: ` +
		`$C, ` +
		`finalizers: [service.kubernetes.io/load-balancer-cleanup]}, spec: {type: ClusterIP, selector: {app: $A}, ` +
		`ports: ` +
		`[{port: 80}]}}`, "namespace/$NS",
		[]truth{{kinds: "Service", field: "finalizers", value: "service.kubernetes.io/load-balancer-cleanup",
			numbers: []string{"$C"}, want: "finalizers"}}, `namespace/$NS delete`},
	{"deletions: namespace waits for two finalizers of two objects", `{apiVersion: v1, kind: ConfigMap, metadata: ` +
		`{name: ` +
		`$A, finalizers: [example.com/$A]}}` + "\n---\n" + `{apiVersion: v1, kind: Secret, metadata: {name: $B, ` +
		`finalizers: ` +
		`[example.com/$B]}}`, "namespace/$NS",
		[]truth{{kinds: "ConfigMap", field: "finalizers", value: "example.com/$A", want: "finalizers"},
			{kinds: "Secret", field: "finalizers", value: "example.com/$B", want: "finalizers"}}, `namespace/$NS ` +
			`delete`},

	{"two at once: suspended Job whose Secret is missing", object("batch/v1", "Job", "$C", `spec: {suspend: true, `+
		`template: {spec: {restartPolicy: Never, containers: [{name: app, image: app, envFrom: [{secretRef: {name: `+
		`$A}}]}]}}}`), "job/$C",
		[]truth{{kinds: "Job", field: "suspend", value: "true", want: "suspend"},
			{kinds: "Job", field: "secretRef", value: "$A"}}, ""},
	{"two at once: paused, and the new template names a missing ConfigMap", configMap("$A", "$K: x") + workload("$C",
		plainApp), "deployment/$C",
		[]truth{{kinds: "Deployment", field: "paused", value: "true", want: "resume|paused"},
			{kinds: "Deployment", field: "configMapRef", value: "$a", want: "$A"}},
		`deployment/$C ` +
			`{"spec":{"paused":true,"template":{"spec":{"containers":[{"name":"app","image":"app","envFrom":` +
			`[{"configMapRef":{"name":"$a"}}]}]}}}}`},
	{"two at once: OnDelete with a new template, and its first Pod crashes", stateful("$C", `""`, `updateStrategy: `+
		`{type: `+
		`OnDelete}, podManagementPolicy: Parallel, `, `{containers: [{name: app, image: exit-3}]}`), "statefulset/$C",
		[]truth{{kinds: podOrOwner, field: "containers[0]", numbers: []string{"3"}},
			{kinds: "StatefulSet", field: "updateStrategy", value: "OnDelete", want: "delete pod"}},
		`statefulset/$C {"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app"}]}}}}`},
	{"two at once: suspended CronJob on a day that never comes", cronOf("$C", "0 0 31 2 *", "suspend: true, "),
		"cronjob/$C", []truth{{kinds: "CronJob", field: "suspend", value: "true", want: "suspend"},
			{kinds: "CronJob", field: "schedule", value: "0 0 31 2 *"}}, ""},
	{"two at once: quota of Pods, and more than a range allows", quotaOf("$A", "pods: 0") + rangeOf("$B",
		"max: {memory: $N0Mi}") + workload("$C", `{containers: [{name: app, image: app, resources: {limits: {memory: `+
		`1Gi}}}]}`), "deployment/$C",
		[]truth{{kinds: "ResourceQuota", field: "hard.pods", value: "0", numbers: []string{"$A"}},
			{kinds: "LimitRange " + podOrOwner, field: "memory", numbers: []string{"$N0Mi", "1Gi"}}}, ""},
	{"two at once: autoscaler of a misspelt target between equal bounds", workload("$A", withRequest("cpu", "100m")) +
		object("autoscaling/v2", "HorizontalPodAutoscaler", "$C", `spec: {minReplicas: $N, maxReplicas: $N, `+
			`scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: $a}}`), "hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "scaleTargetRef", value: "$a", want: "$A"},
			{kinds: "HorizontalPodAutoscaler", field: "minReplicas|maxReplicas", value: "$N"}}, ""},

	{"well: workloads: Job of several completions, one after the other", jobOf("$C", "completions: $N, parallelism: "+
		"1, ",
		"exit-0"), "job/$C", nil, ""},
	{"well: workloads: second Pod waits for the first, which is slow", stateful("$C", `""`, "", `{containers: `+
		`[{name: app, `+
		`image: app, readinessProbe: {initialDelaySeconds: 30, periodSeconds: 1, exec: {command: ["true"]}}}]}`),
		"pod/$C-0", nil, `pod/$C-0 until status.phase=Running`},
	{"well: workloads: paused, and nothing is new", deploy("$C", "replicas: 1, paused: false, ", plainApp),
		"deployment/$C", nil, `deployment/$C {"spec":{"paused":true}}`},
	{"well: workloads: percentages that round to none", deploy("$C", `replicas: 2, strategy: {rollingUpdate: `+
		`{maxSurge: `+
		`"0%", maxUnavailable: "10%"}}, `, plainApp), "deployment/$C", nil,
		`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"well: workloads: quota that is used up by what is there", quotaOf("$A", "pods: 2") + workload("$C", plainApp),
		"deployment/$C", nil, `deployment/$C {}`},
	{"well: workloads: one at a time on all nodes", object("apps/v1", "DaemonSet", "$C", `spec: {selector: `+
		`{matchLabels: `+
		`{app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {terminationGracePeriodSeconds: 1, tolerations: `+
		`[{operator: Exists}], containers: [`+app+`]}}}`), "daemonset/$C", nil,
		`daemonset/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"well: workloads: eviction that a budget grants", stateful("$C", `""`, "podManagementPolicy: Parallel, ",
		`{terminationGracePeriodSeconds: 1, containers: [`+app+`]}`) + budgetOf("$A", "$C", "maxUnavailable: 1"),
		"statefulset/$C", nil, `poddisruptionbudget/$A until status.disruptionsAllowed=1` + "\n" + `pod/$C-0 evict`},
	{"well: workloads: rolled back", workload("$C", plainApp), "deployment/$C", nil,
		`deployment/$C {"spec":{"template":{"spec":{"containers":[{"name":"app","image":"exit-3"}]}}}}` + "\n" +
			`deployment/$C until status.unavailableReplicas=1` + "\n" +
			`deployment/$C ` +
			`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app","ports":[{"name":"http",` +
			`"containerPort":8080,"protocol":"TCP"}]}]}}}}`},
}

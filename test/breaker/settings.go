package breaker

// labelKinds select what nothing has.
var labelKinds = []kind{
	{"Service: label value with one letter wrong", workload("$A", plainApp) + serviceOf("$C", "$a", "8080"),
		"service/$C",
		[]truth{{kinds: "Service", field: "spec.selector", value: "$a", want: "$A"}}, ""},
	{"Service: label key with one letter wrong", workload("$A", plainApp) + object("v1", "Service", "$C",
		`spec: {selector: {ap: $A}, ports: [{port: 80, targetPort: 8080}]}`), "service/$C",
		[]truth{{kinds: "Service", field: "spec.selector", value: "ap=$A", want: "app=$A"}}, ""},
	{"Service: port name with one letter wrong", workload("$A", plainApp) + serviceOf("$C", "$A", "htp"), "service/$C",
		[]truth{{kinds: "Service", field: "targetPort", value: "htp", want: "http"}}, ""},
	{"Service: port number off by one", workload("$A", plainApp) + serviceOf("$C", "$A", "8081"), "service/$C",
		[]truth{{kinds: "Service", field: "targetPort", value: "8081", want: "8080"}}, ""},
	{"budget selects nothing", workload("$A", plainApp) + budgetOf("$C", "$a", "minAvailable: 1"), "pdb/$C",
		[]truth{{kinds: "PodDisruptionBudget", field: "selector", value: "$a", want: "$A"}}, ""},
	{"policy selects nothing", workload("$A", plainApp) + object("networking.k8s.io/v1", "NetworkPolicy", "$C",
		`spec: {podSelector: {matchLabels: {app: $a}}}`), "networkpolicy/$C",
		[]truth{{kinds: "NetworkPolicy", field: "podSelector", value: "$a", want: "$A"}}, ""},
	{"nodeSelector: value with one letter wrong", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-11}, `+
		`containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "nodeSelector", value: "node-11", want: "node-1"}}, ""},
	{"nodeSelector: key with one letter wrong", single("$C", `{nodeSelector: {kubernetes.io/hostnam: node-1}, `+
		`containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "nodeSelector", want: "kubernetes.io/hostname"}}, ""},
	{"node affinity for a zone that is not there", single("$C", `{containers: [`+app+`], affinity: {nodeAffinity: `+
		`{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: $A,`+
		` operator: In, `+
		`values: [$B]}]}]}}}}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "nodeAffinity"}}, ""},
	{"Pod affinity to a misspelt label", single("$A", plainApp) + single("$C", `{containers: [`+app+`], affinity: `+
		`{podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, `+
		`labelSelector: {matchLabels: {app: $a}}}]}}}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "affinity", want: "$A"}}, ""},
	{"DaemonSet that fits no node", object("apps/v1", "DaemonSet", "$C", `spec: {selector: {matchLabels: {app: $C}}, `+
		`template: {metadata: {labels: {app: $C}}, spec: {nodeSelector: {$A: "yes"}, containers: [`+app+`]}}}`),
		"daemonset/$C", []truth{{kinds: "DaemonSet", field: "nodeSelector"}}, ""},
	{"tainted node", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-2}, containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "tolerations", numbers: []string{"team=$TEAM:NoSchedule"}}}, ""},
	{"cordoned node", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-3}, containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "tolerations", want: "uncordon"}}, ""},
	{"scheduling gate", single("$C", `{schedulingGates: [{name: example.com/$A}], containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "schedulingGates", value: "$A", want: "schedulingGates"}}, ""},
	{"gate, and no node is large enough", single("$C", `{schedulingGates: [{name: example.com/$A}], containers: `+
		`[{name: app, image: app, resources: {requests: {cpu: "1$N"}}}]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "schedulingGates", value: "$A"},
			{kinds: podOrOwner, field: "cpu", numbers: []string{"1$N", "8"}}}, ""},
	{"scheduler of another name", single("$C", `{schedulerName: $A, containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "schedulerName", value: "$A", want: "default-scheduler"}}, ""},
	{"readiness gate", single("$C", `{readinessGates: [{conditionType: example.com/$A}], containers: [`+app+`]}`),
		"pod/$C", []truth{{kinds: podOrOwner, field: "readinessGates", value: "$A"}}, ""},
}

// numberKinds are numbers that cannot work.
var numberKinds = []kind{
	{"cpu that no node has", workload("$C", withRequest("cpu", "1$N")), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "cpu", value: "1$N", want: "8", numbers: []string{"1$N", "8"}}}, ""},
	{"memory that no node has", single("$C", withRequest("memory", "10$NGi")), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "memory", numbers: []string{"10$NGi"}}}, ""},
	{"init container that no node can hold", single("$C", `{initContainers: [{name: $A, image: app, resources: `+
		`{requests: {cpu: "1$N"}}}], containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "initContainers[0].resources", numbers: []string{"1$N"}}}, ""},
	{"device that no node offers", single("$C", `{containers: [{name: app, image: app, resources: {limits: `+
		`{example.com/$A: 1}}}]}`), "pod/$C", []truth{{kinds: podOrOwner, field: "example.com/$A"}}, ""},
	{"quota of cpu", quotaOf("$A", "requests.cpu: 500m") + workload("$C", withRequest("cpu", "$N")), "deployment/$C",
		[]truth{{kinds: podOrOwner + " ResourceQuota", field: "cpu|hard|template", numbers: []string{"$A"}}}, ""},
	{"quota of Pods", quotaOf("$A", "pods: 1") + workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: "Deployment ReplicaSet ResourceQuota", field: "pods|hard|template"}}, ""},
	{"used up quota", quotaOf("$C", "pods: 1") + single("$A", plainApp), "quota/$C",
		[]truth{{kinds: "ResourceQuota", field: "spec.hard.pods", value: "1", numbers: []string{"1"}}}, ""},
	{"refused by a quota, and no node is large enough", quotaOf("$A", "requests.cpu: 500m") + workload("$C",
		withRequest("cpu", "1$N")), "deployment/$C",
		[]truth{{kinds: podOrOwner + " ResourceQuota", field: "hard|template", numbers: []string{"$A"}},
			{kinds: podOrOwner, field: "cpu", value: "1$N"}}, ""},
	{"LimitRange: more than max", rangeOf("$A", "max: {cpu: 500m}") + workload("$C",
		`{containers: [{name: app, image: app, resources: {limits: {cpu: "$N"}}}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "resources.limits.cpu", value: "$N", want: "500m",
			numbers: []string{"500m"}}}, ""},
	{"LimitRange: less than min", rangeOf("$A", "min: {cpu: 500m}") + workload("$C", withRequest("cpu", "$Nm")),
		"deployment/$C", []truth{{kinds: podOrOwner, field: "resources.requests.cpu", value: "$Nm", want: "500m"}}, ""},
	{"budget: maxUnavailable 0", workload("$A", plainApp) + budgetOf("$C", "$A", "maxUnavailable: 0"), "pdb/$C",
		[]truth{{kinds: "PodDisruptionBudget", field: "maxUnavailable", value: "0", want: "1", numbers: []string{"2"}}},
		""},
	{"budget: as many as there are", workload("$A", plainApp) + budgetOf("$C", "$A", "minAvailable: 2"), "pdb/$C",
		[]truth{{kinds: "PodDisruptionBudget", field: "minAvailable", value: "2", want: "1", numbers: []string{"2"}}},
		""},
	{"budget: a percentage that rounds up to all", workload("$A", plainApp) + budgetOf("$C", "$A",
		`minAvailable: "9$N%"`),
		"pdb/$C", []truth{{kinds: "PodDisruptionBudget", field: "minAvailable", value: "9$N%", numbers: []string{"2"}}},
		""},
	{"two budgets over one Pod", workload("$A", plainApp) + budgetOf("$C", "$A", "minAvailable: 1") + budgetOf("$B",
		"$A",
		"minAvailable: 1"), "pdb/$C",
		[]truth{{kinds: "PodDisruptionBudget", field: "selector", numbers: []string{"$B"}}}, ""},
	{"no replicas", object("apps/v1", "Deployment", "$C", `spec: {replicas: 0, selector: {matchLabels: {app: $C}}, `+
		`template: {metadata: {labels: {app: $C}}, spec: `+plainApp+`}}`), "deployment/$C",
		[]truth{{kinds: "Deployment", field: "spec.replicas", value: "0", want: "replicas=1"}}, ""},
	{"autoscaler over no replicas",
		object("apps/v1", "Deployment", "$A", `spec: {replicas: 0, selector: {matchLabels: `+
			`{app: $A}}, template: {metadata: {labels: {app: $A}}, spec: `+withRequest("cpu", "100m")+`}}`) +
			autoscalerOf("$C", "Deployment", "$A"),
		"hpa/$C", []truth{{kinds: "Deployment", field: "spec.replicas", value: "0"}}, ""},
	{"autoscaler without a request", workload("$A", plainApp) + autoscalerOf("$C", "Deployment", "$A"), "hpa/$C",
		[]truth{{kinds: "Deployment", field: "resources.requests.cpu", want: "requests=cpu"}}, ""},
}

func budgetOf(name, app, rule string) string {
	return object("policy/v1", "PodDisruptionBudget", name, `spec: {`+rule+`, selector: {matchLabels: {app: `+app+`}}}`)
}

func quotaOf(name, hard string) string {
	return object("v1", "ResourceQuota", name, `spec: {hard: {`+hard+`}}`)
}

func rangeOf(name, limit string) string {
	return object("v1", "LimitRange", name, `spec: {limits: [{type: Container, `+limit+`}]}`)
}

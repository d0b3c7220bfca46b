package breaker

// togetherKinds are two faults at once, faults that only two things make together, and healthy
// things that look ill.
var togetherKinds = []kind{
	{"together: selector with one letter wrong, and the Pods crash", workload("$A", `{containers: [{name: app, image: `+
		`exit-4}]}`) + serviceOf("$C", "$a", "8080"), "service/$C",
		[]truth{{kinds: "Service", field: "selector", value: "$a", want: "$A"},
			{kinds: podOrOwner, field: "ontainer", numbers: []string{"4"}}}, ""},
	{"together: Secret missing, and no such node", single("$C", `{nodeSelector: {kubernetes.io/hostname: nod-1}, `+
		`containers: [{name: app, image: app, envFrom: [{secretRef: {name: $B}}]}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "nodeSelector", value: "nod-1", want: "node-1"},
			{kinds: "Pod", field: "envFrom[0].secretRef", value: "$B"}}, ""},
	{"together: quota of Pods, and an image that is never pulled", quotaOf("$B", "pods: 1") + workload("$C",
		`{containers: [{name: app, image: "$A.example.com/app:$N", imagePullPolicy: Never}]}`), "deployment/$C",
		[]truth{{kinds: "ResourceQuota", field: "hard.pods", value: "1"},
			{kinds: podOrOwner, field: "imagePullPolicy|image", value: "Never|$A"}}, ""},
	{"together: Ingress with a wrong backend and no certificate", workload("$A", plainApp) + serviceOf("$A", "$A",
		"8080") + secureIngress("$C", "$B", "$a"), "ingress/$C",
		[]truth{{kinds: "Ingress", field: "service.name", value: "$a", want: "$A"},
			{kinds: "Ingress", field: "tls[0].secretName", value: "$B"}}, ""},
	{"together: binding without role and account", bindRole("$C", "Role", "$A", `{kind: ServiceAccount, name: $B, `+
		`namespace: $NS}`), "rolebinding/$C", []truth{{kinds: "RoleBinding", field: "roleRef", value: "$A"},
		{kinds: "RoleBinding", field: "subjects[0]", value: "$B"}}, ""},
	{"together: one container without image, one without its key", configMap("$A", "$K: x") + single("$C",
		`{containers: [{name: one, image: "$B.example.com/app", imagePullPolicy: Never}, {name: two, image: app, env: `+
			`[{name: X, valueFrom: {configMapKeyRef: {name: $A, key: $L}}}]}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "containers[0].image", value: "Never|$B"},
			{kinds: "Pod", field: "containers[1].env[0]", value: "$L", want: "$K"}}, ""},
	{"together: port name wrong, and a policy that lets nobody in", workload("$A", plainApp) + serviceOf("$C", "$A",
		"htp") + policyOf("$B", "$A", "policyTypes: [Ingress]"), "service/$C",
		[]truth{{kinds: "Service", field: "targetPort", value: "htp", want: "http"},
			{kinds: "NetworkPolicy", field: "ingress", numbers: []string{"$B"}}}, ""},
	{"together: StatefulSet without Service and class", stateful("$C", "$A", `volumeClaimTemplates: [{metadata: `+
		`{name: `+
		`d}, spec: {storageClassName: $NS-$B, accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}}], `,
		plainApp), "statefulset/$C", []truth{{kinds: "StatefulSet", field: "serviceName", value: "$A"},
		{kinds: "StatefulSet PersistentVolumeClaim", field: "storageClassName", value: "$NS-$B"}}, ""},
	{"together: beside a Pod that has no place", single("$A", withRequest("cpu", "1$N")) + beside("$C", "$A"), "pod/$C",
		[]truth{{kinds: "Pod", field: "podAffinity|requests.cpu", numbers: []string{"$A|app=$A"}},
			{kinds: "Pod", field: "requests.cpu", value: "1$N", numbers: []string{"8"}}}, ""},
	{"together: each beside the other", beside("$A", "$C") + beside("$C", "$A"), "pod/$C",
		[]truth{{kinds: "Pod", field: "podAffinity", numbers: []string{"$A|app=$A"}}}, ""},
	{"together: each waits for the other's Service", serviceOf("$A", "$A", "8080") + serviceOf("$C", "$C", "8080") +
		awaiting("$A", "$C") + awaiting("$C", "$A"), "pod/$C",
		[]truth{{kinds: "Pod", field: "initContainers[0]", value: "$A|$C", numbers: []string{"$A"}}}, ""},
	{"together: node selector and affinity of two nodes", single("$C", `{nodeSelector: {kubernetes.io/hostname: `+
		`node-1}, `+
		`containers: [`+app+`], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: `+
		`{nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: NotIn, values: `+
		`[node-1]}]}]}}}}`),
		"pod/$C", []truth{{kinds: "Pod", field: "nodeSelector|nodeAffinity", value: "node-1"}}, ""},
	{"together: the volume's node is cordoned", classOf("$NS", "kubernetes.io/no-provisioner") + object("v1",
		"PersistentVolume", "$NS-$A", `spec: {storageClassName: $NS, capacity: {storage: 9Gi}, accessModes: `+
			`[ReadWriteOnce], hostPath: {path: /tmp/none}, nodeAffinity: {required: {nodeSelectorTerms: `+
			`[{matchExpressions: `+
			`[{key: kubernetes.io/hostname, operator: In, values: `+
			`[node-3]}]}]}}}`) + boundClaim("$A", "$NS-$A") + single("$C",
		claimVolume("$A")), "pod/$C", []truth{{kinds: "Node PersistentVolume Pod", field: "unschedulable|nodeAffinity",
		numbers: []string{"node-3"}, want: "uncordon"}}, ""},
	{"together: one of two workloads lacks the port", tiered("$A", app) + tiered("$B", `{name: app, image: app}`) +
		object("v1", "Service", "$C", `spec: {selector: {tier: web}, ports: [{port: 80, targetPort: `+
			`http}]}`), "service/$C",
		[]truth{{kinds: "Service Pod Deployment", field: "selector|ports", value: "",
			numbers: []string{"$B|http"}}}, ""},
	{"together: autoscaler's target above what a limit lets it reach", workload("$A", `{containers: [{name: app, `+
		`image: `+
		`app, resources: {requests: {cpu: 100m}, limits: {cpu: `+
		`200m}}}]}`) + scalerOf("$C", "Deployment", "$A", `metrics: `+
		`[{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 3$N0}}}]`), "hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler Deployment", field: "averageUtilization|limits.cpu",
			value: "3$N0|200m", numbers: []string{"3$N0", "200"}}}, ""},

	{"together: well: suspended, scaled to zero, completed; asked of nothing", cronOf("$A", "0 $N * * *",
		"suspend: true, ") + jobOf("$B", "", "exit-0") + single("$C", `{restartPolicy: Never, containers: [{name: `+
		`app, `+
		`image: exit-0}]}`) + object("apps/v1", "Deployment", "$P", `spec: {replicas: 0, selector: {matchLabels: `+
		`{app: `+
		`$P}}, template: {metadata: {labels: {app: $P}}, spec: `+plainApp+`}}`), "", nil, ""},
	{"together: well: bound by hand past a cordon", single("$C", `{nodeName: node-3, containers: [`+app+`]}`), "pod/$C",
		nil, ""},
	{"together: well: webhook that nobody serves, and that may be passed", hookFor("$NS", `service: {namespace: $NS, `+
		`name: `+
		`$A}`, "failurePolicy: Ignore, timeoutSeconds: 1, ") + workload("$C", plainApp), "deployment/$C", nil, ""},
	{"together: well: one policy shuts, another opens", workload("$A", plainApp) + serviceOf("$C", "$A", "8080") +
		object(
			"networking.k8s.io/v1", "NetworkPolicy", "$B", `spec: {podSelector: {}, policyTypes: `+
				`[Ingress]}`) + policyOf("$P",
		"$A", "ingress: [{ports: [{port: 8080}]}]"), "service/$C", nil, ""},
	{"together: well: a policy lets out to what is named", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") +
		workload("$C", withEnv(`{name: URL, value: "http://$A/"}`)) + policyOf("$B", "$C", `policyTypes: [Egress], `+
		`egress: [{ports: [{port: 53, protocol: UDP}]}, {to: [{podSelector: {matchLabels: {app: $A}}}], ports: `+
		`[{port: 8080}]}]`), "deployment/$C", nil, ""},
	{"together: well: Job whose sidecar is one", object("batch/v1", "Job", "$C", `spec: `+
		`{template: {spec: {restartPolicy: Never, initContainers: [{name: $A, image: app, restartPolicy: Always}], `+
		`containers: [{name: app, image: exit-0}]}}}`), "job/$C", nil, ""},
	{"together: well: variable of a Service", serviceOf("$K", "$C", "8080") + single("$C", `{containers: [{name: app, `+
		`image: app, args: ["--x=$($k_SERVICE_HOST)"], ports: [{containerPort: 8080}]}]}`), "pod/$C", nil, ""},
	{"together: well: in its hook before the end", single("$C", `{terminationGracePeriodSeconds: 120, containers: `+
		`[{name: `+
		`app, image: app, lifecycle: {preStop: {sleep: {seconds: 60}}}}]}`), "pod/$C", nil, "pod/$C delete"},
	{"together: well: CronJob in leap years", cronOf("$C", "0 $N 29 2 *", ""), "cronjob/$C", nil, ""},
	{"together: well: gone by its own wish", jobOf("$C", "ttlSecondsAfterFinished: 0, ", "exit-0"), "job/$C", nil, ""},
	{"together: well: everything that is there, asked of nothing", configMap("$B", "$K: x") +
		workload("$A", `{containers: `+
			`[{name: app, image: app, ports: [{containerPort: 8080}], envFrom: [{configMapRef: {name: `+
			`$B}}]}]}`) + serviceOf(
		"$A", "$A", "8080") + budgetOf("$A", "$A", "maxUnavailable: 1"), "", nil, ""},
}

// beside is a Pod that must be on a node with a Pod of another app.
func beside(name, other string) string {
	return single(name, `{containers: [{name: app, image: app}], affinity: {podAffinity: `+
		`{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: `+
		`{matchLabels: {app: `+other+`}}}]}}}`)
}

// awaiting is a Pod that starts when a Service answers.
func awaiting(name, service string) string {
	return single(name, `{initContainers: [{name: wait, image: app, command: [sh, -c, "until wget -qO- http://`+service+
		`/; do sleep 1; done"]}], containers: [`+app+`]}`)
}

// tiered is a Deployment whose Pods have the label tier=web.
func tiered(name, container string) string {
	return object("apps/v1", "Deployment", name, `spec: {replicas: 1, selector: {matchLabels: {app: `+name+
		`}}, template: {metadata: {labels: {app: `+name+`, tier: web}}, spec: {containers: [`+container+`]}}}`)
}

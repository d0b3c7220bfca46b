package breaker

// specFieldKinds are about fields that seldom break a Pod: an index that only Indexed Jobs have, an
// external IP of two Services, a bare Pod's budget, a component's taint; and about what looks
// unusual and is well.
var specFieldKinds = []kind{
	{"field: index in a Job without indexes", object("batch/v1", "Job", "$C", `spec: {template: {spec: `+
		`{restartPolicy: `+
		`Never, containers: [{name: app, image: app, command: [sh, -c, "work $JOB_COMPLETION_INDEX"]}]}}}`), "job/$C",
		[]truth{{kinds: "Job", field: "completionMode", value: "NonIndexed", want: "Indexed"}}, ""},
	{"field: index in a CronJob without indexes", object("batch/v1", "CronJob", "$C", `spec: {schedule: "0 0 1 1 *", `+
		`jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: app, command: `+
		`[sh, -c, "work $JOB_COMPLETION_INDEX"]}]}}}}}`), "cronjob/$C",
		[]truth{{kinds: "CronJob", field: "completionMode", value: "NonIndexed", want: "Indexed"}}, ""},
	{"field: external IP of two Services", workload("$A", plainApp) + object("v1", "Service", "$B", `spec: {selector: `+
		`{app: $A}, externalIPs: [192.0.2.1$N], ports: [{port: 80$N, targetPort: 8080}]}`) + object("v1", "Service",
		"$C", `spec: {selector: {app: $A}, externalIPs: [192.0.2.1$N], ports: [{port: 80$N, targetPort: 8080}]}`),
		"service/$C", []truth{{kinds: "Service", field: "externalIPs[0]", value: "192.0.2.1$N",
			numbers: []string{"$B", "80$N"}}}, ""},
	{"field: budget counted against a controller that is none", single("$A", plainApp) + budgetOf("$C", "$A",
		"maxUnavailable: 1"), "pdb/$C", []truth{{kinds: "PodDisruptionBudget", field: "maxUnavailable", value: "1",
		want: "minAvailable", numbers: []string{"1"}}}, ""},

	{"well: claims go when it is scaled down", object("apps/v1", "StatefulSet", "$C", `spec: {replicas: 1, `+
		`serviceName: `+
		`"", persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}, selector: {matchLabels: {app: $C}}, `+
		`template: `+
		`{metadata: {labels: {app: $C}}, spec: `+plainApp+`}}`), "statefulset/$C", nil, ""},
	{"well: setting that was changed while it runs", object("v1", "ConfigMap", "$A", "data: {$K: one}") + workload("$C",
		withEnv("{name: X, valueFrom: {configMapKeyRef: {name: $A, key: $K}}}")), "deployment/$C", nil,
		`configmap/$A {"data":{"$K":"two"}}`},
}

package breaker

// mistakeKinds are what people write in workloads and containers without being refused.
var mistakeKinds = []kind{
	{"mistake: StatefulSet's mended template does not reach its first Pod", stateful("$C", `""`, "", `{containers: `+
		`[{name: app, image: exit-3}]}`), "statefulset/$C",
		[]truth{{kinds: "Pod StatefulSet", field: "containers[0]|updateStrategy|podManagementPolicy|revision",
			numbers: []string{"$C-0"}, want: "delete pod $C-0|delete pod/$C-0|delete -n $NS pod $C-0|" +
				"delete pod -n $NS $C-0"}},
		`statefulset/$C {"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app"}]}}}}`},
	{"mistake: ReplicaSet's new template reaches no Pod", object("apps/v1", "ReplicaSet", "$C", `spec: {replicas: 2, `+
		`selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+plainApp+`}}`),
		"replicaset/$C", []truth{{kinds: "ReplicaSet Pod", field: "template|containers[0].image", value: "web",
			numbers: []string{"2"}, want: "delete|Deployment"}},
		`replicaset/$C {"spec":{"template":{"spec":{"containers":[{"name":"app","image":"web"}]}}}}`},
	{"mistake: CronJob whose Jobs are suspended", object("batch/v1", "CronJob", "$C", `spec: {schedule: "0 $N * * *", `+
		`jobTemplate: {spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [`+app+`]}}}}}`),
		"cronjob/$C", []truth{{kinds: "CronJob", field: "jobTemplate.spec.suspend", value: "true"}}, ""},
	{"mistake: indexes of a Job of which one may fail", object("batch/v1", "Job", "$C", `spec: {completions: 4, `+
		`parallelism: 4, completionMode: Indexed, backoffLimitPerIndex: 0, maxFailedIndexes: 1, template: {spec: `+
		`{restartPolicy: Never, containers: [{name: app, image: exit-3}]}}}`), "job/$C",
		[]truth{{kinds: "Job", field: "maxFailedIndexes", value: "1", numbers: []string{"1"}}}, ""},
	{"mistake: Job's deadline passes while its Pod has no place", object("batch/v1", "Job", "$C", `spec: `+
		`{activeDeadlineSeconds: $N, template: {spec: {restartPolicy: Never, containers: [{name: app, image: app, `+
		`resources: {requests: {cpu: "1$N"}}}]}}}`), "job/$C",
		[]truth{{kinds: "Job", field: "activeDeadlineSeconds", value: "$N", numbers: []string{"$N"}},
			{kinds: "Job Pod", field: "cpu", value: "1$N", numbers: []string{"8"}}}, ""},
	{"mistake: recreated when the old Pod has ended, and it takes its time", object("apps/v1", "Deployment", "$C",
		`spec: {replicas: 1, strategy: {type: Recreate}, selector: {matchLabels: {app: $C}}, template: {metadata: `+
			`{labels: {app: $C}}, spec: {terminationGracePeriodSeconds: 30$N, containers: [{name: app, image: `+
			`ignores-term}]}}}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "strategy.type|terminationGracePeriodSeconds", value: "Recreate|30$N",
			numbers: []string{"30$N"}}},
		`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"mistake: DaemonSet that surges over its own host port", surging("$C", `ports: [{containerPort: 8080, hostPort: `+
		`74$N0}]`), "daemonset/$C",
		[]truth{{kinds: "DaemonSet Pod", field: "hostPort|maxSurge", value: "74$N0|1", numbers: []string{"74$N0"},
			want: "maxUnavailable"}},
		`daemonset/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"mistake: autoscaler over a second container without a request", workload("$A", `{containers: [{name: app, `+
		`image: `+
		`app, resources: {requests: {cpu: 100m}}}, {name: $B, image: app}]}`) + autoscalerOf("$C", "Deployment", "$A"),
		"hpa/$C", []truth{{kinds: "Deployment", field: "containers[1].resources.requests.cpu",
			numbers: []string{"$B"}, want: "requests=cpu"}}, ""},
	{"mistake: autoscaler that may not scale up", workload("$A", withRequest("cpu", "100m")) + scalerOf("$C",
		"Deployment", "$A", `behavior: {scaleUp: {selectPolicy: Disabled}}`), "hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "scaleUp.selectPolicy", value: "Disabled", want: "Max"}}, ""},
	{"mistake: autoscaler of a metric that nobody serves", workload("$A", plainApp) + scalerOf("$C", "Deployment", "$A",
		`metrics: [{type: Pods, pods: {metric: {name: $B}, target: {type: AverageValue, averageValue: $N}}}]`),
		"hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "metrics[0]", value: "$B",
			numbers: []string{"custom.metrics.k8s.io"}}}, ""},
	{"mistake: autoscaler of a DaemonSet", object("apps/v1", "DaemonSet", "$A", `spec: {selector: {matchLabels: {app: `+
		`$A}}, template: {metadata: {labels: {app: $A}}, spec: `+withRequest("cpu", "10m")+`}}`) + scalerOf("$C",
		"DaemonSet", "$A", ""), "hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "scaleTargetRef", value: "DaemonSet"}}, ""},
	{"mistake: quota of affinity to other namespaces", object("v1", "ResourceQuota", "$A", `spec: {hard: {pods: 0}, `+
		`scopeSelector: {matchExpressions: [{scopeName: CrossNamespacePodAffinity, operator: Exists}]}}`) +
		workload("$C",
			`{containers: [`+app+`], affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: `+
				`[{weight: 5, `+
				`podAffinityTerm: {topologyKey: kubernetes.io/hostname, namespaces: [default], labelSelector: `+
				`{matchLabels: `+
				`{app: $B}}}}]}}}`), "deployment/$C",
		[]truth{{kinds: "ResourceQuota Deployment", field: "spec.hard.pods|affinity", numbers: []string{"$A", "0"}}},
		""},
	{"mistake: apart from everything", single("$A", `{nodeSelector: {kubernetes.io/hostname: node-1}, containers: `+
		`[`+app+
		`]}`) + single("$C", `{containers: [`+app+`], affinity: {podAntiAffinity: `+
		`{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: `+
		`{}}]}}}`),
		"pod/$C", []truth{{kinds: "Pod", field: "podAntiAffinity", numbers: []string{"$A"}}}, ""},
	{"mistake: two names in one term", single("$C", affine(`{matchExpressions: [{key: kubernetes.io/hostname, `+
		`operator: `+
		`In, values: [node-1]}, {key: kubernetes.io/hostname, operator: In, values: [$A]}]}`)), "pod/$C",
		[]truth{{kinds: "Pod", field: "nodeAffinity", value: "$A", want: "node-1"}}, ""},
	{"mistake: architecture by its other name", workload("$C", `{nodeSelector: {kubernetes.io/arch: x86_64}, `+
		`containers: `+
		`[`+app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "nodeSelector", value: "x86_64", want: "amd64|arm64"}}, ""},
	{"mistake: device with a taint", taintedDevice("$NS", "example.com/$B") + deviceClaim("$A") + claiming("$C", "$A"),
		"pod/$C", []truth{{kinds: "ResourceClaim ResourceSlice", field: "tolerations|taints", value: "example.com/$B",
			want: "toleration"}}, ""},
	{"mistake: variable from a label with one letter wrong", single("$C", withEnv(`{name: X, valueFrom: {fieldRef: `+
		`{fieldPath: "metadata.labels['ap']"}}}`)), "pod/$C",
		[]truth{{kinds: "Pod", field: "fieldRef.fieldPath", value: "metadata.labels['ap']",
			want: "metadata.labels['app']"}}, ""},
	{"mistake: variable from the limits of another container", single("$C", `{containers: [{name: $A, image: app, `+
		`env: `+
		`[{name: X, valueFrom: {resourceFieldRef: {containerName: $a, resource: limits.cpu}}}]}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "resourceFieldRef.containerName", value: "$a", want: "$A"}}, ""},
	{"mistake: variable used before it is there", workload("$C", withEnv(`{name: URL, value: "http://$($K)/"}, {name: `+
		`$K, value: $A}`)), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "env[0].value", value: "$($K)", numbers: []string{"env[1]|$K"}}}, ""},
	{"mistake: variable without its prefix", configMap("$A", "$K: x") + workload("$C", `{containers: [{name: app, `+
		`image: `+
		`app, args: ["--x=$($K)"], envFrom: [{prefix: APP_, configMapRef: {name: $A}}]}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "args[0]", value: "$($K)", want: "$(APP_$K)"}}, ""},
	{"mistake: variable as a shell writes it", workload("$C", `{containers: [{name: app, image: app, args: `+
		`["--x=${$K}"], env: [{name: $K, value: x}]}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "args[0]", value: "${$K}", want: "$($K)"}}, ""},
	{"mistake: hook after the start that does not end", workload("$C", `{containers: [{name: app, image: app, `+
		`lifecycle: `+
		`{postStart: {exec: {command: [sh, -c, "sleep 60$N"]}}}}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "lifecycle.postStart", value: "sleep 60$N", numbers: []string{"60$N"}}}, ""},
	{"mistake: probe asked again after an hour", single("$C", `{containers: [{name: app, image: app, command: `+
		`[sh, -c, `+
		`"sleep 4; httpd 8080"], ports: [{containerPort: 8080}], readinessProbe: {periodSeconds: 360$N, httpGet: `+
		`{port: `+
		`8080}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "readinessProbe.periodSeconds", value: "360$N", want: "periodSeconds"}}, ""},
	{"mistake: probe that begins after an hour", single("$C", `{containers: [{name: app, image: app, readinessProbe: `+
		`{initialDelaySeconds: 360$N, exec: {command: ["true"]}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "readinessProbe.initialDelaySeconds", value: "360$N",
			want: "initialDelaySeconds"}}, ""},
	{"mistake: probe that has to succeed too often", workload("$C", `{containers: [{name: app, image: app, `+
		`readinessProbe: {successThreshold: 5$N0, periodSeconds: 10, exec: {command: ["true"]}}}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "readinessProbe.successThreshold", value: "5$N0",
			numbers: []string{"5$N0", "10"}, want: "successThreshold"}}, ""},
	{"mistake: memory without its unit", workload("$C", `{containers: [{name: app, image: app, resources: {limits: `+
		`{memory: "25$N"}}}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "resources.limits.memory", value: "25$N", want: "25$NMi"}}, ""},
	{"mistake: cpu without its unit", workload("$C", withRequest("cpu", "$N00")), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "resources.requests.cpu", value: "$N00", want: "$N00m",
			numbers: []string{"8"}}}, ""},
	{"mistake: full name too long for a host name", object("v1", "Service", "$A", `spec: {clusterIP: None, selector: `+
		`{app: $C}}`) + single("$C", `{hostname: `+longName+`, subdomain: $A, setHostnameAsFQDN: true, `+
		`containers: [`+app+
		`]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "setHostnameAsFQDN|hostname", value: "true|" + longName,
			numbers: []string{"64"}}}, ""},
	{"mistake: claim of a Pod's volume is there, of somebody else", classOf("$NS", "kubernetes.io/no-provisioner") +
		volumeOf("$NS-$A", "storageClassName: $NS, ", "9Gi", "ReadWriteOnce") + claimOf("$C-d",
		"storageClassName: $NS, ") +
		single("$C", `{containers: [`+app+`], volumes: [{name: d, ephemeral: {volumeClaimTemplate: {spec: `+
			`{storageClassName: $NS, accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}}}}]}`),
		"pod/$C",
		[]truth{{kinds: "Pod PersistentVolumeClaim", field: "ephemeral|ownerReferences|name", value: "$C-d",
			want: "$C-d"}}, ""},
	{"mistake: init container waits for its own Service", serviceOf("$A", "$C", "8080") + single("$C",
		`{initContainers: [{name: wait, image: app, command: [sh, -c, "until wget -qO- http://$A/; do sleep 1; `+
			`done"]}], `+
			`containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "initContainers[0]", value: "$A", numbers: []string{"$A"}}}, ""},
	{"mistake: resized beyond what its node has left", onSecond("$A", "20Gi") + onSecond("$C", "1Gi"), "pod/$C",
		[]truth{{kinds: "Pod", field: "resources.requests.memory", value: "2$NGi", numbers: []string{"2$NGi"}}},
		`pod/$C/resize {"spec":{"containers":[{"name":"app","image":"app","resources":{"requests":{"memory":"2$NGi"}}}]}}`},

	{"well: startup probe that covers a slow start", single("$C", `{containers: [{name: app, image: app, command: `+
		`[sh, `+
		`-c, "sleep 4; httpd 8080"], ports: [{containerPort: 8080}], startupProbe: {periodSeconds: 1, `+
		`failureThreshold: `+
		`30, httpGet: {port: 8080}}, livenessProbe: {periodSeconds: 1, failureThreshold: 1, httpGet: {port: 8080}}}]}`),
		"pod/$C", nil, ""},
	{"well: Job with a sidecar", object("batch/v1", "Job", "$C", `spec: {template: {spec: {restartPolicy: Never, `+
		`initContainers: [{name: $A, image: app, restartPolicy: Always}], containers: [{name: app, image: exit-0}]}}}`),
		"job/$C", nil, ""},
	{"well: tolerates everything", single("$C", `{tolerations: [{operator: Exists}], containers: [`+app+`]}`), "pod/$C",
		nil, ""},
	{"well: OnDelete, and nothing has changed", stateful("$C", `""`, "updateStrategy: {type: OnDelete}, ", plainApp),
		"statefulset/$C", nil, ""},
	{"well: key that may be missing", configMap("$A", "$K: x") + workload("$C", withEnv(`{name: X, valueFrom: `+
		`{configMapKeyRef: {name: $A, key: $L, optional: true}}}`)), "deployment/$C", nil, ""},
	{"well: variables in order, and those of a shell", workload("$C", `{containers: [{name: app, image: app, command: `+
		`[sh, -c, "echo ${HOME} ${$K:-x}; exec run"], env: [{name: $K, value: x}, {name: URL, value: `+
		`"http://$($K)/$$(X)"}]}]}`), "deployment/$C", nil, ""},
	{"well: Job done by its success policy", object("batch/v1", "Job", "$C", `spec: {completions: 3, parallelism: 3, `+
		`completionMode: Indexed, successPolicy: {rules: [{succeededIndexes: "0"}]}, template: {spec: {restartPolicy: `+
		`Never, containers: [{name: app, image: exit-0}]}}}`), "job/$C", nil, ""},
	{"well: DaemonSet that surges", surging("$C", `ports: [{containerPort: 8080}]`), "daemonset/$C", nil,
		`daemonset/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"well: budget that lets all go", workload("$A", plainApp) + budgetOf("$C", "$A", `maxUnavailable: "100%"`),
		"pdb/$C",
		nil, ""},
	{"well: one of two terms", single("$C", affine(`{matchExpressions: [{key: kubernetes.io/hostname, operator: In, `+
		`values: [$A]}]}, {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-1]}]}`)),
		"pod/$C",
		nil, ""},
	{"well: requests in bytes", workload("$C", `{containers: [{name: app, image: app, resources: {requests: {memory: `+
		`"134217728"}, limits: {memory: "134217728"}}}]}`), "deployment/$C", nil, ""},
}

const longName = "a-name-that-a-person-found-for-a-machine-of-many-uses"

// onSecond is a Pod on node-2, of whose memory no other kind takes any.
func onSecond(name, memory string) string {
	return single(name, `{nodeSelector: {kubernetes.io/hostname: node-2}, tolerations: [{key: team, operator: `+
		`Exists}], `+
		`containers: [{name: app, image: app, resources: {requests: {memory: `+memory+`}}}]}`)
}

// affine is a Pod spec with terms of required node affinity.
func affine(terms string) string {
	return `{containers: [` + app + `], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: ` +
		`{nodeSelectorTerms: [` + terms + `]}}}}`
}

// scalerOf is an autoscaler over a target.
func scalerOf(name, kind, target, more string) string {
	if more != "" {
		more = ", " + more
	}
	return object("autoscaling/v2", "HorizontalPodAutoscaler", name, `spec: {maxReplicas: 5, scaleTargetRef: `+
		`{apiVersion: apps/v1, kind: `+kind+`, name: `+target+`}`+more+`}`)
}

// surging is a DaemonSet of one node that makes the new Pod before the old one ends.
func surging(name, container string) string {
	return object("apps/v1", "DaemonSet", name, `spec: {updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: `+
		`0}}, selector: {matchLabels: {app: `+name+`}}, template: {metadata: {labels: {app: `+name+`}}, spec: `+
		`{nodeSelector: {kubernetes.io/hostname: node-1}, containers: [{name: app, image: app, `+container+`}]}}}`)
}

// taintedDevice is a device with a taint, and its class.
func taintedDevice(name, key string) string {
	return object("resource.k8s.io/v1", "DeviceClass", name+".example.com", `spec: {selectors: [{cel: {expression: `+
		`"device.driver == '`+name+`.example.com'"}}]}`) + object("resource.k8s.io/v1", "ResourceSlice", name+"-1",
		`spec: {nodeName: node-1, driver: `+name+`.example.com, pool: {name: `+name+`, generation: 1, `+
			`resourceSliceCount: 1}, devices: [{name: one, taints: [{key: `+key+`, effect: NoSchedule}]}]}`)
}

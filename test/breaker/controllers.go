package breaker

// controllerKinds are what controllers cannot do: roll-outs, sums, deletions and devices.
var controllerKinds = []kind{
	{"roll-out: host port, and no Pod may be away", object("apps/v1", "Deployment", "$C", `spec: {replicas: 1, `+
		`strategy: {rollingUpdate: {maxUnavailable: 0}}, selector: {matchLabels: {app: $C}}, template: {metadata: `+
		`{labels: {app: $C}}, spec: {nodeSelector: {kubernetes.io/hostname: node-1}, containers: [{name: app, image: `+
		`app, ports: [{containerPort: 8080, hostPort: 71$N0}]}]}}}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "hostPort|maxUnavailable", value: "71$N0|0", numbers: []string{"71$N0"},
			want: "maxUnavailable|Recreate"}},
		`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"roll-out: apart from its own Pods, and no Pod may be away", object("apps/v1", "Deployment", "$C", `spec: `+
		`{replicas: 1, strategy: {rollingUpdate: {maxUnavailable: 0}}, selector: {matchLabels: {app: $C}}, template: `+
		`{metadata: {labels: {app: $C}}, spec: {containers: [`+app+`], affinity: {podAntiAffinity: `+
		`{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: `+
		`{matchLabels: {app: $C}}}]}}}}}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "podAntiAffinity|maxUnavailable", want: "maxUnavailable|Recreate"}},
		`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"spread over nodes that may not be used", object("apps/v1", "Deployment", "$C", `spec: {replicas: 3, selector: `+
		`{matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {containers: [`+app+`], `+
		`topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: `+
		`DoNotSchedule, labelSelector: {matchLabels: {app: $C}}}]}}}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "topologySpreadConstraints|tolerations",
			want: "nodeTaintsPolicy|ScheduleAnyway|uncordon|toleration"}}, ""},
	{"spread over more domains than there are", object("apps/v1", "Deployment", "$C", `spec: {replicas: 2, selector: `+
		`{matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {containers: [`+app+`], `+
		`topologySpreadConstraints: [{maxSkew: 1, minDomains: 1$N, topologyKey: kubernetes.io/hostname, `+
		`whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {app: $C}}}]}}}`),
		"deployment/$C",
		[]truth{{kinds: podOrOwner, field: "minDomains", value: "1$N", numbers: []string{"1$N"}}}, ""},
	{"bound by hand to a node that is too small", single("$C", `{nodeName: node-1, containers: [{name: app, image: `+
		`app, resources: {requests: {cpu: "1$N"}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "cpu", value: "1$N", numbers: []string{"8"}}}, ""},
	{"default of a range that no node has", rangeOf("$A", `default: {cpu: "1$N"}`) + workload("$C", plainApp),
		"deployment/$C", []truth{{kinds: "LimitRange", field: "default", value: "1$N", numbers: []string{"8"}}}, ""},
	{"default of a range that a quota refuses", rangeOf("$A", `default: {cpu: "$N"}`) + quotaOf("$B",
		"requests.cpu: 1") + workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: "LimitRange", field: "default", value: "$N", numbers: []string{"$B", "1"}},
			{kinds: "ResourceQuota", field: "hard.requests.cpu", value: "1", numbers: []string{"$N"}}}, ""},
	{"node selector of a runtime class", object("node.k8s.io/v1", "RuntimeClass", "$NS-$A", `handler: runc, `+
		`scheduling: {nodeSelector: {example.com/$B: "yes"}}`) + single("$C", `{runtimeClassName: $NS-$A, `+
		`containers: [`+
		app+`]}`), "pod/$C",
		[]truth{{kinds: "RuntimeClass", field: "scheduling.nodeSelector", value: "example.com/$B"}}, ""},
	{"namespace that waits for a finalizer in it", `{apiVersion: v1, kind: ConfigMap, metadata: {name: $C, ` +
		`finalizers: [example.com/$A]}}`, "namespace/$NS",
		[]truth{{kinds: "ConfigMap", field: "finalizers", value: "$A", want: "finalizers"}}, `namespace/$NS delete`},
	{"Deployment that waits for the end of its Pods", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: $C, ` +
		`finalizers: [foregroundDeletion]}, spec: {replicas: 1, selector: {matchLabels: {app: $C}}, template: ` +
		`{metadata: {labels: {app: $C}, finalizers: [example.com/$A]}, spec: {terminationGracePeriodSeconds: 1, ` +
		`containers: [` + app + `]}}}}`, "deployment/$C",
		[]truth{{kinds: "Pod", field: "finalizers", value: "$A", want: "finalizers"}}, `deployment/$C delete`},
	{"volume deleted while a claim has it", volumeOf("$NS-$A", `storageClassName: $NS, `, "9Gi", "ReadWriteOnce") +
		claimOf("$C", `storageClassName: $NS, volumeName: $NS-$A, `), "persistentvolume/$NS-$A",
		[]truth{{kinds: "PersistentVolume", field: "finalizers", numbers: []string{"$C"}, want: "$C"}},
		`persistentvolume/$NS-$A delete`},
	{"StatefulSet whose Pod's name is taken", `{apiVersion: v1, kind: Pod, metadata: {name: $C-0, labels: {app: ` +
		`$A}}, ` +
		`spec: ` + plainApp + "}\n---\n" + stateful("$C", `""`, "", plainApp), "statefulset/$C",
		[]truth{{kinds: "StatefulSet Pod", field: "name|ownerReferences", value: "$C-0", want: "$C-0"}}, ""},
	{"StatefulSet whose claim is there, of another class", claimOf("d-$C-0", `storageClassName: $A, `) +
		claimTemplates("$C", "5Gi"), "statefulset/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "storageClassName", value: "$A"}}, ""},
	{"quota of storage", quotaOf("$A", "requests.storage: 1Gi") + claimTemplates("$C", "$NGi"), "statefulset/$C",
		[]truth{{kinds: "ResourceQuota StatefulSet", field: "requests.storage|volumeClaimTemplates",
			value: "1Gi|$NGi", numbers: []string{"$A", "1Gi", "$NGi"}}}, ""},
	{"range of storage", object("v1", "LimitRange", "$A", `spec: {limits: [{type: PersistentVolumeClaim, max: `+
		`{storage: 1Gi}}]}`) + claimTemplates("$C", "$NGi"), "statefulset/$C",
		[]truth{{kinds: "LimitRange StatefulSet", field: "max|volumeClaimTemplates", value: "1Gi|$NGi",
			numbers: []string{"$A", "1Gi", "$NGi"}}}, ""},
	{"range of an init container's memory", rangeOf("$A", "max: {memory: 1Gi}") + workload("$C", `{initContainers: `+
		`[{name: $B, image: exit-0, resources: {limits: {memory: $NGi}}}], containers: [`+app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "initContainers[0].resources.limits.memory", value: "$NGi", want: "1Gi",
			numbers: []string{"$A"}}}, ""},
	{"quota of ReplicaSets", quotaOf("$A", "count/replicasets.apps: 0") + workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: "ResourceQuota", field: "count/replicasets.apps", value: "0", numbers: []string{"0"}}}, ""},
	{"quota of Pods refuses a Job", quotaOf("$A", "pods: 0") + jobOf("$C", "", "app"), "job/$C",
		[]truth{{kinds: "ResourceQuota", field: "spec.hard.pods", value: "0", numbers: []string{"0"}}}, ""},
	{"Job that no node can hold", object("batch/v1", "Job", "$C", `spec: {template: {spec: {restartPolicy: Never, `+
		`containers: [{name: app, image: app, resources: {requests: {cpu: "1$N"}}}]}}}`), "job/$C",
		[]truth{{kinds: "Job Pod", field: "cpu", value: "1$N", want: "8", numbers: []string{"8"}}}, ""},
	{"Job whose container fails in its place", object("batch/v1", "Job", "$C", `spec: {backoffLimit: 0, template: `+
		`{spec: {restartPolicy: OnFailure, containers: [{name: $A, image: exit-4}]}}}`), "job/$C",
		[]truth{{kinds: "Job", field: "backoffLimit", value: "0", numbers: []string{"0"}}}, ""},
	{"DaemonSet that no node can hold", object("apps/v1", "DaemonSet", "$C", `spec: {selector: {matchLabels: `+
		`{app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+withRequest("memory", "10$NGi")+`}}`),
		"daemonset/$C", []truth{{kinds: "DaemonSet Pod", field: "memory", value: "10$NGi"}}, ""},
	{"autoscaler by a container of another name", workload("$A", withRequest("cpu", "100m")) + object(
		"autoscaling/v2", "HorizontalPodAutoscaler", "$C", `spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: `+
			`apps/v1, kind: Deployment, name: $A}, metrics: [{type: ContainerResource, containerResource: {name: cpu, `+
			`container: $B, target: {type: Utilization, averageUtilization: 50}}}]}`), "hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "containerResource.container", value: "$B", want: "app"}},
		""},
	{"budget that needs a controller's count", single("$A", plainApp) + budgetOf("$C", "$A", "maxUnavailable: 1"),
		"pdb/$C", []truth{{kinds: "PodDisruptionBudget", field: "spec.maxUnavailable", value: "1",
			want: "minAvailable"}}, ""},
	{"device claim: none of the classes is there", object("resource.k8s.io/v1", "ResourceClaim", "$C", `spec: `+
		`{devices: {requests: [{name: d, firstAvailable: [{name: one, deviceClassName: $A.example.com}, {name: two, `+
		`deviceClassName: $B.example.com}]}]}}`), "resourceclaim/$C",
		[]truth{{kinds: "ResourceClaim", field: "firstAvailable[0].deviceClassName", value: "$A.example.com"}}, ""},
	{"device claim template of a missing class", object("resource.k8s.io/v1", "DeviceClass", "$NS-$A.example.com",
		`spec: {}`) + object("resource.k8s.io/v1", "ResourceClaimTemplate", "$B", `spec: {spec: {devices: {requests: `+
		`[{name: d, exactly: {deviceClassName: $NS-$a.example.com}}]}}}`) + single("$C", `{resourceClaims: [{name: d, `+
		`resourceClaimTemplateName: $B}], containers: [{name: app, image: app, resources: {claims: [{name: d}]}}]}`),
		"pod/$C", []truth{{kinds: "ResourceClaim ResourceClaimTemplate", field: "deviceClassName",
			value: "$NS-$a.example.com", want: "$NS-$A.example.com"}}, ""},
	{"device claim of more than there are", deviceOf("$NS") + object("resource.k8s.io/v1", "ResourceClaim", "$A",
		`spec: {devices: {requests: [{name: d, exactly: {deviceClassName: $NS.example.com, count: $N}}]}}`) + claiming(
		"$C", "$A"), "pod/$C",
		[]truth{{kinds: "ResourceClaim", field: "count", value: "$N", numbers: []string{"1"}, want: "1"}}, ""},
	{"device class for another driver", object("resource.k8s.io/v1", "DeviceClass", "$NS-$B.example.com", `spec: `+
		`{selectors: [{cel: {expression: "device.driver == '$NSx.example.com'"}}]}`) + deviceOf("$NS") + object(
		"resource.k8s.io/v1", "ResourceClaim", "$A", `spec: {devices: {requests: [{name: d, exactly: `+
			`{deviceClassName: `+
			`$NS-$B.example.com}}]}}`) + claiming("$C", "$A"), "pod/$C",
		[]truth{{kinds: "DeviceClass ResourceClaim", field: "selectors|deviceClassName", value: "$NS"}}, ""},
	{"certificate request that was denied", csrOf("$NS-$C", "kubernetes.io/kube-apiserver-client"), "csr/$NS-$C",
		[]truth{{kinds: "CertificateSigningRequest", field: "conditions", value: "Denied", numbers: []string{"$A"}}},
		`csr/$NS-$C/approval {"status":{"conditions":[{"type":"Denied","status":"True","reason":"$A","message":"no"}]}}`},
	{"certificate request, approved, that nobody signs", csrOf("$NS-$C", "example.com/$A"), "csr/$NS-$C",
		[]truth{{kinds: "CertificateSigningRequest", field: "signerName", value: "example.com/$A"}},
		`csr/$NS-$C/approval {"status":{"conditions":[{"type":"Approved","status":"True","reason":"x"}]}}`},
	{"well: one Pod per node, one of them", object("apps/v1", "Deployment", "$C", `spec: {replicas: 1, strategy: `+
		`{rollingUpdate: {maxUnavailable: 1}}, selector: {matchLabels: {app: $C}}, template: {metadata: {labels: `+
		`{app: $C}}, spec: {nodeSelector: {kubernetes.io/hostname: node-1}, containers: [{name: app, image: app, `+
		`ports: [{containerPort: 8080, hostPort: 72$N0}]}]}}}`), "deployment/$C", nil,
		`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"well: partition of none", stateful("$C", `""`, "updateStrategy: {rollingUpdate: {partition: 0}}, ", plainApp),
		"statefulset/$C", nil, `statefulset/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"well: scaled down", workload("$C", plainApp), "deployment/$C", nil, `deployment/$C {"spec":{"replicas":1}}`},
	{"well: Job that tries again", object("batch/v1", "Job", "$C", `spec: {template: {spec: {restartPolicy: `+
		`OnFailure, `+
		`containers: [{name: app, image: second-try}]}}}`), "job/$C", nil, ""},
	{"well: quota with room", quotaOf("$C", "pods: 1$N, requests.cpu: 1$N") + single("$A", withRequest("cpu", "100m")),
		"quota/$C", nil, ""},
	{"well: device there", deviceOf("$NS") + object("resource.k8s.io/v1", "ResourceClaim", "$A", `spec: {devices: `+
		`{requests: [{name: d, exactly: {deviceClassName: $NS.example.com}}]}}`), "resourceclaim/$A", nil, ""},
	{"well: bound by hand past a taint", single("$C", `{nodeName: node-2, containers: [`+app+`]}`), "pod/$C", nil, ""},
	{"well: Deployment that ends in order", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: $C, ` +
		`finalizers: ` +
		`[foregroundDeletion]}, spec: {replicas: 1, selector: {matchLabels: {app: $C}}, template: {metadata: ` +
		`{labels: ` +
		`{app: $C}}, spec: {terminationGracePeriodSeconds: 120, containers: [{name: app, image: ignores-term}]}}}}`,
		"deployment/$C", nil, `deployment/$C delete`},
}

// claimTemplates is a StatefulSet with a claim of a size, d, of no class.
func claimTemplates(name, size string) string {
	return object("apps/v1", "StatefulSet", name, `spec: {serviceName: "", selector: {matchLabels: {app: `+name+
		`}}, template: {metadata: {labels: {app: `+name+`}}, spec: {containers: [{name: app, image: app, `+
		`volumeMounts: [{name: d, mountPath: /d}]}]}}, volumeClaimTemplates: [{metadata: {name: d}, spec: {`+
		`storageClassName: "", accessModes: [ReadWriteOnce], resources: {requests: {storage: `+size+`}}}}]}`)
}

// deviceOf is a class, and one device of it on node-1, of a driver of a name.
func deviceOf(name string) string {
	return object("resource.k8s.io/v1", "DeviceClass", name+".example.com", `spec: {selectors: [{cel: {expression: `+
		`"device.driver == '`+name+`.example.com'"}}]}`) + object("resource.k8s.io/v1", "ResourceSlice", name+"-1",
		`spec: {nodeName: node-1, driver: `+name+`.example.com, pool: {name: `+name+`, generation: 1, `+
			`resourceSliceCount: 1}, devices: [{name: one}]}`)
}

// claiming is a Pod with a claim of devices.
func claiming(name, claim string) string {
	return single(name, `{resourceClaims: [{name: d, resourceClaimName: `+claim+`}], containers: [{name: app, image: `+
		`app, resources: {claims: [{name: d}]}}]}`)
}

package breaker

import "slices"

// reportedKinds are what operators report in issues and ask about, in the words of the API's
// documentation: placement, workloads and admission here, storage, network and nodes in
// reportedstorage.go, and in reportednear.go what is near to these.
var reportedKinds = slices.Concat(reportedPlaceKinds, reportedWorkKinds, reportedRefusedKinds, reportedStoreKinds,
	reportedNetKinds, reportedNodeKinds, reportedWellKinds, reportedNearKinds)

var reportedPlaceKinds = []kind{
	{"reported: spread counts nodes that the selector leaves out", object("apps/v1", "Deployment", "$C", `spec: {`+
		`replicas: 3, selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+
		`{nodeSelector: `+
		`{kubernetes.io/hostname: node-1}, containers: [`+app+`], topologySpreadConstraints: [{maxSkew: 1, `+
		`topologyKey: kubernetes.io/hostname, nodeAffinityPolicy: Ignore, whenUnsatisfiable: DoNotSchedule, `+
		`labelSelector: {matchLabels: {app: $C}}}]}}}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "topologySpreadConstraints[0]", numbers: []string{"1"},
			want: "nodeAffinityPolicy|ScheduleAnyway|maxSkew"}}, ""},
	{"reported: node without a label that all have", single("$C", affine(`{matchExpressions: [{key: `+
		`kubernetes.io/os, operator: DoesNotExist}]}`)), "pod/$C",
		[]truth{{kinds: "Pod", field: "nodeAffinity", value: "kubernetes.io/os", numbers: []string{"3"}}}, ""},
	{"reported: operating system in capitals", workload("$C", `{nodeSelector: {kubernetes.io/os: Linux}, containers: [`+
		app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "nodeSelector", value: "Linux", want: "linux"}}, ""},
	{"reported: node by its full name", single("$C", `{nodeSelector: {kubernetes.io/hostname: `+
		`node-1.$A.example.com}, containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "nodeSelector", value: "node-1.$A.example.com", want: "node-1"}}, ""},
	{"reported: role of a node that nobody labelled", workload("$C", `{nodeSelector: {node-role.kubernetes.io/$A: `+
		`""}, containers: [`+app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "nodeSelector", value: "", numbers: []string{"node-role.kubernetes.io/$A|3"},
			want: "node-role.kubernetes.io/$A"}}, ""},
	{"reported: beside a Pod on a node whose taint it does not tolerate", onSecond("$A", "1Mi") + single("$C",
		`{containers: [`+app+`], affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: `+
			`[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: $A}}}]}}}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "tolerations|podAffinity", numbers: []string{"node-2", "team|team=$TEAM"},
			want: "team"}}, ""},
	{"reported: two gates of two controllers", single("$C", `{schedulingGates: [{name: example.com/$A}, {name: `+
		`example.com/$B}], containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "schedulingGates[0]", value: "example.com/$A"}, {kinds: "Pod",
			field: "schedulingGates[1]", value: "example.com/$B"}}, ""},
	{"reported: device on another node than the Pod's", deviceOf("$NS") + deviceClaim("$A") + single("$C",
		`{nodeSelector: {kubernetes.io/hostname: node-2}, tolerations: [{key: team, operator: Exists}], `+
			`resourceClaims: [{name: d, resourceClaimName: $A}], containers: [{name: app, image: app, resources: `+
			`{claims: [{name: d}]}}]}`),
		"pod/$C", []truth{{kinds: "Pod ResourceClaim", field: "nodeSelector|devices|resourceClaims",
			numbers: []string{"node-1|node-2"}}}, ""},
	{"reported: device by an attribute that it has not", deviceOf("$NS") + object("resource.k8s.io/v1", "ResourceClaim",
		"$A", `spec: {devices: {requests: [{name: d, exactly: {deviceClassName: $NS.example.com, selectors: [{cel: {`+
			`expression: "device.attributes['$NS.example.com'].$B == '$N'"}}]}}]}}`) + claiming("$C", "$A"), "pod/$C",
		[]truth{{kinds: "ResourceClaim", field: "selectors",
			numbers: []string{"$B|device.attributes['$NS.example.com'].$B"},
			value:   "$B"}}, ""},
	{"reported: name of a claim template as a claim", deviceOf("$NS") + object("resource.k8s.io/v1",
		"ResourceClaimTemplate", "$A", `spec: {spec: {devices: {requests: [{name: d, exactly: {deviceClassName: `+
			`$NS.example.com}}]}}}`) + claiming("$C", "$A"), "pod/$C",
		[]truth{{kinds: "Pod", field: "resourceClaims[0].resourceClaimName", value: "$A",
			want: "resourceClaimTemplateName"}}, ""},
	{"reported: namespaces by a label that none has", workload("$A", plainApp) + single("$C", `{containers: [`+app+
		`], affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: `+
		`kubernetes.io/hostname, namespaceSelector: {matchLabels: {team: $B}}, labelSelector: {matchLabels: {app: `+
		`$A}}}]}}`+
		`}`), "pod/$C", []truth{{kinds: "Pod", field: "podAffinity", value: "$B|$A", numbers: []string{"$NS|$B|team"}}},
		""},
	{"reported: port of the node that another workload has", single("$A", `{nodeSelector: {kubernetes.io/hostname: `+
		`node-1}, containers: [{name: app, image: app, ports: [{containerPort: 8080, hostPort: `+
		`72$N1}]}]}`) + workload("$C",
		`{nodeSelector: {kubernetes.io/hostname: node-1}, containers: [{name: app, image: app, ports: `+
			`[{containerPort: 9090, hostPort: 72$N1}]}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "hostPort", value: "72$N1", numbers: []string{"$A"}}}, ""},
}

var reportedWorkKinds = []kind{
	{"reported: StatefulSet whose name is too long for its label", stateful("$C-"+longName, `""`, "", plainApp),
		"statefulset/$C-" + longName, []truth{{kinds: "StatefulSet", field: "metadata.name",
			value: "$C-" + longName, numbers: []string{"63"}}}, ""},
	{"reported: Deployment of a program that is done", workload("$C", `{containers: [{name: app, image: exit-0}]}`),
		"deployment/$C", []truth{{kinds: podOrOwner, field: "containers|ontainerStatuses", numbers: []string{"0"},
			want: "Job|command"}}, ""},
	{"reported: server as an init container", workload("$C", `{initContainers: [{name: $A, image: web, ports: [{`+
		`containerPort: 8080}]}], containers: [{name: app, image: app}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "initContainers[0]", numbers: []string{"$A"}, want: "restartPolicy"}}, ""},
	{"reported: failures that a policy ignores", object("batch/v1", "Job", "$C", `spec: {backoffLimit: 0, `+
		`podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [3]}}]}, template: {spec: {`+
		`restartPolicy: Never, containers: [{name: app, image: exit-3}]}}}`), "job/$C",
		[]truth{{kinds: "Job", field: "podFailurePolicy.rules[0]", value: "Ignore", numbers: []string{"3"}}}, ""},
	{"reported: deadline in a Job's template", object("batch/v1", "Job", "$C", `spec: {backoffLimit: 0, template: {`+
		`spec: {activeDeadlineSeconds: $N, restartPolicy: Never, containers: [`+app+`]}}}`), "job/$C",
		[]truth{{kinds: "Job Pod", field: "activeDeadlineSeconds", value: "$N", numbers: []string{"$N"}}}, ""},
	{"reported: Job that is deleted as soon as it has ended", object("batch/v1", "Job", "$C", `spec: {`+
		`ttlSecondsAfterFinished: 0, template: {spec: {restartPolicy: Never, containers: [{name: app, image: `+
		`exit-0}]}}}`),
		"job/$C", []truth{{kinds: "Job", field: "ttlSecondsAfterFinished", value: "0"}}, ""},
	{"reported: DaemonSets that want one port of the node", dayDaemon("$A", `ports: [{containerPort: 8080, hostPort: `+
		`73$N1}]`) + dayDaemon("$C", `ports: [{containerPort: 9090}]`), "daemonset/$C",
		[]truth{{kinds: "DaemonSet Pod", field: "hostPort", value: "73$N1", numbers: []string{"$A"}}},
		"daemonset/$A {}\n" + `daemonset/$C {"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app",` +
			`"ports":[{"containerPort":9090,"hostPort":73$N1}]}]}}}}`},
	{"reported: DaemonSet rolled out to what crashes", dayDaemon("$C", `env: [{name: X, value: a}]`), "daemonset/$C",
		[]truth{{kinds: "DaemonSet Pod", field: "containers|ontainerStatuses", numbers: []string{"3"}}},
		`daemonset/$C {"spec":{"template":{"spec":{"containers":[{"name":"app","image":"exit-3"}]}}}}`},
	{"reported: finalizer in a template", object("apps/v1", "Deployment", "$C", `spec: {replicas: 2, selector: {`+
		`matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}, finalizers: [example.com/$A]}, spec: `+
		``+plainApp+
		`}}`), "deployment/$C", []truth{{kinds: "Deployment Pod", field: "metadata.finalizers",
		value: "example.com/$A"}},
		`deployment/$C {"spec":{"replicas":0}}`},
	{"reported: paused, and a Service waits for the new label", workload("$A", plainApp) + object("v1", "Service", "$C",
		`spec: {selector: {app: $A, release: v$N}, ports: [{port: 80, targetPort: 8080}]}`), "service/$C",
		[]truth{{kinds: "Deployment", field: "paused", value: "true", want: "resume"}},
		`deployment/$A {"spec":{"paused":true,"template":{"metadata":{"labels":{"app":"$A","release":"v$N"}}}}}`},
	{"reported: one name in two variables", workload("$C", withEnv(`{name: $K, value: $A}, {name: $K, value: $B}`)),
		"deployment/$C", []truth{{kinds: podOrOwner, field: "env[0]|env[1]", value: "$K|$A|$B",
			numbers: []string{"$K"}}}, ""},
}

var reportedRefusedKinds = []kind{
	{"reported: quota that counts Pods that have ended", single("$A", `{restartPolicy: Never, containers: [{name: `+
		`app, image: exit-0}]}`) + quotaOf("$B", "count/pods: 2") + workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: "ResourceQuota", field: "count/pods", value: "2", numbers: []string{"$A|1"},
			want: "pods|delete pod"}}, ""},
	{"reported: quota of one storage class", classOf("$NS", "kubernetes.io/no-provisioner") + quotaOf("$B",
		"$NS.storageclass.storage.k8s.io/requests.storage: $NGi") +
		object("apps/v1", "StatefulSet", "$C", `spec: {serviceName: "", selector: {matchLabels: {app: $C}}, `+
			`template: {`+
			`metadata: {labels: {app: $C}}, spec: `+plainApp+`}, volumeClaimTemplates: [{metadata: {name: d}, spec: {`+
			`storageClassName: $NS, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1$NGi}}}}]}`),
		"statefulset/$C", []truth{{kinds: "ResourceQuota", field: "$NS.storageclass.storage.k8s.io/requests.storage",
			value: "$NGi", numbers: []string{"1$NGi"}}}, ""},
	{"reported: condition of a webhook that cannot be evaluated", hookFor("$NS-$A", `url: "https://example.com/x"`,
		`matchConditions: [{name: x, expression: "object.spec.$B == 'x'"}], `) + workload("$C", plainApp),
		"deployment/$C",
		[]truth{{kinds: "ValidatingWebhookConfiguration", field: "matchConditions[0]", value: "object.spec.$B",
			numbers: []string{"$B"}}}, ""},
	{"reported: level of Pod security refuses a directory of the node", object("apps/v1", "Deployment", "$C", `spec: {`+
		`selector: {matchLabels: {app: $C}}, strategy: {type: Recreate}, template: {metadata: {labels: {app: $C}}, `+
		`spec: {containers: [`+app+`], volumes: [{name: $A, hostPath: {path: /tmp}}]}}}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "volumes[0]", numbers: []string{"baseline", "$A"}, want: "emptyDir|$A"}},
		`namespace/$NS {"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}` + "\n" +
			`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"reported: level of Pod security refuses a privileged container", object("apps/v1", "Deployment", "$C", `spec: {`+
		`selector: {matchLabels: {app: $C}}, strategy: {type: Recreate}, template: {metadata: {labels: {app: $C}}, `+
		`spec: {containers: [{name: app, image: app, securityContext: {privileged: true}}]}}}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "securityContext.privileged", value: "true", numbers: []string{"baseline"},
			want: "privileged"}},
		`namespace/$NS {"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}` + "\n" +
			`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"reported: account is deleted after the Deployment was made", object("v1", "ServiceAccount", "$A", "") + object(
		"apps/v1", "Deployment", "$C", `spec: {selector: {matchLabels: {app: $C}}, strategy: {type: Recreate}, `+
			`template: {`+
			`metadata: {labels: {app: $C}}, spec: {serviceAccountName: $A, containers: [`+app+`]}}}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "serviceAccountName", value: "$A", want: "serviceaccount $A"}},
		"serviceaccount/$A delete\n" + `deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"reported: range refuses what a sidecar asks for", rangeOf("$B", `max: {memory: $N00Mi}`) + workload("$C",
		`{initContainers: [{name: $A, image: app, restartPolicy: Always, resources: {limits: {memory: $N01Mi}}}], `+
			`containers: [{name: app, image: app, resources: {limits: {memory: 50Mi}}}]}`), "deployment/$C",
		[]truth{{kinds: "LimitRange " + podOrOwner, field: "max.memory|limits[0].max|initContainers[0].resources",
			numbers: []string{"$N00Mi", "$N01Mi"}}}, ""},
	{"reported: rights for the namespace's account, and the Pod has its own", object("v1", "ServiceAccount", "$A", "") +
		ruleOf("$B", `apiGroups: [""], resources: [secrets], verbs: [get]`) + bindRole("$C", "Role", "$B",
		"{kind: ServiceAccount, name: $A, namespace: $NS-o}"), "rolebinding/$C",
		[]truth{{kinds: "RoleBinding", field: "subjects[0]", value: "$NS-o|$A", want: "$NS"}}, ""},
}

// dayDaemon is a DaemonSet on node-1.
func dayDaemon(name, container string) string {
	return object("apps/v1", "DaemonSet", name, `spec: {selector: {matchLabels: {app: `+name+`}}, template: `+
		`{metadata: {`+
		`labels: {app: `+name+`}}, spec: {nodeSelector: {kubernetes.io/hostname: node-1}, containers: [{name: app, `+
		`image: app, `+container+`}]}}}`)
}

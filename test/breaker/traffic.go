package breaker

// trafficKinds are policies, ports, protocols and names on the way between Pods.
var trafficKinds = []kind{
	{"policy: peer with one letter wrong", workload("$A", plainApp) + workload("$B", plainApp) + policyOf("$C", "$A",
		`ingress: [{from: [{podSelector: {matchLabels: {app: $b}}}]}]`), "networkpolicy/$C",
		[]truth{{kinds: "NetworkPolicy", field: "spec.ingress[0].from[0].podSelector", value: "$b", want: "$B"}}, ""},
	{"policy: namespace with another label", workload("$A", plainApp) + policyOf("$C", "$A", `ingress: [{from: `+
		`[{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NSx}}}]}]`), "networkpolicy/$C",
		[]truth{{kinds: "NetworkPolicy", field: "namespaceSelector", value: "$NSx", want: "$NS"}}, ""},
	{"policy: port off by one", workload("$A", plainApp) + policyOf("$C", "$A", `ingress: [{ports: [{port: 8081}]}]`),
		"networkpolicy/$C",
		[]truth{{kinds: "NetworkPolicy", field: "ports[0].port", value: "8081", want: "8080"}}, ""},
	{"policy: port of the Service", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + policyOf("$C", "$A",
		`ingress: [{ports: [{port: 80}]}]`), "networkpolicy/$C",
		[]truth{{kinds: "NetworkPolicy", field: "ports[0].port", value: "80", want: "8080"}}, ""},
	{"policy: another protocol", workload("$A", plainApp) + policyOf("$C", "$A",
		`ingress: [{ports: [{port: 8080, protocol: UDP}]}]`), "networkpolicy/$C",
		[]truth{{kinds: "NetworkPolicy", field: "protocol", value: "UDP", want: "TCP"}}, ""},
	{"policy that lets nobody in, asked of the Service", workload("$A", plainApp) + serviceOf("$C", "$A", "8080") +
		policyOf("$B", "$A", `policyTypes: [Ingress]`), "service/$C",
		[]truth{{kinds: "NetworkPolicy", field: "spec.ingress"}}, ""},
	{"policy that leaves the Service's port out", workload("$A", plainApp) + serviceOf("$C", "$A", "8080") +
		policyOf("$B", "$A", `ingress: [{ports: [{port: 9$N}]}]`), "service/$C",
		[]truth{{kinds: "NetworkPolicy", field: "ports"}}, ""},
	{"Service: another protocol", workload("$A", plainApp) + object("v1", "Service", "$C", `spec: {selector: {app: `+
		`$A}, ports: [{port: 80, targetPort: 8080, protocol: UDP}]}`), "service/$C",
		[]truth{{kinds: "Service", field: "protocol", value: "UDP", want: "TCP"}}, ""},
	{"Service: name outside that is none inside", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") +
		object("v1", "Service", "$C", `spec: {type: ExternalName, externalName: $a.$NS.svc.cluster.local}`),
		"service/$C", []truth{{kinds: "Service", field: "externalName", value: "$a", want: "$A"}}, ""},
	{"Service without selector or endpoints", object("v1", "Service", "$C", `spec: {ports: [{port: 80}]}`),
		"service/$C", []truth{{kinds: "Service", field: "selector"}}, ""},
	{"Service: balancer that nobody gives", workload("$A", plainApp) + object("v1", "Service", "$C", `spec: {type: `+
		`LoadBalancer, selector: {app: $A}, ports: [{port: 80, targetPort: 8080}]}`), "service/$C",
		[]truth{{kinds: "Service", field: "type", value: "LoadBalancer"}}, ""},
	{"StatefulSet: its Service selects others", serviceOf("$C", "$c", "8080") + stateful("$C", "$C", "", plainApp),
		"statefulset/$C", []truth{{kinds: "Service", field: "selector", value: "$c", want: "$C"}}, ""},
	{"Ingress: certificate of another type", serviceOf("$A", "$A", "8080") + workload("$A", plainApp) + secret("$B",
		"$K: x") + object("networking.k8s.io/v1", "Ingress", "$C", `spec: {tls: [{secretName: $B}], defaultBackend: `+
		`{service: {name: $A, port: {number: 80}}}}`), "ingress/$C",
		[]truth{{kinds: "Ingress Secret", field: "tls", want: "kubernetes.io/tls"}}, ""},
	{"probe of a port with another name", workload("$C", `{containers: [{name: app, image: app, ports: [{name: `+
		`http, containerPort: 8080}], readinessProbe: {httpGet: {port: htp, path: /}}}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "readinessProbe.httpGet.port", value: "htp", want: "http"}}, ""},
	{"subdomain without its Service", single("$C", `{subdomain: $a, containers: [`+app+`]}`) + serviceOf("$A", "$C",
		"8080"), "pod/$C", []truth{{kinds: "Pod", field: "subdomain", value: "$a", want: "$A"}}, ""},
}

// placeKinds are places that do not exist, and amounts in another unit.
var placeKinds = []kind{
	{"spread over a key that no node has", workload("$C", `{containers: [`+app+`], topologySpreadConstraints: [{maxSkew:`+
		` 1, topologyKey: kubernetes.io/hostnam, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: `+
		`$C}}}]}`), "deployment/$C", []truth{{kinds: podOrOwner, field: "topologyKey", value: "hostnam",
		want: "kubernetes.io/hostname"}}, ""},
	{"spread of other Pods", workload("$C", `{containers: [`+app+`], topologySpreadConstraints: [{maxSkew: 1, `+
		`topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: `+
		`$c}}}]}`), "deployment/$C", []truth{{kinds: podOrOwner, field: "labelSelector", value: "$c", want: "$C"}}, ""},
	{"more replicas than places", object("apps/v1", "Deployment", "$C", `spec: {replicas: $N, selector: {matchLabels: `+
		`{app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {containers: [`+app+`], affinity: {podAntiAffinity:`+
		` {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: `+
		`{matchLabels: {app: $C}}}]}}}}}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "podAntiAffinity", want: "1", numbers: []string{"$N", "1"}}}, ""},
	{"toleration of another value", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-2}, tolerations: [{key: `+
		`team, value: $A, effect: NoSchedule}], containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "tolerations", value: "$A", want: "team=$TEAM:NoSchedule"}}, ""},
	{"toleration of another key", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-2}, tolerations: [{key: `+
		`taem, value: $TEAM}], containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "tolerations", value: "taem", want: "team=$TEAM:NoSchedule"}}, ""},
	{"toleration of another effect", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-2}, tolerations: [{key: `+
		`team, value: $TEAM, effect: NoExecute}], containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "tolerations", value: "NoExecute", want: "NoSchedule"}}, ""},
	{"node affinity to one of two names", single("$C", `{containers: [`+app+`], affinity: {nodeAffinity: `+
		`{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: `+
		`kubernetes.io/hostname, operator: In, values: [nod-1, $A]}]}]}}}}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "nodeAffinity", value: "nod-1", want: "node-1"}}, ""},
	{"memory in thousandths", workload("$C", `{containers: [{name: app, image: app, resources: {requests: {memory: `+
		`"12$Nm"}}}]}`), "deployment/$C", []truth{{kinds: podOrOwner, field: "resources.requests.memory", value: "12$Nm",
		want: "12$NMi"}}, ""},
	{"user 0 that must not be root", workload("$C", `{securityContext: {runAsNonRoot: true}, containers: [{name: app, `+
		`image: app, securityContext: {runAsUser: 0}}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "securityContext.runAs", value: "0"}}, ""},
	{"hook longer than the grace period", workload("$C", `{terminationGracePeriodSeconds: 1$N, containers: [{name: app,`+
		` image: app, lifecycle: {preStop: {exec: {command: [sh, -c, "sleep 30"]}}}}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "preStop", value: "30", numbers: []string{"30", "1$N"}}}, ""},
	{"variable with one letter wrong", workload("$C", `{containers: [{name: app, image: app, args: ["--x=$($L)"], env: `+
		`[{name: $K, value: x}]}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "args[0]", value: "$L", want: "$($K)"}}, ""},
	{"subPath that is no key", configMap("$A", "$K: x") + workload("$C", `{containers: [{name: app, image: app, `+
		`volumeMounts: [{name: v, mountPath: /x, subPath: $L}]}], volumes: [{name: v, configMap: {name: $A}}]}`),
		"deployment/$C", []truth{{kinds: podOrOwner, field: "subPath", value: "$L", want: "$K"}}, ""},
	{"script without the bit to run it", configMap("$A", "$K: x") + workload("$C", `{containers: [{name: app, image: `+
		`app, command: [/x/$K], volumeMounts: [{name: v, mountPath: /x}]}], volumes: [{name: v, configMap: {name: $A}}]}`),
		"deployment/$C", []truth{{kinds: podOrOwner, field: "command", value: "$K", want: "0755"}}, ""},
	{"pull secret of another type", secret("$A", "$K: x") + workload("$C", `{imagePullSecrets: [{name: $A}], `+
		`containers: [`+app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "imagePullSecrets", value: "$A", want: "kubernetes.io/dockerconfigjson"}}, ""},
	{"runtime class for nodes that are not there", object("node.k8s.io/v1", "RuntimeClass", "$NS-$A", `handler: x, `+
		`scheduling: {nodeSelector: {kubernetes.io/hostname: nod-1}}`) + single("$C", `{runtimeClassName: $NS-$A, `+
		`containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod RuntimeClass", field: "nodeSelector", value: "nod-1", want: "node-1"}}, ""},
	{"volume for a node that is not there", object("v1", "PersistentVolume", "$NS-$A", `spec: {storageClassName: $NS, `+
		`capacity: {storage: 9Gi}, accessModes: [ReadWriteOnce], local: {path: /tmp/none}, nodeAffinity: {required: `+
		`{nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [nod-1]}]}]}}}`),
		"pv/$NS-$A", []truth{{kinds: "PersistentVolume", field: "nodeAffinity", value: "nod-1", want: "node-1"}}, ""},
	{"volume kept for a claim that is not there", volumeOf("$NS-$A", `claimRef: {namespace: $NS, name: $b}, `, "9Gi",
		"ReadWriteOnce") + claimOf("$B", ""), "pv/$NS-$A",
		[]truth{{kinds: "PersistentVolume", field: "claimRef", value: "$b", want: "$B"}}, ""},
}

// rightKinds are quotas, ranges, roles, policies and webhooks that refuse, and times.
var rightKinds = []kind{
	{"role: resource with one letter wrong", object("rbac.authorization.k8s.io/v1", "Role", "$C",
		`rules: [{apiGroups: [""], resources: [pod], verbs: [get]}]`), "role/$C",
		[]truth{{kinds: "Role", field: "rules[0].resources[0]", value: "pod", want: "pods"}}, ""},
	{"role: another group", object("rbac.authorization.k8s.io/v1", "Role", "$C",
		`rules: [{apiGroups: [""], resources: [deployments], verbs: [get]}]`), "role/$C",
		[]truth{{kinds: "Role", field: "apiGroups", want: "apps"}}, ""},
	{"role: verb with one letter wrong, asked of its binding", object("rbac.authorization.k8s.io/v1", "Role", "$A",
		`rules: [{apiGroups: [""], resources: [pods], verbs: [lists]}]`) + object("rbac.authorization.k8s.io/v1",
		"RoleBinding", "$C", `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: $A}, subjects: [{kind: `+
			`ServiceAccount, name: default, namespace: $NS}]`), "rolebinding/$C",
		[]truth{{kinds: "Role", field: "verbs", value: "lists", want: "list"}}, ""},
	{"binding to a user of a service account's name", object("v1", "ServiceAccount", "$B", "") + object(
		"rbac.authorization.k8s.io/v1", "Role", "$A", "rules: []") + object("rbac.authorization.k8s.io/v1",
		"RoleBinding", "$C", `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: $A}, subjects: [{kind: `+
			`User, apiGroup: rbac.authorization.k8s.io, name: $B}]`), "rolebinding/$C",
		[]truth{{kinds: "RoleBinding", field: "subjects[0].kind", value: "User", want: "ServiceAccount"}}, ""},
	{"quota demands requests", quotaOf("$A", "requests.cpu: 8, limits.memory: 8Gi") + workload("$C", plainApp),
		"deployment/$C", []truth{{kinds: "Deployment", field: "resources.requests.cpu", numbers: []string{"$A"}},
			{kinds: "Deployment", field: "resources.limits.memory"}}, ""},
	{"LimitRange: sum of a Pod", object("v1", "LimitRange", "$A", `spec: {limits: [{type: Pod, max: {cpu: "1"}}]}`) +
		workload("$C", `{containers: [{name: app, image: app, resources: {limits: {cpu: "$N"}}}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "limits.cpu", value: "$N", want: "1", numbers: []string{"$A"}}}, ""},
	{"LimitRange: request above the default limit", rangeOf("$A", "default: {cpu: 500m}") + workload("$C",
		withRequest("cpu", "$N")), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "requests.cpu", value: "$N", want: "500m"}}, ""},
	{"LimitRange: ratio", rangeOf("$A", "maxLimitRequestRatio: {cpu: 2}") + workload("$C", `{containers: [{name: app, `+
		`image: app, resources: {requests: {cpu: 100m}, limits: {cpu: "$N"}}}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "limits.cpu", value: "$N", numbers: []string{"2"}}}, ""},
	{"quota that a roll-out exceeds", quotaOf("$A", "pods: 2") + workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: "ResourceQuota", field: "spec.hard.pods", value: "2", numbers: []string{"2", "1"}}},
		`deployment/$C {"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":0}},"template":{"metadata":` +
			`{"annotations":{"x":"$N"}}}}}`},
	{"policy's binding of another name", object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding",
		"$NS-$C", `spec: {policyName: $NS-$a, validationActions: [Audit]}`) + object("admissionregistration.k8s.io/v1",
		"ValidatingAdmissionPolicy", "$NS-$A", `spec: {validations: [{expression: "true"}], matchConstraints: `+
			`{namespaceSelector: {matchLabels: {x: "$NS"}}, resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: `+
			`[pods], operations: [CREATE]}]}}`), "validatingadmissionpolicybinding/$NS-$C",
		[]truth{{kinds: "ValidatingAdmissionPolicyBinding", field: "policyName", value: "$a", want: "$A"}}, ""},
	{"webhook asks about namespaces that are not there", object("admissionregistration.k8s.io/v1",
		"ValidatingWebhookConfiguration", "$NS-$C", `webhooks: [{name: x.example.com, sideEffects: None, `+
			`admissionReviewVersions: [v1], clientConfig: {url: "https://example.com/x"}, namespaceSelector: {matchLabels: `+
			`{kubernetes.io/metadata.name: $NSx}}, rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], `+
			`operations: [CREATE]}]}]`), "validatingwebhookconfiguration/$NS-$C",
		[]truth{{kinds: "ValidatingWebhookConfiguration", field: "namespaceSelector", value: "$NSx"}}, ""},
	{"webhook about a resource with one letter wrong", object("admissionregistration.k8s.io/v1",
		"ValidatingWebhookConfiguration", "$NS-$C", `webhooks: [{name: x.example.com, sideEffects: None, `+
			`admissionReviewVersions: [v1], clientConfig: {url: "https://example.com/x"}, namespaceSelector: {matchLabels: `+
			`{kubernetes.io/metadata.name: $NS}}, rules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployment], `+
			`operations: [CREATE]}]}]`), "validatingwebhookconfiguration/$NS-$C",
		[]truth{{kinds: "ValidatingWebhookConfiguration", field: "resources", value: "deployment", want: "deployments"}},
		""},
	{"webhook that nobody serves refuses Pods", object("admissionregistration.k8s.io/v1",
		"ValidatingWebhookConfiguration", "$NS-$A", `webhooks: [{name: $NS.example.com, sideEffects: None, `+
			`admissionReviewVersions: [v1], clientConfig: {service: {namespace: $NS, name: $b}}, namespaceSelector: `+
			`{matchLabels: {kubernetes.io/metadata.name: $NS}}, rules: [{apiGroups: [""], apiVersions: [v1], resources: `+
			`[pods], operations: [CREATE]}]}]`) + serviceOf("$B", "$B", "8080") + workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: "ValidatingWebhookConfiguration", field: "clientConfig.service", value: "$b", want: "$B"}}, ""},
	{"two autoscalers over one target", workload("$A", withRequest("cpu", "100m")) + autoscalerOf("$C", "Deployment",
		"$A") + autoscalerOf("$B", "Deployment", "$A"), "hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "scaleTargetRef", value: "$A", numbers: []string{"$B"}}}, ""},
	{"Pods that count late", object("apps/v1", "Deployment", "$C", `spec: {minReadySeconds: 5$N0, selector: {matchLabels:`+
		` {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+plainApp+`}}`), "deployment/$C",
		[]truth{{kinds: "Deployment", field: "minReadySeconds", value: "5$N0", numbers: []string{"1", "0"}}}, ""},
	{"probe that comes after the deadline", object("apps/v1", "Deployment", "$C", `spec: {progressDeadlineSeconds: 60, `+
		`selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {containers: [{name: app, `+
		`image: app, readinessProbe: {initialDelaySeconds: 30$N, exec: {command: [x]}}}]}}}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "initialDelaySeconds", value: "30$N", numbers: []string{"60"}}}, ""},
	{"lease that ran out", object("coordination.k8s.io/v1", "Lease", "$C", `spec: {holderIdentity: $A, `+
		`leaseDurationSeconds: 1$N, renewTime: "2026-01-01T00:00:00.000000Z"}`), "lease/$C",
		[]truth{{kinds: "Lease", field: "renewTime", numbers: []string{"1$N", "$A"}}}, ""},
	{"device class missing", object("resource.k8s.io/v1", "ResourceClaim", "$C", `spec: {devices: {requests: [{name: d, `+
		`exactly: {deviceClassName: $A.example.com}}]}}`), "resourceclaim/$C",
		[]truth{{kinds: "ResourceClaim", field: "deviceClassName", value: "$A"}}, ""},
	{"two workloads with one selector", workload("$A", plainApp) + object("apps/v1", "StatefulSet", "$C", `spec: `+
		`{serviceName: "", selector: {matchLabels: {app: $A}}, template: {metadata: {labels: {app: $A}}, spec: `+plainApp+
		`}}`), "deployment/$A",
		[]truth{{kinds: "Deployment", field: "selector", value: "$A", numbers: []string{"$C"}}}, ""},
	{"owner that is not there", object("v1", "ServiceAccount", "$A", "") +
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: $C, ownerReferences: [{apiVersion: v1, kind: ServiceAccount, ` +
		`name: $a, uid: "$N"}], finalizers: [example.com/x]}}`, "configmap/$C",
		[]truth{{kinds: "ConfigMap", field: "ownerReferences|finalizers"}}, ""},
}

func policyOf(name, app, rules string) string {
	return object("networking.k8s.io/v1", "NetworkPolicy", name, `spec: {podSelector: {matchLabels: {app: `+app+`}}, `+
		rules+`}`)
}

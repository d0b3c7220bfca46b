package breaker

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
			`{namespaceSelector: {matchLabels: {x: "$NS"}}, resourceRules: [{apiGroups: [""], apiVersions: [v1], `+
			`resources: `+
			`[pods], operations: [CREATE]}]}}`), "validatingadmissionpolicybinding/$NS-$C",
		[]truth{{kinds: "ValidatingAdmissionPolicyBinding", field: "policyName", value: "$a", want: "$A"}}, ""},
	{"webhook asks about namespaces that are not there", object("admissionregistration.k8s.io/v1",
		"ValidatingWebhookConfiguration", "$NS-$C", `webhooks: [{name: x.example.com, sideEffects: None, `+
			`admissionReviewVersions: [v1], clientConfig: {url: "https://example.com/x"}, namespaceSelector: `+
			`{matchLabels: `+
			`{kubernetes.io/metadata.name: $NSx}}, rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], `+
			`operations: [CREATE]}]}]`), "validatingwebhookconfiguration/$NS-$C",
		[]truth{{kinds: "ValidatingWebhookConfiguration", field: "namespaceSelector", value: "$NSx"}}, ""},
	{"webhook about a resource with one letter wrong", object("admissionregistration.k8s.io/v1",
		"ValidatingWebhookConfiguration", "$NS-$C", `webhooks: [{name: x.example.com, sideEffects: None, `+
			`admissionReviewVersions: [v1], clientConfig: {url: "https://example.com/x"}, namespaceSelector: `+
			`{matchLabels: `+
			`{kubernetes.io/metadata.name: $NS}}, rules: [{apiGroups: [apps], apiVersions: [v1], resources: `+
			`[deployment], `+
			`operations: [CREATE]}]}]`), "validatingwebhookconfiguration/$NS-$C",
		[]truth{{kinds: "ValidatingWebhookConfiguration", field: "resources", value: "deployment",
			want: "deployments"}},
		""},
	{"webhook that nobody serves refuses Pods", object("admissionregistration.k8s.io/v1",
		"ValidatingWebhookConfiguration", "$NS-$A", `webhooks: [{name: $NS.example.com, sideEffects: None, `+
			`admissionReviewVersions: [v1], clientConfig: {service: {namespace: $NS, name: $b}}, namespaceSelector: `+
			`{matchLabels: {kubernetes.io/metadata.name: $NS}}, rules: [{apiGroups: [""], apiVersions: [v1], `+
			`resources: `+
			`[pods], operations: [CREATE]}]}]`) + serviceOf("$B", "$B", "8080") + workload("$C", plainApp),
		"deployment/$C",
		[]truth{{kinds: "ValidatingWebhookConfiguration", field: "clientConfig.service", value: "$b", want: "$B"}}, ""},
	{"two autoscalers over one target", workload("$A", withRequest("cpu", "100m")) + autoscalerOf("$C", "Deployment",
		"$A") + autoscalerOf("$B", "Deployment", "$A"), "hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "scaleTargetRef", value: "$A", numbers: []string{"$B"}}}, ""},
	{"Pods that count late", object("apps/v1", "Deployment", "$C", `spec: {minReadySeconds: 5$N0, selector: `+
		`{matchLabels:`+
		` {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+plainApp+`}}`), "deployment/$C",
		[]truth{{kinds: "Deployment", field: "minReadySeconds", value: "5$N0", numbers: []string{"1", "0"}}}, ""},
	{"probe that comes after the deadline", object("apps/v1", "Deployment", "$C", `spec: {progressDeadlineSeconds: `+
		`60, `+
		`selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {containers: [{name: `+
		`app, `+
		`image: app, readinessProbe: {initialDelaySeconds: 30$N, exec: {command: [x]}}}]}}}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "initialDelaySeconds", value: "30$N", numbers: []string{"60"}}}, ""},
	{"lease that ran out", object("coordination.k8s.io/v1", "Lease", "$C", `spec: {holderIdentity: $A, `+
		`leaseDurationSeconds: 1$N, renewTime: "2026-01-01T00:00:00.000000Z"}`), "lease/$C",
		[]truth{{kinds: "Lease", field: "renewTime", numbers: []string{"1$N", "$A"}}}, ""},
	{"certificate request to a signer with one letter wrong", csrOf("$NS-$C", "kubernetes.io/kube-apiserver-clint"),
		"csr/$NS-$C", []truth{{kinds: "CertificateSigningRequest", field: "signerName", value: "clint",
			want: "kubernetes.io/kube-apiserver-client"}}, ""},
	{"certificate request for another use", object("certificates.k8s.io/v1", "CertificateSigningRequest", "$NS-$C",
		`spec: {request: $CSR, signerName: kubernetes.io/kube-apiserver-client, usages: [server auth]}`), "csr/$NS-$C",
		[]truth{{kinds: "CertificateSigningRequest", field: "usages", value: "server auth", want: "client auth"}}, ""},
	{"Pod for another system", single("$C", `{os: {name: windows}, containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "os.name", value: "windows", want: "linux"}}, ""},
	{"device class missing", object("resource.k8s.io/v1", "ResourceClaim", "$C", `spec: {devices: {requests: `+
		`[{name: d, `+
		`exactly: {deviceClassName: $A.example.com}}]}}`), "resourceclaim/$C",
		[]truth{{kinds: "ResourceClaim", field: "deviceClassName", value: "$A"}}, ""},
	{"two workloads with one selector", workload("$A", plainApp) + object("apps/v1", "StatefulSet", "$C", `spec: `+
		`{serviceName: "", selector: {matchLabels: {app: $A}}, template: {metadata: {labels: {app: $A}}, `+
		`spec: `+plainApp+
		`}}`), "deployment/$A",
		[]truth{{kinds: "Deployment", field: "selector", value: "$A", numbers: []string{"$C"}}}, ""},
	{"owner that is not there", object("v1", "ServiceAccount", "$A", "") +
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: $C, ownerReferences: [{apiVersion: v1, kind: ` +
		`ServiceAccount, ` +
		`name: $a, uid: "$N"}], finalizers: [example.com/x]}}`, "configmap/$C",
		[]truth{{kinds: "ConfigMap", field: "ownerReferences|finalizers"}}, ""},
}

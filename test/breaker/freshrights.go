package breaker

// freshRightKinds are roles, webhooks, policies, levels of Pod security, quotas and certificate
// requests, written from Kubernetes' API documentation on 2026-11-29, before the rules of why were
// read. $HOOK is the address of a webhook that the test serves, $CA its certificate.
var freshRightKinds = []kind{
	{"fresh: rights: paths of the server in one namespace", object(rbac, "ClusterRole", "$NS-$A", `rules: [{`+
		`nonResourceURLs: [/metrics], verbs: [get]}]`) + bindRole("$C", "ClusterRole", "$NS-$A",
		"{kind: ServiceAccount, name: default, namespace: $NS}"), "rolebinding/$C",
		[]truth{{kinds: "RoleBinding ClusterRole", field: "roleRef|kind|nonResourceURLs", value: "/metrics|$NS-$A",
			want: "ClusterRoleBinding|clusterrolebinding"}}, ""},
	{"fresh: rights: role of a resource in another group's place", ruleOf("$C", `apiGroups: [extensions], resources: `+
		`[ingresses], verbs: [get]`), "role/$C", []truth{{kinds: "Role", field: "apiGroups", value: "extensions",
		want: "networking.k8s.io"}}, ""},
	{"fresh: rights: role of a custom kind that is not there", ruleOf("$C", `apiGroups: [$A.example.com], resources: `+
		`[$Bs], verbs: [get]`), "role/$C", []truth{{kinds: "Role", field: "apiGroups|resources",
		value: "$A.example.com|$Bs"}}, ""},
	{"fresh: rights: binding of a cluster role to a group with one letter wrong", object(rbac, "ClusterRoleBinding",
		"$NS-$C", `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: `+
			`Group, apiGroup: rbac.authorization.k8s.io, name: "system:authentcated"}]`), "clusterrolebinding/$NS-$C",
		[]truth{{kinds: "ClusterRoleBinding", field: "subjects[0]", value: "system:authentcated",
			want: "system:authenticated"}}, ""},
	hooked("webhook that answers too late", `url: "$HOOK/slow", caBundle: $CA`, "timeoutSeconds: 1, ",
		truth{field: "timeoutSeconds|clientConfig", numbers: []string{"1|1s"}}),
	hooked("webhook with another certificate authority", `url: "$HOOK/yes", caBundle: $CRT`, "",
		truth{field: "caBundle"}),
	hooked("webhook by a name that its certificate has not", `url: "$LOCAL/yes", caBundle: $CA`, "",
		truth{field: "clientConfig", numbers: []string{"localhost"}}),
	hooked("webhook that fails itself", `url: "$HOOK/error", caBundle: $CA`, "",
		truth{field: "clientConfig", numbers: []string{"500"}}),
	hooked("webhook that answers something else", `url: "$HOOK/hello", caBundle: $CA`, "",
		truth{field: "clientConfig"}),
	hooked("webhook of a path that is not there", `url: "$HOOK/none", caBundle: $CA`, "",
		truth{field: "clientConfig", numbers: []string{"404"}}),
	{"fresh: rights: webhook that refuses", hookFor("$NS-$A", `url: "$HOOK/no", caBundle: $CA`, "") + workload("$C",
		plainApp), "deployment/$C", []truth{{kinds: podOrOwner + " ValidatingWebhookConfiguration",
		field: "template|webhooks", value: "", numbers: []string{"$NS.example.com", "owner"}}},
		`deployment/$C {"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":0}},"template":{"metadata":` +
			`{"annotations":{"x":"$N"}}}}}`},
	enforced("fresh: rights: level of Pod security refuses the node's processes", "$C", "baseline",
		`{hostPID: true, containers: [`+app+`]}`, []truth{{kinds: podOrOwner, field: "hostPID", value: "true",
			numbers: []string{"baseline"}}}),
	enforced("fresh: rights: level of Pod security refuses an unconfined program", "$C", "baseline",
		`{containers: [{name: app, image: app, securityContext: {seccompProfile: {type: Unconfined}}}]}`, []truth{{
			kinds: podOrOwner, field: "seccompProfile.type", value: "Unconfined", want: "RuntimeDefault",
			numbers: []string{"baseline"}}}),
	enforced("fresh: rights: level of Pod security refuses a sysctl", "$C", "baseline",
		`{securityContext: {sysctls: [{name: net.core.somaxconn, value: "1024"}]}, containers: [`+app+`]}`, []truth{{
			kinds: podOrOwner, field: "sysctls", value: "net.core.somaxconn", numbers: []string{"baseline"}}}),
	enforced("fresh: rights: level of Pod security refuses a volume type", "$C", "restricted",
		`{securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}, containers: `+
			`[{name: app, image: app, securityContext: {allowPrivilegeEscalation: false, capabilities: `+
			`{drop: [ALL]}}}], `+
			`volumes: [{name: $A, nfs: {server: 10.9.9.9, path: /x}}]}`, []truth{{kinds: podOrOwner,
			field: "volumes[0]", value: "nfs|$A", numbers: []string{"restricted"}}}),
	{"fresh: rights: quota of Pods with a deadline", object("v1", "ResourceQuota", "$A", `spec: {hard: {pods: 0}, `+
		`scopes: [Terminating]}`) + object("batch/v1", "Job", "$C", `spec: {template: {spec: {activeDeadlineSeconds: `+
		`$N00, restartPolicy: Never, containers: [{name: app, image: app}]}}}`), "job/$C",
		[]truth{{kinds: "ResourceQuota Job", field: "hard|template", numbers: []string{"$A", "0"}}}, ""},
	{"fresh: rights: quota of the limits of what sets none", quotaOf("$A", "limits.cpu: 2") + stateful("$C", `""`, "",
		plainApp), "statefulset/$C", []truth{{kinds: "StatefulSet ResourceQuota", field: "limits.cpu",
		numbers: []string{"$A"}}}, ""},
	{"fresh: rights: two quotas, one of them used up", quotaOf("$A", "pods: 50") + quotaOf("$B", "requests.cpu: 100m") +
		workload("$C", withRequest("cpu", "$N00m")), "deployment/$C", []truth{{kinds: "ResourceQuota " + podOrOwner,
		field: "cpu", numbers: []string{"$B", "100m", "$N00m"}}}, ""},
	{"fresh: rights: range's minimum above what a default gives", object("v1", "LimitRange", "$A", `spec: {limits: [{`+
		`type: Container, min: {memory: $N00Mi}}]}`) + workload("$C", withRequest("memory", "$NMi")), "deployment/$C",
		[]truth{{kinds: "LimitRange " + podOrOwner, field: "memory", numbers: []string{"$A", "$N00Mi", "$NMi"}}}, ""},
	{"fresh: rights: policy whose change cannot be applied", object("admissionregistration.k8s.io/v1",
		"MutatingAdmissionPolicy", "$NS-$B", `spec: {reinvocationPolicy: Never, mutations: [{patchType: `+
			`ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{nodeSelector: {'disk': `+
			`'$A'}}}"}}], matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}, `+
			`resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}}`) +
		object("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", "$NS-$B",
			"spec: {policyName: $NS-$B}") + workload("$C", plainApp), "deployment/$C", []truth{{
		kinds: podOrOwner + " MutatingAdmissionPolicy", field: "nodeSelector|mutations", value: "$A|disk",
		numbers: []string{"$A", "$NS-$B"}}},
		`deployment/$C {"spec":{"replicas":3,"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"fresh: rights: policy refuses, and a Secret is missing",
		policyFor("$NS-$A", "pods", `validations: [{expression: `+
			`"has(object.metadata.labels.owner)", message: "every Pod has an owner"}]`) + bindingFor("$NS-$A", "$NS-$A",
			"") + oneOf("$C", `{containers: [{name: app, image: app, envFrom: [{secretRef: {name: $B}}]}]}`),
		"deployment/$C", []truth{{kinds: "ValidatingAdmissionPolicy " + podOrOwner, field: "validations[0]|labels",
			numbers: []string{"$NS-$A"}}, {kinds: podOrOwner, field: "envFrom[0].secretRef", value: "$B"}},
		`deployment/$C {"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":0}},"template":{"metadata":` +
			`{"annotations":{"x":"$N"}}}}}`},
	{"fresh: rights: certificate request that its signer gave up", csrOf("$NS-$C", "example.com/$A"), "csr/$NS-$C",
		[]truth{{kinds: "CertificateSigningRequest", field: "conditions|status|signerName|request",
			numbers: []string{"SignerValidationFailure"}}},
		`csr/$NS-$C/approval {"status":{"conditions":[{"type":"Approved","status":"True","reason":"x"}]}}` + "\n" +
			`csr/$NS-$C/status {"status":{"conditions":[{"type":"Approved","status":"True","reason":"x"},{"type":` +
			`"Failed","status":"True","reason":"SignerValidationFailure","message":"$B is not allowed"}]}}`},
	{"fresh: rights: certificate request of a kubelet's server by somebody", object("certificates.k8s.io/v1",
		"CertificateSigningRequest", "$NS-$C", `spec: {request: $CSR, signerName: kubernetes.io/kubelet-serving, `+
			`usages: [server auth, digital signature]}`), "csr/$NS-$C", []truth{{kinds: "CertificateSigningRequest",
		field: "request|conditions|signerName", numbers: []string{"system:nodes|system:node|system:node:|somebody"}}},
		`csr/$NS-$C/approval {"status":{"conditions":[{"type":"Approved","status":"True","reason":"x"}]}}`},

	{"fresh: well: rights: webhook that fails and may", hookFor("$NS-$A", `url: "$HOOK/error", caBundle: $CA`,
		"failurePolicy: Ignore, ") + workload("$C", plainApp), "deployment/$C", nil, ""},
	{"fresh: well: rights: webhook that says yes", hookFor("$NS-$A", `url: "$HOOK/yes", caBundle: $CA`, "") + workload(
		"$C", plainApp), "deployment/$C", nil, ""},
	{"fresh: well: rights: policy that only warns", policyFor("$NS-$A", "pods", `validations: `+
		`[{expression: "false"}]`) +
		object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "$NS-$A", `spec: {policyName: `+
			`$NS-$A, validationActions: [Warn, Audit]}`) + workload("$C", plainApp), "deployment/$C", nil, ""},
	{"fresh: well: rights: paths of the server for all", object(rbac, "ClusterRole", "$NS-$A", `rules: [{`+
		`nonResourceURLs: [/metrics], verbs: [get]}]`) + object(rbac, "ClusterRoleBinding", "$NS-$C", `roleRef: {`+
		`apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $NS-$A}, subjects: [{kind: ServiceAccount, `+
		`name: default, namespace: $NS}]`), "clusterrolebinding/$NS-$C", nil, ""},
}

// hooked is a Deployment rolled out when a webhook about its Pods does not do its work.
func hooked(name, config, more string, t truth) kind {
	t.kinds = "ValidatingWebhookConfiguration"
	return kind{"fresh: rights: " + name, hookFor("$NS-$A", config, more) + workload("$C", plainApp), "deployment/$C",
		[]truth{t}, `deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`}
}

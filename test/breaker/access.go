package breaker

const rbac = "rbac.authorization.k8s.io/v1"

// ruleOf is a Role with one rule.
func ruleOf(name, rule string) string { return object(rbac, "Role", name, "rules: [{"+rule+"}]") }

// bindRole binds a Role to subjects.
func bindRole(name, kind, role, subjects string) string {
	return object(rbac, "RoleBinding", name, `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: `+kind+`, name: `+
		role+`}, subjects: [`+subjects+`]`)
}

// policyFor is a ValidatingAdmissionPolicy about one namespace's objects.
func policyFor(name, resource, more string) string {
	group := `""`
	if resource == "deployments" {
		group = "apps"
	}
	return object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", name, `spec: {`+more+
		`, matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}, resourceRules: `+
		`[{apiGroups: [`+group+`], apiVersions: [v1], resources: [`+resource+`], operations: [CREATE, UPDATE]}]}}`)
}

func bindingFor(name, policy, more string) string {
	return object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", name, `spec: {policyName: `+
		policy+`, validationActions: [Deny]`+more+`}`)
}

// hookFor is a webhook about one namespace's Pods.
func hookFor(name, config, more string) string {
	return object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", name, `webhooks: [{name: `+
		`$NS.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {`+config+`}, `+more+
		`namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}, rules: [{apiGroups: [""], apiVersions: `+
		`[v1], resources: [pods], operations: [CREATE]}]}]`)
}

// accessKinds are roles, accounts, admission and the contents of Secrets.
var accessKinds = []kind{
	{"access: resourceNames with one letter wrong", configMap("$A", "$K: x") + ruleOf("$C", `apiGroups: [""], `+
		`resources: [configmaps], resourceNames: [$a], verbs: [get]`), "role/$C", []truth{{kinds: "Role",
		field: "rules[0].resourceNames[0]", value: "$a", want: "$A"}}, ""},
	{"access: a name for what has none yet", ruleOf("$C", `apiGroups: [""], resources: [configmaps], resourceNames: `+
		`[$A], verbs: [create]`) + configMap("$A", "$K: x"), "role/$C", []truth{{kinds: "Role", field: "rules[0]",
		value: "create|$A"}}, ""},
	{"access: group with one letter wrong", ruleOf("$C", `apiGroups: [app], resources: [deployments], verbs: [get]`),
		"role/$C", []truth{{kinds: "Role", field: "apiGroups", value: "app", want: "apps"}}, ""},
	{"access: version for a group", ruleOf("$C", `apiGroups: [v1], resources: [pods], verbs: [get]`), "role/$C",
		[]truth{{kinds: "Role", field: "apiGroups", value: "v1", want: `"value":""`}}, ""},
	{"access: group with its version", ruleOf("$C", `apiGroups: [apps/v1], resources: [deployments], verbs: [get]`),
		"role/$C", []truth{{kinds: "Role", field: "apiGroups", value: "apps/v1", want: "apps"}}, ""},
	{"access: subresource with one letter wrong", ruleOf("$C", `apiGroups: [""], resources: [pods/logs], verbs: [get]`),
		"role/$C", []truth{{kinds: "Role", field: "resources", value: "pods/logs", want: "pods/log"}}, ""},
	{"access: kind for a resource", ruleOf("$C", `apiGroups: [apps], resources: [Deployment], verbs: [get]`), "role/$C",
		[]truth{{kinds: "Role", field: "resources", value: "Deployment", want: "deployments"}}, ""},
	{"access: verb of HTTP", ruleOf("$C", `apiGroups: [""], resources: [pods], verbs: [post]`), "role/$C",
		[]truth{{kinds: "Role", field: "verbs", value: "post", want: "create"}}, ""},
	{"access: cluster role with one letter wrong", object(rbac, "ClusterRole", "$NS-$A", "rules: []") + bindRole("$C",
		"ClusterRole", "$NS-$a", "{kind: ServiceAccount, name: default, namespace: $NS}"), "rolebinding/$C",
		[]truth{{kinds: "RoleBinding", field: "roleRef", value: "$NS-$a", want: "$NS-$A"}}, ""},
	{"access: role that is a cluster role", object(rbac, "ClusterRole", "$NS-$A", "rules: []") + bindRole("$C", "Role",
		"$NS-$A", "{kind: ServiceAccount, name: default, namespace: $NS}"), "rolebinding/$C", []truth{{
		kinds: "RoleBinding", field: "roleRef", value: "$NS-$A", numbers: []string{"ClusterRole"}}}, ""},
	{"access: account of another namespace", object("v1", "ServiceAccount", "$B", "") + ruleOf("$A",
		`apiGroups: [""], `+
			`resources: [pods], verbs: [get]`) + bindRole("$C", "Role", "$A",
		"{kind: ServiceAccount, name: $B, namespace: $NSx}"), "rolebinding/$C", []truth{{kinds: "RoleBinding",
		field: "subjects[0]", value: "$B|$NSx", want: "$NS"}}, ""},
	{"access: group of accounts of no namespace", ruleOf("$A", `apiGroups: [""], resources: [pods], verbs: [get]`) +
		bindRole("$C", "Role", "$A", `{kind: Group, apiGroup: rbac.authorization.k8s.io, name: `+
			`"system:serviceaccounts:$NSx"}`), "rolebinding/$C", []truth{{kinds: "RoleBinding", field: "subjects[0]",
		value: "$NSx", want: "$NS"}}, ""},
	{"access: account of a user's name", object("v1", "ServiceAccount", "$B", "") + ruleOf("$A", `apiGroups: [""], `+
		`resources: [pods], verbs: [get]`) + bindRole("$C", "Role", "$A", `{kind: User, apiGroup: `+
		`rbac.authorization.k8s.io, name: "system:serviceaccount:$NS:$b"}`), "rolebinding/$C", []truth{{
		kinds: "RoleBinding", field: "subjects[0]", value: "$b", want: "$B"}}, ""},
	{"access: pull secret of an account", secret("$A", "$K: x") + object("v1", "ServiceAccount", "$C",
		"imagePullSecrets: [{name: $a}]"), "serviceaccount/$C", []truth{{kinds: "ServiceAccount",
		field: "imagePullSecrets", value: "$a", want: "$A"}}, ""},
	{"access: cluster role that gathers nothing", object(rbac, "ClusterRole", "$NS-$C", `aggregationRule: `+
		`{clusterRoleSelectors: [{matchLabels: {"$NS": $A}}]}`), "clusterrole/$NS-$C", []truth{{kinds: "ClusterRole",
		field: "aggregationRule", value: "$A"}}, ""},
	{"access: policy refuses Pods", policyFor("$NS-$A", "pods", `validations: [{expression: `+
		`"object.spec.containers.all(c, has(c.resources.limits))", message: "limits are demanded"}]`) + bindingFor(
		"$NS-$A", "$NS-$A", "") + workload("$C", plainApp), "deployment/$C", []truth{{
		kinds: "ValidatingAdmissionPolicy Deployment ReplicaSet", field: "validations[0]", value: "limits",
		numbers: []string{"$NS-$A"}}},
		`deployment/$C {"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":0}},"template":{"metadata":` +
			`{"annotations":{"x":"$N"}}}}}`},
	{"access: policy's parameter that is not there", configMap("$A", "$K: x") + policyFor("$NS-$C", "pods",
		`paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: "true"}]`) + bindingFor("$NS-$C",
		"$NS-$C", `, paramRef: {name: $a, namespace: $NS, parameterNotFoundAction: Deny}`),
		"validatingadmissionpolicybinding/$NS-$C", []truth{{kinds: "ValidatingAdmissionPolicyBinding",
			field: "paramRef", value: "$a", want: "$A"}}, ""},
	{"access: a binding about namespaces that are not there", policyFor("$NS-$C", "pods",
		`validations: [{expression: "true"}]`) + bindingFor("$NS-$C", "$NS-$C",
		`, matchResources: {namespaceSelector: `+
			`{matchLabels: {kubernetes.io/metadata.name: $NSx}}}`), "validatingadmissionpolicybinding/$NS-$C", []truth{{
		kinds: "ValidatingAdmissionPolicyBinding", field: "matchResources.namespaceSelector", value: "$NSx"}}, ""},
	{"access: policy about namespaces that are not there", object("admissionregistration.k8s.io/v1",
		"ValidatingAdmissionPolicy", "$NS-$C", `spec: {validations: [{expression: "true"}], matchConstraints: `+
			`{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NSx}}, resourceRules: [{apiGroups: `+
			`[""], `+
			`apiVersions: [v1], resources: [pods], operations: [CREATE]}]}}`) + bindingFor("$NS-$C", "$NS-$C", ""),
		"validatingadmissionpolicy/$NS-$C", []truth{{kinds: "ValidatingAdmissionPolicy", field: "namespaceSelector",
			value: "$NSx"}}, ""},
	{"access: policy about a resource with one letter wrong", object("admissionregistration.k8s.io/v1",
		"ValidatingAdmissionPolicy", "$NS-$C", `spec: {validations: [{expression: "true"}], matchConstraints: `+
			`{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}, resourceRules: [{apiGroups: `+
			`[apps], `+
			`apiVersions: [v1], resources: [deployment], operations: [CREATE]}]}}`) + bindingFor("$NS-$C",
		"$NS-$C", ""),
		"validatingadmissionpolicy/$NS-$C", []truth{{kinds: "ValidatingAdmissionPolicy", field: "resources",
			value: "deployment", want: "deployments"}}, ""},
	{"access: policy that nothing binds", policyFor("$NS-$C", "pods", `validations: [{expression: "true"}]`),
		"validatingadmissionpolicy/$NS-$C", []truth{{kinds: "ValidatingAdmissionPolicy", field: "name",
			value: "$NS-$C"}}, ""},
	{"access: mutating policy's binding", object("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding",
		"$NS-$C", "spec: {policyName: $NS-$A}"), "mutatingadmissionpolicybinding/$NS-$C", []truth{{
		kinds: "MutatingAdmissionPolicyBinding", field: "policyName", value: "$NS-$A"}}, ""},
	{"access: webhook's port", object("v1", "Service", "$A", "spec: {ports: [{port: 844$N}]}") + hookFor("$NS-$A",
		`service: {namespace: $NS, name: $A}`, "") + workload("$C", plainApp), "deployment/$C", []truth{{
		kinds: "ValidatingWebhookConfiguration", field: "clientConfig.service", value: "443", want: "844$N"}}, ""},
	{"access: webhook's address does not answer", hookFor("$NS-$A", `url: "https://127.0.0.1:$N/x"`,
		"timeoutSeconds: 1, ") + workload("$C", plainApp), "deployment/$C", []truth{{
		kinds: "ValidatingWebhookConfiguration", field: "clientConfig", value: "127.0.0.1:$N"}}, ""},
	{"access: credentials for another registry", object("v1", "Secret", "$A", `type: kubernetes.io/dockerconfigjson, `+
		`stringData: {.dockerconfigjson: '{"auths":{"$B.example.com":{"auth":"dTpw"}}}'}`) + single("$C",
		`{imagePullSecrets: [{name: $A}], containers: [{name: app, image: "$P.example.com/app:1"}]}`), "pod/$C",
		[]truth{{kinds: "Pod Secret", field: "imagePullSecrets|.dockerconfigjson", value: "$A|$B.example.com",
			numbers: []string{"$B.example.com", "$P.example.com"}}}, ""},
	{"access: a line's end in a password", object("v1", "Secret", "$A", `stringData: {$K: "hush\n"}`) + single("$C",
		withEnv(`{name: X, valueFrom: {secretKeyRef: {name: $A, key: $K}}}`)), "pod/$C", []truth{{kinds: "Secret Pod",
		field: "data|secretKeyRef", value: "$K"}}, ""},
	{"access: mounted by key from a Secret of another type", object("v1", "Secret", "$A",
		`type: kubernetes.io/basic-auth, stringData: {username: x, password: "z"}`) + single("$C", `{containers: [`+app+
		`], volumes: [{name: v, secret: {secretName: $A, items: [{key: tls.crt, path: tls.crt}]}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "items[0].key", value: "tls.crt", numbers: []string{"username",
			"password"}}}, ""},
}

package breaker

// reportedNearKinds stand beside those of the other files: the same relation between other objects
// and fields, and healthy things that look so.
var reportedNearKinds = []kind{
	{"reported: near: Service of a namespace that is not there", workload("$C", withEnv(`{name: URL, value: `+
		`"http://$A.$B.svc.cluster.local:80/"}`)), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "env[0].value", value: "$A.$B.svc", numbers: []string{"$B"}}}, ""},
	{"reported: near: argument with a Service of one letter wrong", workload("$B", plainApp) + serviceOf("$B", "$B",
		"8080") + workload("$C", `{containers: [{name: app, image: app, args: ["--db=$b:80"]}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "args[0]", value: "$b", want: "$B"}}, ""},
	{"reported: near: host from a ConfigMap with one letter wrong", workload("$B", plainApp) + serviceOf("$B", "$B",
		"8080") + configMap("$A", `DATABASE_URL: "postgres://$b:80/x"`) + workload("$C",
		`{containers: [{name: app, image: `+
			`app, envFrom: [{configMapRef: {name: $A}}]}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner + " ConfigMap", field: "envFrom[0]|data", value: "$b", want: "$B"}}, ""},
	{"reported: near: Pod of a StatefulSet below another Service", headless("$A") + serviceOf("$B", "$A", "8080") +
		stateful("$A", "$A", "", plainApp) + workload("$C", withEnv(`{name: URL, value: "http://$A-0.$B:8080/"}`)),
		"deployment/$C", []truth{{kinds: podOrOwner, field: "env[0].value", value: "$A-0.$B", want: "$A-0.$A"}}, ""},
	{"reported: near: Service that is in another namespace, by its own name", otherNamespace("v1", "Service", "$A",
		"spec: {selector: {app: $A}, ports: [{port: 80}]}") + workload("$C", withEnv(`{name: URL, value: `+
		`"http://$A:80/"}`)),
		"deployment/$C", []truth{{kinds: podOrOwner, field: "env[0].value", value: "$A", want: "$A.$NS-o",
			numbers: []string{"$NS-o"}}}, ""},
	{"reported: near: one name in two variables, one from a Secret", secret("$A", "$K: x") + workload("$C", withEnv(
		`{name: $K, valueFrom: {secretKeyRef: {name: $A, key: $K}}}, {name: $K, value: $B}`)), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "env[0]|env[1]", value: "$K|$A|$B", numbers: []string{"$A"}}}, ""},
	{"reported: near: options of an init container", workload("$C", `{initContainers: [{name: $A, image: exit-0, `+
		`command: ["-v", "--wait=$N"]}], containers: [`+app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "initContainers[0].command", value: "-v", want: "args"}}, ""},
	{"reported: near: condition of a policy that cannot be evaluated", policyFor("$NS-$A", "pods",
		`matchConditions: [{`+
			`name: x, expression: "object.spec.$B == 'x'"}], validations: [{expression: `+
			`"true"}]`) + bindingFor("$NS-$A",
		"$NS-$A", "") + workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: "ValidatingAdmissionPolicy", field: "matchConditions[0]", value: "object.spec.$B",
			numbers: []string{"$B"}}},
		`deployment/$C {"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":0}},"template":{"metadata":` +
			`{"annotations":{"x":"$N"}}}}}`},
	enforced("reported: near: level of Pod security refuses a port of the node", "$C", "baseline",
		`{containers: [{name: `+
			`app, image: app, ports: [{containerPort: 8080, hostPort: 75$N1}]}]}`, []truth{{kinds: podOrOwner,
			field: "hostPort|ports", value: "75$N1", numbers: []string{"baseline"}}}),
	enforced("reported: near: level of Pod security refuses an init container", "$C", "baseline", `{initContainers: [{`+
		`name: $A, image: exit-0, securityContext: {privileged: true}}], containers: [`+app+`]}`, []truth{{
		kinds: podOrOwner, field: "initContainers[0].securityContext.privileged", value: "true",
		numbers: []string{"baseline"}, want: "privileged"}}),
	enforced("reported: near: level of Pod security refuses a capability", "$C", "baseline",
		`{containers: [{name: app, `+
			`image: app, securityContext: {capabilities: {add: [NET_ADMIN]}}}]}`, []truth{{kinds: podOrOwner,
			field: "containers[0].securityContext.capabilities.add", value: "NET_ADMIN",
			numbers: []string{"baseline"}}}),
	{"reported: near: failures that a policy ignores but for one code", object("batch/v1", "Job", "$C", `spec: {`+
		`backoffLimit: 1, podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: NotIn, values: `+
		`[42]}}]}, template: {spec: {restartPolicy: Never, containers: [{name: app, image: exit-4}]}}}`), "job/$C",
		[]truth{{kinds: "Job", field: "podFailurePolicy.rules[0]", value: "Ignore", numbers: []string{"4"}}}, ""},
	{"reported: near: DaemonSet whose old Pod a finalizer holds", object("apps/v1", "DaemonSet", "$C",
		`spec: {selector: {`+
			`matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}, finalizers: [example.com/$A]}, spec: {`+
			`nodeSelector: {kubernetes.io/hostname: node-1}, containers: [`+app+`]}}}`), "daemonset/$C",
		[]truth{{kinds: "DaemonSet Pod", field: "metadata.finalizers", value: "example.com/$A"}},
		`daemonset/$C {"spec":{"template":{"spec":{"containers":[{"name":"app","image":"web"}]}}}}`},
	{"reported: near: StatefulSet's scaled down Pod that a finalizer holds", object("apps/v1", "StatefulSet", "$C",
		`spec: {serviceName: "", replicas: 2, selector: {matchLabels: {app: $C}}, template: {metadata: {labels: `+
			`{app: $C}, finalizers: [example.com/$A]}, spec: `+plainApp+`}}`), "statefulset/$C",
		[]truth{{kinds: "StatefulSet Pod", field: "metadata.finalizers", value: "example.com/$A"}},
		`statefulset/$C {"spec":{"replicas":1}}`},
	{"reported: near: init container that sleeps for ever", workload("$C", `{initContainers: [{name: $A, image: app, `+
		`command: [sh, -c, "echo ready; sleep infinity"]}], containers: [`+app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "initContainers[0]", value: "", numbers: []string{"$A"},
			want: "restartPolicy|command"}}, ""},
	{"reported: near: one path twice in an Ingress", workload("$A", plainApp) + workload("$B",
		plainApp) + serviceOf("$A",
		"$A", "8080") + serviceOf("$B", "$B", "8080") + object("networking.k8s.io/v1", "Ingress", "$C",
		`spec: {rules: [{`+
			`host: $N.example.com, http: {paths: [{path: /x, pathType: Prefix, backend: {service: {name: $A, port: `+
			`{number: 80}}}}, {path: /x, pathType: Prefix, backend: {service: {name: $B, port: {number: 80}}}}]}}]}`),
		"ingress/$C",
		[]truth{{kinds: "Ingress", field: "rules[0].http.paths[1]", value: "/x", numbers: []string{"$A|$B"}}}, ""},
	{"reported: near: more files in memory than the Pod's limit", single("$C", `{resources: {limits: {memory: `+
		`$N0Mi}}, containers: [{name: app, image: app, volumeMounts: [{name: v, mountPath: /x}]}], volumes: [{name: `+
		`v, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "sizeLimit|limits.memory", value: "1Gi|$N0Mi",
			numbers: []string{"$N0Mi", "1Gi"}}}, ""},
	{"reported: near: class by an attribute that the device has not", object("resource.k8s.io/v1", "DeviceClass",
		"$NS.example.com", `spec: {selectors: [{cel: {expression: "device.driver == '$NS.example.com' && `+
			`device.attributes['$NS.example.com'].$B == '$N'"}}]}`) + object("resource.k8s.io/v1",
		"ResourceSlice", "$NS-1",
		`spec: {nodeName: node-1, driver: $NS.example.com, pool: {name: $NS, generation: 1, resourceSliceCount: 1}, `+
			`devices: [{name: one, attributes: {$A: {string: x}}}]}`) + deviceClaim("$A") + claiming("$C", "$A"),
		"pod/$C",
		[]truth{{kinds: "DeviceClass", field: "selectors[0]", value: "$B", numbers: []string{"$A|$B"}}}, ""},
	{"reported: near: Secret of a volume that is a ConfigMap", configMap("$A", "$K: x") + mounting("$C",
		`secret: {secretName: $A}`, ""), "pod/$C",
		[]truth{{kinds: "Pod", field: "secret.secretName", value: "$A", want: "configMap"}}, ""},
	{"reported: near: ConfigMap of all variables that is a Secret", secret("$A", "$K: x") + workload("$C",
		`{containers: `+
			`[{name: app, image: app, envFrom: [{configMapRef: {name: $A}}]}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "envFrom[0].configMapRef", value: "$A", want: "secretRef"}}, ""},
	{"reported: near: budget selects by a label of the Deployment itself", workload("$A",
		plainApp) + object("policy/v1",
		"PodDisruptionBudget", "$C", `spec: {minAvailable: 1, selector: {matchLabels: {tier: $B}}}`), "pdb/$C",
		[]truth{{kinds: "PodDisruptionBudget", field: "selector", value: "$B", numbers: []string{"$A"}}},
		`deployment/$A {"metadata":{"labels":{"tier":"$B"}}}`},
	{"reported: near: image with an open end", single("$C", `{containers: [{name: app, image: `+
		`"example.com/$A:"}]}`), "pod/$C", []truth{{kinds: "Pod", field: "containers[0].image",
		value: "example.com/$A:",
		want:  "app=example.com/$A"}}, ""},
	{"reported: near: way out by a range of ports that ends too early", workload("$A", plainApp) + serviceOf("$A", "$A",
		"8080") + single("$C", withEnv(`{name: URL, value: "http://$A:80/"}`)) + policyOf("$B", "$C", `policyTypes: [`+
		`Egress], egress: [{ports: [{port: 53, protocol: UDP}, {port: 53}, {port: 8000, endPort: 8079}]}]`), "pod/$C",
		[]truth{{kinds: "NetworkPolicy", field: "egress", numbers: []string{"$A", "8080"}}}, ""},

	{"reported: near: well: Pods of a StatefulSet in one list", headless("$A") + stateful("$A", "$A", "", plainApp) +
		workload("$C", withEnv(`{name: BROKERS, value: "$A-0.$A:8080,$A-1.$A.$NS.svc.cluster.local:8080"}`)),
		"deployment/$C", nil, ""},
	{"reported: near: well: names outside and the API's", workload("$C", withEnv(`{name: A, value: `+
		`"https://db.example.com:5432/"}, {name: B, value: "smtp.example.org:587"}, {name: C, value: `+
		`"https://kubernetes.default.svc:443"}, {name: D, value: "http://localhost:8080"}, {name: E, value: `+
		`"http://10.1.2.3:80"}, {name: F, value: "https://kubernetes.default"}`)), "deployment/$C", nil, ""},
	{"reported: near: well: variable that adds to itself", workload("$C", withEnv(`{name: PATH, value: /a}, {name: `+
		`PATH, value: "$(PATH):/b"}`)), "deployment/$C", nil, ""},
	{"reported: near: well: init container with a port that ends", workload("$C", `{initContainers: [{name: $A, `+
		`image: exit-0, ports: [{containerPort: 8080}]}], containers: [`+app+`]}`), "deployment/$C", nil, ""},
	{"reported: near: well: options behind a program", workload("$C", `{containers: [{name: app, image: app, command: `+
		`[run, "--config=/x"], args: ["-v"]}]}`), "deployment/$C", nil, ""},
	{"reported: near: well: scaled down without finalizers", stateful("$C", `""`, "", plainApp), "statefulset/$C", nil,
		`statefulset/$C {"spec":{"replicas":1}}`},
	{"reported: near: well: several variables of one Secret", secret("$A", "$K: x") + workload("$C", withEnv(
		`{name: ONE, valueFrom: {secretKeyRef: {name: $A, key: $K}}}, {name: TWO, valueFrom: {secretKeyRef: {name: `+
			`$A, key: $K}}}`)), "deployment/$C", nil, ""},
	{"reported: near: well: files on disk within the limit", single("$C", `{containers: [{name: app, image: app, `+
		`resources: {limits: {ephemeral-storage: 1$N0Mi}}, volumeMounts: [{name: v, mountPath: /x}]}], volumes: `+
		`[{name: v, emptyDir: {sizeLimit: 1$NMi}}]}`), "pod/$C", nil, ""},
}

// enforced is a Deployment that is rolled out when its namespace has got a level of Pod security.
func enforced(name, deployment, level, spec string, t []truth) kind {
	return kind{name, object("apps/v1", "Deployment", deployment, `spec: {selector: {matchLabels: {app: `+deployment+
		`}}, strategy: {type: Recreate}, template: {metadata: {labels: {app: `+deployment+`}}, spec: `+spec+`}}`),
		"deployment/" + deployment, t, `namespace/$NS {"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"` +
			level + `"}}}` + "\n" + `deployment/` + deployment +
			` {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`}
}

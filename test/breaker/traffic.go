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

func policyOf(name, app, rules string) string {
	return object("networking.k8s.io/v1", "NetworkPolicy", name, `spec: {podSelector: {matchLabels: {app: `+app+`}}, `+
		rules+`}`)
}

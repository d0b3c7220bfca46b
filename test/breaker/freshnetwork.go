package breaker

// freshNetworkKinds are Services, slices, policies, Ingresses and names, written from Kubernetes'
// API documentation on 2026-11-29, before the rules of why were read.
var freshNetworkKinds = []kind{
	{"fresh: net: selector with a label too many", workload("$A", plainApp) + object("v1", "Service", "$C",
		`spec: {selector: {app: $A, tier: $B}, ports: [{port: 80, targetPort: 8080}]}`), "service/$C",
		[]truth{{kinds: "Service", field: "selector", value: "tier", numbers: []string{"$A"}}}, ""},
	{"fresh: net: no selector, and no endpoints by hand", workload("$A", plainApp) + object("v1", "Service", "$C",
		`spec: {ports: [{port: 80, targetPort: 8080}]}`), "service/$C",
		[]truth{{kinds: "Service", field: "selector"}}, ""},
	{"fresh: net: way out to the names of a namespace that is not there",
		workload("$A", plainApp) + policyOf("$C", "$A",
			`policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+
				`kube-systm}}}], ports: [{port: 53, protocol: UDP}]}]`), "networkpolicy/$C",
		[]truth{{kinds: "NetworkPolicy", field: "egress[0].to[0].namespaceSelector", value: "kube-systm",
			want: "kube-system"}}, ""},
	{"fresh: net: names searched in another namespace", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") +
		single("$C", `{dnsPolicy: None, dnsConfig: {nameservers: [10.96.0.10], searches: [$NSx.svc.cluster.local]}, `+
			`containers: [{name: app, image: app, env: [{name: URL, value: "http://$A:80/"}]}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "dnsConfig", value: "$NSx.svc.cluster.local|$NSx",
			want: "$NS.svc.cluster.local"}}, ""},
	{"fresh: net: certificate under other keys", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + object("v1",
		"Secret", "$B", `stringData: {cert.pem: "x", key.pem: "no"}`) + object("networking.k8s.io/v1", "Ingress", "$C",
		`spec: {tls: [{secretName: $B}], defaultBackend: {service: {name: $A, port: {number: 80}}}}`), "ingress/$C",
		[]truth{{kinds: "Secret Ingress", field: "data|tls.crt|type|secretName", numbers: []string{"tls.crt"}}}, ""},
	{"fresh: net: both ends shut", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + single("$C", withEnv(
		`{name: URL, value: "http://$A:80/"}`)) + policyOf("$P", "$C", `policyTypes: [Egress], egress: [{ports: [{`+
		`port: 53, protocol: UDP}]}]`) + policyOf("$B", "$A", `ingress: [{from: [{podSelector: {matchLabels: {app: `+
		`$c}}}]}]`), "pod/$C", []truth{{kinds: "NetworkPolicy", field: "egress", numbers: []string{"$P"}},
		{kinds: "NetworkPolicy", field: "ingress", value: "$c", want: "$C"}}, ""},
	{"fresh: net: slice by hand without the label", object("v1", "Service", "$C", "spec: {ports: [{port: 80}]}") +
		`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: $C}, addressType: IPv4, endpoints: ` +
		`[{addresses: [10.9.9.9]}], ports: [{port: 8080}]}` + "\n---\n", "service/$C", []truth{{
		kinds: "Service EndpointSlice", field: "kubernetes.io/service-name|labels|selector",
		numbers: []string{"$C"}}}, ""},
	{"fresh: net: Ingress to a Service that leads outside", object("v1", "Service", "$A", `spec: {type: ExternalName, `+
		`externalName: $b.$NS.svc.cluster.local}`) + workload("$B", plainApp) + serviceOf("$B", "$B", "8080") +
		ingressOf("$C", "$A", "80"), "ingress/$C",
		[]truth{{kinds: "Service", field: "externalName", value: "$b", want: "$B"}}, ""},
	{"fresh: net: policy opens a port by the name that another container gives it",
		single("$A", `{containers: [{name: `+
			`app, image: app, ports: [{name: web, containerPort: 8080}]}, {name: side, image: app, ports: [{name: `+
			`metrics, containerPort: `+
			`9090}]}]}`) + serviceOf("$C", "$A", "8080") + policyOf("$B", "$A", `ingress: [{ports: `+
			`[{port: metrics}]}]`), "service/$C", []truth{{kinds: "NetworkPolicy", field: "ports",
			value:   "metrics|8080",
			numbers: []string{"8080"}}}, ""},
	{"fresh: net: port of the node in a Deployment's next template", object("apps/v1", "Deployment", "$C", `spec: `+
		`{replicas: 1, strategy: {rollingUpdate: {maxUnavailable: 0}}, selector: {matchLabels: {app: $C}}, template: `+
		`{metadata: {labels: {app: $C}}, spec: {containers: [{name: app, image: app, ports: [{containerPort: 8080, `+
		`hostPort: 73$N0}]}]}}}`), "deployment/$C", []truth{{kinds: podOrOwner, field: "hostPort|maxUnavailable",
		value: "73$N0|0", numbers: []string{"73$N0"}}},
		`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"fresh: net: selector of the release before", oneOf("$A", plainApp) + object("v1", "Service", "$C", `spec: `+
		`{selector: {app: $A, version: v1}, ports: [{port: 80, targetPort: 8080}]}`), "service/$C",
		[]truth{{kinds: "Service", field: "selector", value: "v1", want: "v2"}},
		`deployment/$A {"spec":{"template":{"metadata":{"labels":{"version":"v2"}}}}}`},
	{"fresh: net: policy that shuts all, and a Service without Pods", workload("$A", plainApp) + serviceOf("$C", "$a",
		"8080") + object("networking.k8s.io/v1", "NetworkPolicy", "$B", `spec: {podSelector: {}, policyTypes: `+
		`[Ingress]}`), "service/$C", []truth{{kinds: "Service", field: "selector", value: "$a", want: "$A"},
		{kinds: "NetworkPolicy", field: "ingress|policyTypes|podSelector", numbers: []string{"$A"}}}, ""},
	{"fresh: net: name of a Pod of a StatefulSet whose Service has other Pods", serviceOf("$B", "$P", "8080") +
		object("v1", "Service", "$A", `spec: {clusterIP: None, selector: {app: $c}, ports: [{port: 8080}]}`) +
		stateful("$C", "$A", "", plainApp), "statefulset/$C",
		[]truth{{kinds: "StatefulSet Service", field: "serviceName|selector", value: "$A|$c",
			want: "$C"}}, ""},

	{"fresh: well: net: traffic that prefers its zone", workload("$A", plainApp) + object("v1", "Service", "$C",
		`spec: {trafficDistribution: PreferClose, selector: {app: $A}, ports: [{port: 80, targetPort: http}]}`),
		"service/$C", nil, ""},
	{"fresh: well: net: endpoints before they are ready", single("$A", `{containers: [{name: app, image: app, `+
		`ports: [{containerPort: 8080}], readinessProbe: {initialDelaySeconds: 5, periodSeconds: 1, exec: {command: `+
		`["true"]}}}]}`) + object("v1", "Service", "$C", `spec: {publishNotReadyAddresses: true, clusterIP: None, `+
		`selector: {app: $A}, ports: [{port: 8080}]}`), "service/$C", nil, ""},
	{"fresh: well: net: policy for a namespace that is there", workload("$A", plainApp) + policyOf("$C", "$A",
		`ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}]}]`),
		"networkpolicy/$C", nil, ""},
}

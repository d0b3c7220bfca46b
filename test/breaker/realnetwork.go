package breaker

// realFetch is the container of a Pod that asks a URL until it answers; it ends when it does not.
func realFetch(url string) string {
	return `{name: app, image: $SRV, args: [fetch, --tries, "2", "` + url + `"]}`
}

// realCalls is such a Pod; further fields of its spec may follow.
func realCalls(name, url, spec string) string {
	if spec != "" {
		spec += ", "
	}
	return single(name, `{terminationGracePeriodSeconds: 1, `+spec+`containers: [`+realFetch(url)+`]}`)
}

// realPolicy is a NetworkPolicy of Pods with app: NAME.
func realPolicy(name, of, rest string) string {
	return object("networking.k8s.io/v1", "NetworkPolicy", name, `spec: {podSelector: {matchLabels: {app: `+of+`}}, `+
		rest+`}`)
}

// realNetworkKinds are Services, policies and names that lead nowhere.
var realNetworkKinds = []kind{
	{"real: net: selector with one letter wrong", workload("$A", realServes("")) + serviceOf("$C", "$a", "$PORT"),
		"service/$C .", []truth{{kinds: "Service", field: "selector", value: "$a", want: "$A"}}, ""},
	{"real: net: target port where nothing listens", workload("$A", realServes("")) + serviceOf("$C", "$A", "$PORU"),
		"service/$C .", []truth{{kinds: "Service", field: "targetPort", value: "$PORU", want: "$PORT"}}, ""},
	{"real: net: port name of nobody", workload("$A", realServes("")) + serviceOf("$C", "$A", "$B"), "service/$C .",
		[]truth{{kinds: "Service", field: "targetPort", value: "$B", want: "http"}}, ""},
	{"real: net: client of a name with one letter wrong", workload("$A", realServes("")) + serviceOf("$A", "$A",
		"$PORT") +
		realCalls("$C", "http://$a/", ""), "pod/$C .", []truth{{kinds: "Pod", field: "containers[0]",
		numbers: []string{"$a"}, want: "$A"}}, ""},
	{"real: net: client of a port that the Service has not", workload("$A", realServes("")) + serviceOf("$A", "$A",
		"$PORT") + realCalls("$C", "http://$A:$PORU/", ""), "pod/$C .", []truth{{kinds: "Pod", field: "containers[0]",
		numbers: []string{"$PORU", "80"}, want: "80"}}, ""},
	{"real: net: client of a Service without endpoints", workload("$A", realServes("")) + serviceOf("$B", "$a",
		"$PORT") + realCalls("$C", "http://$B/", ""), "pod/$C .", []truth{{kinds: "Service Pod",
		field: "selector|containers[0].args", numbers: []string{"app=$a"}, want: "$A"}}, ""},
	{"real: net: client whom a policy of the server keeps out", workload("$A", realServes("")) + serviceOf("$A", "$A",
		"$PORT") + realPolicy("$P", "$A", `policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: `+
		`{app: $c}}}]}]`) + realCalls("$C", "http://$A/", ""), "pod/$C .", []truth{{
		kinds: "NetworkPolicy Pod", field: "ingress|podSelector|containers[0].args", numbers: []string{"$P"},
		want: "$P"}}, ""},
	{"real: net: client whom its own policy keeps in", workload("$A", realServes("")) + serviceOf("$A", "$A",
		"$PORT") +
		realPolicy("$P", "$C", `policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: $B}}}]}, `+
			`{ports: [{protocol: UDP, port: 53}]}]`) + realCalls("$C", "http://$A/", ""), "pod/$C", []truth{{
		kinds: "NetworkPolicy Pod", field: "egress|containers[0].args", numbers: []string{"$P"}}}, ""},
	{"real: net: client of a headless Service's port", workload("$A", realServes("")) + object("v1", "Service", "$A",
		`spec: {clusterIP: None, selector: {app: $A}, ports: [{port: 80, targetPort: `+
			`$PORT}]}`) + realCalls("$C", "http://$A/", ""), "pod/$C", []truth{{kinds: "Pod Service",
		field: "containers[0]|clusterIP|ports",
		want:  "$PORT"}}, ""},
	{"real: net: no name servers that answer", workload("$A", realServes("")) + serviceOf("$A", "$A",
		"$PORT") + realCalls("$C", "http://$A/", `dnsPolicy: None, dnsConfig: `+
		`{nameservers: [127.0.0.1], searches: [$NS.svc.cluster.local]}`), "pod/$C", []truth{{kinds: "Pod",
		field: "dnsPolicy|dnsConfig|containers[0].args", numbers: []string{"None"}, want: "ClusterFirst"}}, ""},
	{"real: net: alias of another address", workload("$A", realServes("")) + serviceOf("$A", "$A",
		"$PORT") + realCalls("$C", "http://$A/", `hostAliases: [{ip: 127.0.0.$N, `+
		`hostnames: [$A]}]`), "pod/$C", []truth{{kinds: "Pod", field: "hostAliases", value: "127.0.0.$N|$A"}}, ""},
	{"well: real: net: client and server", workload("$A", realServes(`readinessProbe: {periodSeconds: 1, `+
		`tcpSocket: {port: `+
		`$PORT}}`)) + serviceOf("$A", "$A", "http") + realPolicy("$P", "$A", `policyTypes: [Ingress], ingress: `+
		`[{from: `+
		`[{podSelector: {matchLabels: {app: $C}}}]}]`) + single("$C", `{terminationGracePeriodSeconds: 1, `+
		`containers: [{name: app, image: $SRV, args: [fetch, `+
		`--tries, "100", "http://$A/"]}]}`), "pod/$C service/$A .", nil, ""},
	{"well: real: net: policy without port 53, as the name server is the node's", workload("$A", realServes("")) +
		serviceOf("$A", "$A", "$PORT") + realPolicy("$P", "$C", `policyTypes: [Egress], egress: [{to: `+
		`[{podSelector: `+
		`{matchLabels: {app: $A}}}]}]`) + single("$C", `{terminationGracePeriodSeconds: 1, containers: [{name: app, `+
		`image: $SRV, args: [fetch, --tries, "100", "http://$A/"]}]}`), "pod/$C .", nil, ""},
	{"well: real: net: headless Service", workload("$A", realServes("")) + object("v1", "Service", "$C",
		`spec: {clusterIP: None, selector: {app: $A}}`), "service/$C .", nil, ""},
}

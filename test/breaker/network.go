package breaker

// netKinds are Services, endpoints, policies and names.
var netKinds = []kind{
	{"net: slice of another Service", object("v1", "Service", "$A", "spec: {ports: [{port: 80}]}") + sliceOf("$C", "$a",
		`ports: [{port: 8080}]`), "service/$A", []truth{{kinds: "Service EndpointSlice",
		field: "kubernetes.io/service-name|selector", value: "", numbers: []string{"$a|$C"}}}, ""},
	{"net: slice of another Service, asked of the slice", object("v1", "Service", "$A", "spec: {ports: [{port: 80}]}") +
		sliceOf("$C", "$a", `ports: [{port: 8080}]`), "endpointslice/$C", []truth{{kinds: "EndpointSlice",
		field: "kubernetes.io/service-name", value: "$a", want: "$A"}}, ""},
	{"net: slice with another port name", object("v1", "Service", "$C", "spec: {ports: [{name: http, port: 80}]}") +
		sliceOf("$C", "$C", `ports: [{name: htp, port: 8080}]`), "service/$C", []truth{{kinds: "Service EndpointSlice",
		field: "ports[0].name|ports", value: "http|htp", want: "htp|http"}}, ""},
	{"net: external name that is an address", object("v1", "Service", "$C",
		`spec: {type: ExternalName, externalName: "10.0.0.$N"}`), "service/$C", []truth{{kinds: "Service",
		field: "externalName", value: "10.0.0.$N"}}, ""},
	{"net: external name of itself", object("v1", "Service", "$C",
		`spec: {type: ExternalName, externalName: $C.$NS.svc.cluster.local}`), "service/$C", []truth{{kinds: "Service",
		field: "externalName", value: "$C.$NS.svc"}}, ""},
	{"net: policy that forgets names", workload("$A", plainApp) + policyOf("$C", "$A",
		`policyTypes: [Egress], egress: `+
			`[{ports: [{port: 5432}]}]`), "networkpolicy/$C", []truth{{kinds: "NetworkPolicy", field: "egress",
		want: "53"}},
		""},
	{"net: policy's port by name", workload("$A", plainApp) + policyOf("$C", "$A", `ingress: [{ports: [{port: htp}]}]`),
		"networkpolicy/$C", []truth{{kinds: "NetworkPolicy", field: "ports[0].port", value: "htp", want: "http"}}, ""},
	{"net: policy's Pods of a namespace", workload("$A", plainApp) + workload("$B", plainApp) + policyOf("$C", "$A",
		`ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}, podSelector: `+
			`{matchLabels: {app: $b}}}]}]`), "networkpolicy/$C", []truth{{kinds: "NetworkPolicy", field: "podSelector",
		value: "$b", want: "$B"}}, ""},
	{"net: policy's selector by expression", workload("$A", plainApp) + object("networking.k8s.io/v1", "NetworkPolicy",
		"$C", `spec: {podSelector: {matchExpressions: [{key: app, operator: In, values: [$a]}]}}`), "networkpolicy/$C",
		[]truth{{kinds: "NetworkPolicy", field: "podSelector", value: "$a", want: "$A"}}, ""},
	{"net: egress to Pods that there are not", workload("$A", plainApp) + workload("$B", plainApp) + policyOf("$C",
		"$A", `policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: $b}}}]}]`), "networkpolicy/$C",
		[]truth{{kinds: "NetworkPolicy", field: "egress[0].to[0].podSelector", value: "$b", want: "$B"}}, ""},
	{"net: balancer of a class that nobody serves", workload("$A", plainApp) + object("v1", "Service", "$C",
		`spec: {type: LoadBalancer, loadBalancerClass: example.com/$A, selector: {app: $A}, ports: [{port: 80, `+
			`targetPort: 8080}]}`), "service/$C", []truth{{kinds: "Service", field: "loadBalancerClass",
		value: "example.com/$A"}}, ""},
	{"net: backend's port by name", workload("$A", plainApp) + object("v1", "Service", "$A",
		`spec: {selector: {app: $A}, ports: [{name: http, port: 80, targetPort: 8080}]}`) + object(
		"networking.k8s.io/v1", "Ingress", "$C", `spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, backend: `+
			`{service: {name: $A, port: {name: htp}}}}]}}]}`), "ingress/$C", []truth{{kinds: "Ingress", field: "port",
		value: "htp", want: "http"}}, ""},
	{"net: default backend's port", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + object(
		"networking.k8s.io/v1", "Ingress", "$C",
		`spec: {defaultBackend: {service: {name: $A, port: {number: 808$N}}}}`),
		"ingress/$C", []truth{{kinds: "Ingress", field: "defaultBackend", value: "808$N", want: "80"}}, ""},
	{"net: ingress class with one letter wrong", object("networking.k8s.io/v1", "IngressClass", "$NS-$A",
		"spec: {controller: example.com/x}") + workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + object(
		"networking.k8s.io/v1", "Ingress", "$C",
		`spec: {ingressClassName: $NS-$a, defaultBackend: {service: {name: $A, `+
			`port: {number: 80}}}}`), "ingress/$C", []truth{{kinds: "Ingress", field: "ingressClassName",
		value: "$NS-$a", want: "$NS-$A"}}, ""},
	{"net: certificate that is none", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + object("v1", "Secret",
		"$B", `type: kubernetes.io/tls, stringData: {tls.crt: "$N", tls.key: "$N"}`) + object("networking.k8s.io/v1",
		"Ingress", "$C", `spec: {tls: [{secretName: $B}], defaultBackend: {service: {name: $A, port: {number: 80}}}}`),
		"ingress/$C", []truth{{kinds: "Secret", field: "tls.crt"}}, ""},
	{"net: names in a Pod of the node's network", single("$C", `{hostNetwork: true, dnsPolicy: ClusterFirst, `+
		`containers: [{name: app, image: app}]}`), "pod/$C", []truth{{kinds: "Pod", field: "dnsPolicy",
		value: "ClusterFirst", want: "ClusterFirstWithHostNet"}}, ""},
	{"net: subdomain of a Service that selects others", object("v1", "Service", "$A",
		`spec: {clusterIP: None, selector: {app: $c}, ports: [{port: 80}]}`) + single("$C", `{hostname: x, subdomain: `+
		`$A, containers: [`+app+`]}`), "pod/$C", []truth{{kinds: "Service Pod", field: "selector|subdomain",
		value: "$c|$A",
		want:  "$C"}}, ""},
	{"net: Service over Pods that are not ready", single("$A", `{containers: [{name: app, image: app, readinessProbe: `+
		`{periodSeconds: 1, exec: {command: [sh, -c, "exit $N"]}}}]}`) + serviceOf("$C", "$A", "8080"), "service/$C",
		[]truth{{kinds: "Service Pod", field: "selector|readinessProbe", numbers: []string{"1"}}}, ""},
	{"net: Service asked of a Pod in another namespace", serviceOf("$C", "$A", "8080"), "service/$C",
		[]truth{{kinds: "Service", field: "selector", value: "$A"}}, ""},
	{"net: second port of a Service", workload("$A", plainApp) + object("v1", "Service", "$C",
		`spec: {selector: {app: $A}, ports: [{name: a, port: 80, targetPort: http}, {name: b, port: 81, targetPort: `+
			`metrcs}]}`), "service/$C", []truth{{kinds: "Service", field: "ports[1].targetPort", value: "metrcs"}}, ""},
	{"net: port name of an init container", single("$A", `{initContainers: [{name: i, image: exit-0, ports: [{name: `+
		`web, containerPort: 80}]}], containers: [`+app+`]}`) + serviceOf("$C", "$A", "web"), "service/$C",
		[]truth{{kinds: "Service", field: "targetPort", value: "web", want: "http"}}, ""},
	{"net: traffic that stays on its node", single("$A",
		`{nodeSelector: {kubernetes.io/hostname: node-1}, containers: [`+
			app+`]}`) + object("v1", "Service", "$C", `spec: {internalTrafficPolicy: Local, selector: {app: $A}, `+
		`ports: `+
		`[{port: 80, targetPort: 8080}]}`), "service/$C", []truth{{kinds: "Service", field: "internalTrafficPolicy",
		value: "Local", want: "Cluster"}}, ""},
	{"net: policy asked of the Pod it shuts", single("$C", plainApp) + policyOf("$B", "$C", `ingress: []`), "pod/$C",
		[]truth{{kinds: "NetworkPolicy", field: "ingress"}}, ""},
}

func sliceOf(name, service, more string) string {
	return `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: ` + name + `, labels: ` +
		`{kubernetes.io/service-name: ` + service + `}}, addressType: IPv4, endpoints: [{addresses: [10.9.9.9]}], ` +
		more + "}\n---\n"
}

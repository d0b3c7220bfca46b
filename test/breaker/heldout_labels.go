package breaker

// heldOutLabels select, tolerate, spread or allow what is not so.
var heldOutLabels = []situation{
	{name: "Service of another protocol", ask: "service/$C", unseen: true, // the fake's addresses are no endpoints
		manifest: workload("$A", plainApp) + object("v1", "Service", "$C", `spec: {selector: {app: $A}, ports: `+
			`[{port: 80, `+
			`protocol: <<UDP||TCP>>, targetPort: http}]}`),
		truth: []truth{{kinds: "Service", field: "protocol|targetPort", numbers: []string{"UDP", "TCP"},
			want: "TCP"}}},
	{name: "endpoints of a Service with one letter wrong", ask: "service/$C",
		manifest: object("v1", "Service", "$C", `spec: {ports: [{name: http, port: 80, targetPort: 8080}]}`) +
			`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: "$C-1", labels: ` +
			`{kubernetes.io/service-name: "$C<<-x||>>"}}, addressType: IPv4, ports: [{name: http, port: 8080}], ` +
			`endpoints: [{addresses: [192.0.2.$N]}]}` + "\n---\n",
		truth: []truth{{kinds: "EndpointSlice", field: "service-name", value: "$C-x", want: "$C"}}},
	{name: "external name with one letter wrong", ask: "service/$C", unseen: true,
		manifest: workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + object("v1", "Service", "$C",
			`spec: {type: ExternalName, externalName: <<$a||$A>>.$NS.svc.cluster.local}`),
		truth: []truth{{kinds: "Service", field: "externalName", value: "$a", want: "$A"}}},
	{name: "load balancer of a class that nobody implements", ask: "service/$C", unseen: true,
		manifest: object("v1", "Service", "$C", `spec: {type: LoadBalancer, <<loadBalancerClass: `+
			`example.com/$B, ||>>`+
			`ports: [{name: http, port: 80, targetPort: 8080}]}`) + endpointsOf("$C", "http"),
		truth: []truth{{kinds: "Service", field: "loadBalancerClass", value: "example.com/$B",
			want: "loadBalancerClass"}}},
	{name: "Pod's subdomain with one letter wrong", ask: "pod/$C", unseen: true,
		manifest: object("v1", "Service", "$A", `spec: {clusterIP: None, selector: {app: $C}, ports: [{port: 80}]}`) +
			single("$C", `{hostname: $C, subdomain: <<$a||$A>>, containers: [`+app+`]}`),
		truth: []truth{{kinds: "Pod", field: "subdomain", value: "$a", want: "$A"}}},
	{name: "policy: namespace with one letter wrong", ask: "networkpolicy/$C", unseen: true,
		manifest: workload("$A", plainApp) + object("networking.k8s.io/v1", "NetworkPolicy", "$C",
			`spec: {podSelector: {matchLabels: {app: $A}}, ingress: [{from: [{namespaceSelector: {matchLabels: `+
				`{kubernetes.io/metadata.name: $NS<<q||>>}}}]}]}`),
		truth: []truth{{kinds: "NetworkPolicy", field: "namespaceSelector", value: "$NSq", want: "$NS"}}},
	{name: "policy: port off by one", ask: "networkpolicy/$C", unseen: true,
		manifest: workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + object("networking.k8s.io/v1",
			"NetworkPolicy", "$C", `spec: {podSelector: {matchLabels: {app: $A}}, ingress: [{ports: [{port: `+
				`<<8081||8080>>}]}]}`),
		truth: []truth{{kinds: "NetworkPolicy", field: "port", value: "8081", want: "8080"}}},
	{name: "toleration: value with one letter wrong", ask: "pod/$C",
		manifest: single("$C", `{nodeSelector: {kubernetes.io/hostname: node-3}, tolerations: [{key: team, `+
			`operator: `+
			`Equal, value: <<bach||batch>>, effect: NoSchedule}], containers: [`+app+`]}`),
		truth: []truth{{kinds: "Pod", field: "tolerations", value: "bach", want: "batch"}}},
	{name: "toleration of another effect", ask: "pod/$C",
		manifest: single("$C", `{nodeSelector: {kubernetes.io/hostname: node-3}, tolerations: [{key: team, `+
			`operator: `+
			`Exists, effect: <<NoExecute||NoSchedule>>}], containers: [`+app+`]}`),
		truth: []truth{{kinds: "Pod", field: "tolerations", value: "NoExecute", want: "NoSchedule"}}},
	{name: "spread over a key that no node has", ask: "deployment/$C",
		manifest: workload("$C", `{topologySpreadConstraints: [{maxSkew: 1, topologyKey: `+
			`topology.kubernetes.io/<<zon||zone>>, `+
			`whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: $C}}}], containers: [`+app+`]}`),
		truth: []truth{{kinds: podOrOwner, field: "topologyKey|topologySpreadConstraints",
			value: "topology.kubernetes.io/zon", want: "topology.kubernetes.io/zone"}}},
	{name: "spread over more domains than there are", ask: "deployment/$C",
		manifest: workload("$C", `{topologySpreadConstraints: [{maxSkew: 1, <<minDomains: $N0, ||>>topologyKey: `+
			`kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: $C}}}], `+
			`nodeSelector: {topology.kubernetes.io/zone: east-1<<||>>}, containers: [`+app+`]}`),
		truth: []truth{{kinds: podOrOwner, field: "minDomains", value: "$N0", want: "minDomains"}}},
	{name: "node affinity: a number that no node reaches", ask: "pod/$C",
		manifest: single("$C", `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: `+
			`{nodeSelectorTerms: [{matchExpressions: [{key: example.com/disks, operator: Gt, values: `+
			`["<<1$N||3>>"]}]}]}}}, `+
			`containers: [`+app+`]}`),
		truth: []truth{{kinds: "Pod", field: "nodeAffinity", value: "1$N", numbers: []string{"4"},
			want: "affinity"}}},
	{name: "claim: label of a volume with one letter wrong", ask: "pvc/$C",
		manifest: `{apiVersion: v1, kind: PersistentVolume, metadata: {name: "$NS-$A", labels: {tier: $B}}, spec: ` +
			`{storageClassName: $NS, capacity: {storage: 9Gi}, accessModes: [ReadWriteOnce], hostPath: {path: ` +
			`/tmp}}}` +
			"\n---\n" + classOf("$NS", "kubernetes.io/no-provisioner") + claimOf("$C",
			`storageClassName: $NS, selector: {matchLabels: {tier: <<$b||$B>>}}, `),
		truth: []truth{{kinds: "PersistentVolumeClaim", field: "selector", value: "$b", want: "$B"}}},
}

// endpointsOf are endpoints of a Service made by hand.
func endpointsOf(service, port string) string {
	return `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: "$C-1", labels: ` +
		`{kubernetes.io/service-name: "` + service + `"}}, addressType: IPv4, ports: [{name: ` + port + `, ` +
		`port: 8080}], ` +
		`endpoints: [{addresses: [192.0.2.$N]}]}` + "\n---\n"
}

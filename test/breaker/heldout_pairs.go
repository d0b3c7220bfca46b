package breaker

import "time"

// heldOutPairs are breaks that only show together, and several at once.
var heldOutPairs = []situation{
	{name: "pair: roll-out needs one more Pod, and the quota has none", ask: "deployment/$C",
		manifest: quotaOf("$A", "pods: <<2||3>>") + deploy("$C", `replicas: 2, strategy: {rollingUpdate: `+
			`{maxSurge: 1, `+
			`maxUnavailable: 0}}, `, plainApp),
		steps: []step{reached("deployment/$C"), change(`deployment/$C ` +
			`{"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`)},
		truth: []truth{{kinds: "Deployment ReplicaSet ResourceQuota",
			field: "maxSurge|maxUnavailable|pods|hard", numbers: []string{"$A", "2"},
			want: "maxUnavailable|quota"}}},
	{name: "pair: roll-out needs one more Pod, and they may not share the node", ask: "deployment/$C",
		manifest: deploy("$C", `replicas: 1, strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: `+
			`<<0||1>>}}, `, `{affinity: {podAntiAffinity: `+
			`{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, `+
			`labelSelector: {matchLabels: {app: $C}}}]}}, `+
			`nodeSelector: {kubernetes.io/hostname: node-1}, terminationGracePeriodSeconds: 1, containers: [`+
			app+`]}`),
		steps: []step{reached("deployment/$C"), change(`deployment/$C ` +
			`{"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`)},
		truth: []truth{{kinds: "Deployment Pod", field: "maxUnavailable|maxSurge|podAntiAffinity",
			want: "maxUnavailable"}}},
	{name: "pair: a running Pod keeps this one away", ask: "pod/$C",
		manifest: single("$A", `{nodeSelector: {kubernetes.io/hostname: node-1}, <<affinity: {podAntiAffinity: `+
			`{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, `+
			`labelSelector: {matchLabels: {app: $C}}}]}}, `+
			`||>>containers: [`+app+`]}`),
		steps: []step{reached("pod/$A"), create(single("$C", `{nodeSelector: {kubernetes.io/hostname: node-1}, `+
			`containers: [`+app+`]}`))},
		truth: []truth{{kinds: "Pod", field: "podAntiAffinity", numbers: []string{"$A"}, want: "$A"}}},
	{name: "pair: the same port of the node", ask: "pod/$C",
		manifest: single("$A", portOf("9$N80")),
		steps:    []step{reached("pod/$A"), create(single("$C", portOf("9$N8<<0||1>>")))},
		truth: []truth{{kinds: "Pod", field: "hostPort", value: "9$N80", numbers: []string{"9$N80", "$A"},
			want: "hostPort|$A"}}},
	{name: "pair: node by name and a selector that it does not have", ask: "pod/$C",
		manifest: single("$C", `{nodeName: node-1, nodeSelector: {topology.kubernetes.io/zone: east-<<2||1>>}, `+
			`containers: [`+app+`]}`),
		truth: []truth{{kinds: "Pod", field: "nodeName|nodeSelector", numbers: []string{"node-1"},
			want: "node-2|east-1|nodeName"}}},
	{name: "pair: node by name and more than it has", ask: "pod/$C",
		manifest: single("$C", `{nodeName: node-1, containers: [{name: app, image: app, resources: {requests: `+
			`{cpu: "<<1$N||1>>"}}}]}`),
		truth: []truth{{kinds: "Pod", field: "cpu|nodeName", numbers: []string{"1$N", "8"}, want: "8|nodeName"}}},
	{name: "pair: two autoscalers of one Deployment", ask: "hpa/$C", unseen: true,
		manifest: workload("$A", withRequest("cpu", "100m")) + autoscalerOf("$C", "Deployment", "$A") +
			autoscalerOf("$B", "Deployment",
				"<<$A||none>>"),
		truth: []truth{{kinds: "HorizontalPodAutoscaler", field: "scaleTargetRef|conditions",
			numbers: []string{"$B|$NS/$B"}, want: "delete|$B"}}},
	{name: "pair: budget over Pods without owner, with a number of those that may be missing", ask: "pdb/$C",
		unseen:   true,
		manifest: single("$A", plainApp) + budgetOf("$C", "$A", "<<maxUnavailable||minAvailable>>: 1"),
		truth:    []truth{{kinds: "PodDisruptionBudget", field: "maxUnavailable", value: "1", want: "minAvailable"}}},
	{name: "pair: StatefulSet mended behind its broken Pod", ask: "statefulset/$C", unseen: true,
		manifest: serviceOf("$C", "$C", "8080") + stateful("$C", "$C", "", `{containers: [{name: app, image: `+
			`exit-3}]}`),
		steps: []step{pause(8 * time.Second), change(`statefulset/$C ` +
			`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app"}]}}}}`),
			pause(3 * time.Second)},
		truth: []truth{{kinds: "Pod StatefulSet",
			field: "containers[0]|podManagementPolicy|updateStrategy|revision", want: "delete pod"}}},
	{name: "three: probe, pull policy and missing key at once", ask: "deployment/$C",
		manifest: configMap("$A", "$K: x") + deploy("$C", "replicas: 1, ", `{containers: [`+serving(0,
			`readinessProbe: {periodSeconds: 1, tcpSocket: `+
				`{port: <<8181||8080>>}}`)+`, {name: $B, image: "$A-$NS:1", imagePullPolicy: <<Never||Always>>, `+
			`env: [{name: X, valueFrom: {configMapKeyRef: `+
			`{name: $A, key: <<$k||$K>>}}}]}]}`),
		truth: []truth{{kinds: podOrOwner, field: "readinessProbe", value: "8181", want: "8080"},
			{kinds: podOrOwner, field: "imagePullPolicy|image", value: "Never|$A-$NS:1",
				want: "imagePullPolicy|IfNotPresent"},
			{kinds: podOrOwner, field: "configMapKeyRef", value: "$k", want: "$K"}}},
	{name: "two: claim that does not bind, and a taint that is not tolerated", ask: "pod/$C",
		manifest: classOf("$NS", "kubernetes.io/no-provisioner") + volumeOf("$NS-$A",
			"storageClassName: $NS, ", "<<1||9>>Gi", "ReadWriteOnce") +
			claimOf("$B", "storageClassName: $NS, ") + single("$C", `{nodeSelector: {kubernetes.io/hostname: `+
			`node-<<3||1>>}, containers: [`+app+
			`], volumes: [{name: v, persistentVolumeClaim: {claimName: $B}}]}`),
		truth: []truth{{kinds: "PersistentVolumeClaim PersistentVolume", field: "storage",
			numbers: []string{"5Gi", "1Gi"}, want: "1Gi|5Gi"},
			{kinds: "Pod Node", field: "tolerations|taints", numbers: []string{"team=batch:NoSchedule"},
				want: "tolerat|taint"}}},
	{name: "two: Service and Deployment, both wrong", ask: "service/$C", unseen: true,
		manifest: workload("$A", `{containers: [{name: app, image: <<exit-3||app>>, ports: [{name: http, `+
			`containerPort: 8080}]}]}`) +
			serviceOf("$C", "$A", "<<htpp||http>>"),
		truth: []truth{{kinds: "Service", field: "targetPort", value: "htpp", want: "http"},
			{kinds: podOrOwner, field: "containers[0]", numbers: []string{"3"}, want: "logs|image|command"}}},
}

// portOf has a port of node-1.
func portOf(port string) string {
	return `{nodeSelector: {kubernetes.io/hostname: node-1}, containers: [{name: app, image: app, ports: ` +
		`[{containerPort: 8080, hostPort: ` +
		port + `}]}]}`
}

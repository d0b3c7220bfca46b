package breaker

// placeKinds are places that do not exist, and amounts in another unit.
var placeKinds = []kind{
	{"spread over a key that no node has", workload("$C", `{containers: [`+app+`], topologySpreadConstraints: `+
		`[{maxSkew:`+
		` 1, topologyKey: kubernetes.io/hostnam, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: `+
		`$C}}}]}`), "deployment/$C", []truth{{kinds: podOrOwner, field: "topologyKey", value: "hostnam",
		want: "kubernetes.io/hostname"}}, ""},
	{"spread of other Pods", workload("$C", `{containers: [`+app+`], topologySpreadConstraints: [{maxSkew: 1, `+
		`topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: `+
		`$c}}}]}`), "deployment/$C", []truth{{kinds: podOrOwner, field: "labelSelector", value: "$c", want: "$C"}}, ""},
	{"more replicas than places", object("apps/v1", "Deployment", "$C", `spec: {replicas: $N, selector: {matchLabels: `+
		`{app: $C}}, template: {metadata: {labels: {app: $C}}, spec: {containers: [`+app+`], affinity: `+
		`{podAntiAffinity:`+
		` {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: `+
		`{matchLabels: {app: $C}}}]}}}}}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "podAntiAffinity", want: "1", numbers: []string{"$N", "1"}}}, ""},
	{"toleration of another value", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-2}, tolerations: `+
		`[{key: `+
		`team, value: $A, effect: NoSchedule}], containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "tolerations", value: "$A", want: "team=$TEAM:NoSchedule"}}, ""},
	{"toleration of another key", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-2}, tolerations: [{key: `+
		`taem, value: $TEAM}], containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "tolerations", value: "taem", want: "team=$TEAM:NoSchedule"}}, ""},
	{"toleration of another effect", single("$C", `{nodeSelector: {kubernetes.io/hostname: node-2}, tolerations: `+
		`[{key: `+
		`team, value: $TEAM, effect: NoExecute}], containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "tolerations", value: "NoExecute", want: "NoSchedule"}}, ""},
	{"node affinity to one of two names", single("$C", `{containers: [`+app+`], affinity: {nodeAffinity: `+
		`{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: `+
		`kubernetes.io/hostname, operator: In, values: [nod-1, $A]}]}]}}}}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "nodeAffinity", value: "nod-1", want: "node-1"}}, ""},
	{"memory in thousandths", workload("$C", `{containers: [{name: app, image: app, resources: {requests: {memory: `+
		`"12$Nm"}}}]}`), "deployment/$C", []truth{{kinds: podOrOwner, field: "resources.requests.memory",
		value: "12$Nm",
		want:  "12$NMi"}}, ""},
	{"user 0 that must not be root", workload("$C", `{securityContext: {runAsNonRoot: true}, containers: [{name: app, `+
		`image: app, securityContext: {runAsUser: 0}}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "securityContext.runAs", value: "0"}}, ""},
	{"hook longer than the grace period", workload("$C", `{terminationGracePeriodSeconds: 1$N, containers: [{name: `+
		`app,`+
		` image: app, lifecycle: {preStop: {exec: {command: [sh, -c, "sleep 30"]}}}}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "preStop", value: "30", numbers: []string{"30", "1$N"}}}, ""},
	{"variable with one letter wrong", workload("$C", `{containers: [{name: app, image: app, args: ["--x=$($L)"], `+
		`env: `+
		`[{name: $K, value: x}]}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "args[0]", value: "$L", want: "$($K)"}}, ""},
	{"subPath that is no key", configMap("$A", "$K: x") + workload("$C", `{containers: [{name: app, image: app, `+
		`volumeMounts: [{name: v, mountPath: /x, subPath: $L}]}], volumes: [{name: v, configMap: {name: $A}}]}`),
		"deployment/$C", []truth{{kinds: podOrOwner, field: "subPath", value: "$L", want: "$K"}}, ""},
	{"script without the bit to run it", configMap("$A", "$K: x") + workload("$C", `{containers: [{name: app, image: `+
		`app, command: [/x/$K], volumeMounts: [{name: v, mountPath: /x}]}], volumes: [{name: v, configMap: {name: `+
		`$A}}]}`),
		"deployment/$C", []truth{{kinds: podOrOwner, field: "command", value: "$K", want: "0755"}}, ""},
	{"pull secret of another type", secret("$A", "$K: x") + workload("$C", `{imagePullSecrets: [{name: $A}], `+
		`containers: [`+app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "imagePullSecrets", value: "$A", want: "kubernetes.io/dockerconfigjson"}},
		""},
	{"runtime class for nodes that are not there", object("node.k8s.io/v1", "RuntimeClass", "$NS-$A", `handler: runc, `+
		`scheduling: {nodeSelector: {kubernetes.io/hostname: nod-1}}`) + single("$C", `{runtimeClassName: $NS-$A, `+
		`containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod RuntimeClass", field: "nodeSelector", value: "nod-1", want: "node-1"}}, ""},
	{"volume for a node that is not there", object("v1", "PersistentVolume", "$NS-$A", `spec: {storageClassName: $NS, `+
		`capacity: {storage: 9Gi}, accessModes: [ReadWriteOnce], local: {path: /tmp/none}, nodeAffinity: {required: `+
		`{nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [nod-1]}]}]}}}`),
		"pv/$NS-$A", []truth{{kinds: "PersistentVolume", field: "nodeAffinity", value: "nod-1", want: "node-1"}}, ""},
	{"volume kept for a claim that is not there", volumeOf("$NS-$A", `claimRef: {namespace: $NS, name: $b}, `, "9Gi",
		"ReadWriteOnce") + claimOf("$B", ""), "pv/$NS-$A",
		[]truth{{kinds: "PersistentVolume", field: "claimRef", value: "$b", want: "$B"}}, ""},
}

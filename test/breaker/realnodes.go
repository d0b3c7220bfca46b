package breaker

// realNodeKinds are what a kubelet, a runtime, the kernel and a node's limits do to a Pod, written
// from Kubernetes' documentation.
var realNodeKinds = []kind{
	{"real: node: script of a ConfigMap that may not be run", realScript("$C", "#!/bin/sh\\nsleep 3600\\n", "0644"),
		"pod/$C .", []truth{{kinds: "Pod", field: "defaultMode|command", want: "0755|493",
			numbers: []string{"0644|420"}}},
		""},
	{"real: node: script of a ConfigMap for an interpreter that is not there", realScript("$C",
		"#!/opt/$A/bin/$B\\nsleep 3600\\n", "0755"), "pod/$C .", []truth{{kinds: "ConfigMap", field: "run.sh",
		want: "sh", numbers: []string{"/opt/$A/bin/$B"}}}, ""},
	{"real: node: script of a ConfigMap with lines of Windows", realScript("$C", "#!/bin/sh\\r\\nsleep 3600\\r\\n",
		"0755"), "pod/$C .", []truth{{kinds: "ConfigMap", field: "run.sh", want: "LF"}}, ""},
	{"real: node: script of a ConfigMap without an interpreter", realScript("$C", "sleep 3600\\n", "0755"), "pod/$C .",
		[]truth{{kinds: "ConfigMap", field: "run.sh", want: "#!/bin/sh"}}, ""},
	{"well: real: node: script of a ConfigMap that runs", realScript("$C", "#!/bin/sh\\nsleep 3600\\n", "0755"),
		"pod/$C .", nil, ""},
	{"real: node: two containers on one port", single("$C", `{terminationGracePeriodSeconds: 1, containers: [{name: `+
		`app, image: $APP, command: [httpd, -f, -p, "$PORT"]}, {name: $A, image: $APP, command: [sh, -c, "sleep `+
		`2; exec `+
		`httpd -f -p $PORT"]}]}`), "pod/$C .", []truth{{kinds: "Pod", field: "containers[1]",
		numbers: []string{"$PORT"},
		want:    "another port"}}, ""},
	{"well: real: node: two containers on two ports", single("$C", `{terminationGracePeriodSeconds: 1, containers: `+
		`[{name: app, image: $APP, command: [httpd, -f, -p, "$PORT"]}, {name: $A, image: $APP, command: [httpd, -f, `+
		`-p, "$PORU"]}]}`), "pod/$C .", nil, ""},
	{"real: node: seccomp profile that the node does not have", realShell("$C", `sleep 3600`, `securityContext: `+
		`{seccompProfile: {type: Localhost, localhostProfile: $A/$B.json}}`, ""), "pod/$C .", []truth{{kinds: "Pod",
		field: "localhostProfile", value: "$A/$B.json", want: "RuntimeDefault"}}, ""},
	{"real: node: sysctl that the kubelet refuses, of a Deployment", workload("$C", realShellSpec(`sleep 3600`, "",
		`securityContext: {sysctls: [{name: kernel.shm_rmid_forced, value: "0"}, {name: net.core.somaxconn, value: `+
			`"10$N0"}]}`)), "deployment/$C .", []truth{{kinds: podOrOwner, field: "sysctls[1]",
		want: "net.core.somaxconn"}}, ""},
	{"real: node: handler that the runtime does not have", object("node.k8s.io/v1", "RuntimeClass", "$NS",
		`handler: $B-$A`) + realShell("$C", `sleep 3600`, "", `runtimeClassName: $NS`), "pod/$C .", []truth{{
		kinds: "RuntimeClass Pod", field: "handler|runtimeClassName", value: "$B-$A|$NS"}}, ""},
	{"real: node: image that runs a shell", single("$C", `{terminationGracePeriodSeconds: 1, containers: [{name: app, `+
		`image: $APP}]}`), "pod/$C .", []truth{{kinds: "Pod", field: "command|containers[0]", want: "stdin"}}, ""},
	{"real: node: rule that starts it again", realShell("$C", `sleep 2; exit $CODE`, `restartPolicy: Never, `+
		`restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [$CODE]}}]`, `restartPolicy: Never`),
		"pod/$C .", []truth{{kinds: "Pod", field: "containers[0]", numbers: []string{"$CODE"}, want: "that rule"}}, ""},
	{"real: node: files in memory", realShell("$C", `dd if=/dev/zero of=/$DIR/f bs=1M count=99 && sleep 3600`,
		`resources: {limits: {memory: $MIMi}}, volumeMounts: [{name: v, mountPath: /$DIR}]`, `volumes: [{name: v, `+
			`emptyDir: {medium: Memory}}]`), "pod/$C .", []truth{{kinds: "Pod", field: "resources.limits.memory",
		value: "$MIMi", want: "disk"}}, ""},
	{"real: node: memory of the Pod as a whole", single("$C", `{terminationGracePeriodSeconds: 1, resources: {limits: `+
		`{memory: $MIMi}}, containers: [{name: $A, image: $APP, command: [sleep, "3600"]}, {name: app, image: $SRV, `+
		`args: [eat, "200"]}]}`), "pod/$C .", []truth{{kinds: "Pod", field: "spec.resources.limits.memory",
		value: "$MIMi", want: "Pod's memory limit"}}, ""},
	{"real: node: memory by default", object("v1", "LimitRange", "$A", `spec: {limits: [{type: Container, default: `+
		`{memory: $MIMi}, defaultRequest: {memory: $MIMi}}]}`) + single("$C", `{terminationGracePeriodSeconds: 1, `+
		`containers: [{name: app, image: $SRV, args: [eat, "200"]}]}`), "pod/$C .", []truth{{kinds: "LimitRange Pod",
		field: "memory", value: "$MIMi", numbers: []string{"$MIMi"}}}, ""},
	{"real: node: named its node, which is too small", realShell("$C", `sleep 3600`, `resources: {requests: {cpu: `+
		`"3$N"}}`, `nodeName: node-1`), "pod/$C .", []truth{{kinds: "Pod", field: "requests.cpu|nodeName",
		numbers: []string{"3$N"}, want: "nodeName"}}, ""},
	{"real: node: port of the node that another Pod has", single("$A", `{nodeName: node-1, `+
		`terminationGracePeriodSeconds: 1, containers: [{name: app, image: $APP, command: [sleep, "3600"], ports: `+
		`[{containerPort: 80, hostPort: 2$PORT}]}]}`) + single("$C", `{nodeName: node-1, containers: [{name: app, `+
		`image: `+
		`$APP, command: [sleep, "3600"], ports: [{containerPort: 80, hostPort: 2$PORT}]}]}`), "pod/$C", []truth{{
		kinds: "Pod", field: "hostPort", value: "2$PORT", numbers: []string{"$A"}, want: "nodeName"}}, ""},
	{"real: node: directory of a volume that is not there", object("v1", "PersistentVolume", "$NS", `spec: {capacity: `+
		`{storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: $NS, local: {path: /srv/$A/$DIR}, `+
		`nodeAffinity: `+
		`{required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/os, operator: In, values: `+
		`[linux]}]}]}}}`) +
		object("v1", "PersistentVolumeClaim", "$B", `spec: {accessModes: [ReadWriteOnce], storageClassName: $NS, `+
			`volumeName: $NS, resources: {requests: {storage: 1Gi}}}`) + realShell("$C", `sleep 3600`,
		`volumeMounts: [{name: v, mountPath: /$DIR}]`, `volumes: [{name: v, persistentVolumeClaim: {claimName: $B}}]`),
		"pod/$C .", []truth{{kinds: "PersistentVolume", field: "local.path", value: "/srv/$A/$DIR",
			want: "mkdir"}}, ""},
	{"real: node: gRPC health of a service with another name", single("$C", `{terminationGracePeriodSeconds: 1, `+
		`containers: [{name: app, image: $SRV, args: [grpc-health-checking, --port, "$PORT", --service, $A], `+
		`readinessProbe: {grpc: {port: $PORT, service: $a}, periodSeconds: 1}}]}`), "pod/$C .", []truth{{kinds: "Pod",
		field: "readinessProbe.grpc", numbers: []string{"$a"}, want: "service"}}, ""},
}

// realScript is a Pod that runs a script of a ConfigMap, mounted with a mode.
func realScript(name, script, mode string) string {
	return object("v1", "ConfigMap", "$P", `data: {run.sh: "`+script+`"}`) + single(name, `{`+
		`terminationGracePeriodSeconds: 1, containers: [{name: app, image: $APP, command: [/$DIR/run.sh], `+
		`volumeMounts: [{name: s, mountPath: /$DIR}]}], volumes: [{name: s, configMap: {name: $P, defaultMode: `+
		mode+`}}]}`)
}

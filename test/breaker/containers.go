package breaker

// ran is a Pod whose container says something on its standard error and ends.
func ran(name, words, container, spec string) string {
	if spec != "" {
		spec += ", "
	}
	if container != "" {
		container = ", " + container
	}
	return single(name, `{`+spec+`containers: [{name: app, image: app, terminationMessagePolicy: `+
		`FallbackToLogsOnError, command: [sh, -c, "echo `+words+` >&2; exit 1"]`+container+`}]}`)
}

// containerKinds are containers that cannot be made, end early, or are forbidden what they do.
var containerKinds = []kind{
	{"container: image that is never pulled", single("$C", `{containers: [{name: app, image: "$A.example.com/$B:1", `+
		`imagePullPolicy: Never}]}`), "pod/$C", []truth{{kinds: "Pod", field: "imagePullPolicy|image",
		value: "Never|$A",
		want:  "IfNotPresent"}}, ""},
	{"container: image in capitals", single("$C", `{containers: [{name: app, image: "example.com/App-$A"}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "containers[0].image", value: "example.com/App-$A",
			want: "example.com/app-$A"}}, ""},
	{"container: root file system that is read-only", ran("$C", "'open /var/cache/$A: Read-only file system'",
		`securityContext: {readOnlyRootFilesystem: true}`, ""), "pod/$C", []truth{{kinds: "Pod",
		field: "readOnlyRootFilesystem", value: "true", want: "emptyDir", numbers: []string{"/var/cache/$A"}}}, ""},
	{"container: mount that is read-only", ran("$C", "'cannot create /data/$A: Read-only file system'",
		`volumeMounts: [{name: d, mountPath: /data, readOnly: true}]`, `volumes: [{name: d, emptyDir: {}}]`), "pod/$C",
		[]truth{{kinds: "Pod", field: "volumeMounts[0].readOnly", value: "true", want: "readOnly",
			numbers: []string{"/data/$A"}}}, ""},
	{"container: mode of a Secret's files", secret("$A", "$K: x") + ran("$C", "'open /keys/$K: permission denied'",
		`volumeMounts: [{name: k, mountPath: /keys}]`, `securityContext: {runAsUser: 1000}, volumes: [{name: k, `+
			`secret: {secretName: $A, defaultMode: 256}}]`), "pod/$C", []truth{{kinds: "Pod", field: "defaultMode",
		value: "256", want: "420", numbers: []string{"0400"}}}, ""},
	{"container: mode of one item", secret("$A", "$K: x") + ran("$C", "'open /keys/$K: permission denied'",
		`volumeMounts: [{name: k, mountPath: /keys}]`, `securityContext: {runAsUser: 1000}, volumes: [{name: k, `+
			`secret: {secretName: $A, items: [{key: $K, path: $K, mode: 256}]}}]`), "pod/$C", []truth{{kinds: "Pod",
		field: "items[0].mode", value: "256", numbers: []string{"0400"}}}, ""},
	{"container: port below 1024", ran("$C", "'listen tcp 0.0.0.0:8$N: bind: permission denied'",
		`securityContext: {runAsUser: 1000, capabilities: {drop: [ALL]}}`, ""), "pod/$C", []truth{{kinds: "Pod",
		field: "capabilities|runAsUser", value: "ALL|1000", want: "NET_BIND_SERVICE", numbers: []string{"8$N"}}}, ""},
	{"container: capability that is taken", ran("$C", "'ping: socket: Operation not permitted'",
		`securityContext: {capabilities: {drop: [NET_RAW]}}`, ""), "pod/$C", []truth{{kinds: "Pod",
		field: "capabilities.drop", value: "NET_RAW", want: "NET_RAW|drop"}}, ""},
	{"container: file that is a key of nearly that name", configMap("$A", `"$K.yml": x`) + ran("$C",
		"'open /config/$K.yaml: no such file or directory'", `volumeMounts: [{name: k, mountPath: /config}]`,
		`volumes: [{name: k, configMap: {name: $A}}]`), "pod/$C", []truth{{kinds: "Pod ConfigMap",
		field: "volumes[0]|data|volumeMounts[0]", want: "$K.yml", numbers: []string{"$K.yaml", "$K.yml"}}}, ""},
	{"container: file under another mount", configMap("$A", "$K: x") + ran("$C",
		"'open /etc/$A/$K: no such file or directory'", `volumeMounts: [{name: k, mountPath: /etc/$a}]`,
		`volumes: [{name: k, configMap: {name: $A}}]`), "pod/$C", []truth{{kinds: "Pod",
		field: "volumeMounts[0].mountPath", value: "/etc/$a", want: "/etc/$A"}}, ""},
	{"container: token that is not given", ran("$C",
		"'open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory'", "",
		"automountServiceAccountToken: false"), "pod/$C", []truth{{kinds: "Pod", field: "automountServiceAccountToken",
		value: "false", want: "true"}}, ""},
	{"container: token that its account does not give", object("v1", "ServiceAccount", "$A",
		"automountServiceAccountToken: false") + ran("$C",
		"'open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory'", "",
		"serviceAccountName: $A"), "pod/$C", []truth{{kinds: "ServiceAccount Pod",
		field: "automountServiceAccountToken", value: "false", want: "true"}}, ""},
	{"container: last words in its termination message", single("$C", `{volumes: [{name: d, emptyDir: {}}], `+
		`containers: [{name: app, image: app, volumeMounts: [{name: d, mountPath: /data, readOnly: true}], command: `+
		`[sh, -c, "echo 'open /data/$A: read-only file system' > /dev/termination-log; exit $N"]}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "volumeMounts[0].readOnly", value: "true", numbers: []string{"/data/$A"}}}, ""},
	{"container: the API refuses its account", ran("$C", `'pods is forbidden: User \"system:serviceaccount:$NS:default`+
		`\" cannot list resource \"pods\" in API group \"\" in the namespace \"$NS\"'`, "", ""), "pod/$C",
		[]truth{{kinds: "Pod ServiceAccount", field: "serviceAccountName", value: "default", want: "list",
			numbers: []string{"pods"}}}, ""},
	{"container: more memory than its limit", single("$C", `{containers: [{name: app, image: eats-memory, resources: `+
		`{limits: {memory: $N0Mi}}}]}`), "pod/$C", []truth{{kinds: "Pod", field: "resources.limits.memory",
		value: "$N0Mi", numbers: []string{"137", "$N0Mi"}}}, ""},
	{"container: program that is not in the image", single("$C",
		`{containers: [{name: app, image: no-program, command: `+
			`[/bin/frob, $A]}]}`), "pod/$C", []truth{{kinds: "Pod", field: "command", value: "/bin/frob"}}, ""},
	{"container: its whole command line as one word", single("$C", `{containers: [{name: app, image: one-word, `+
		`command: ["frob --port 8080"]}]}`), "pod/$C", []truth{{kinds: "Pod", field: "command[0]",
		value: "frob --port 8080", want: `"frob","--port","8080"`}}, ""},
	{"container: must not be root, and its image is", single("$C", `{securityContext: {runAsNonRoot: true}, `+
		`containers: [{name: app, image: app}]}`), "pod/$C", []truth{{kinds: "Pod", field: "runAs", want: "runAsUser"}},
		""},
	{"container: hook after its start", single("$C", `{containers: [{name: app, image: app, lifecycle: {postStart: `+
		`{exec: {command: [sh, -c, "echo no $A >&2; exit $N"]}}}}]}`), "pod/$C", []truth{{kinds: "Pod",
		field: "lifecycle.postStart", value: "$A|exit $N", numbers: []string{"$N"}}}, ""},
	{"container: hook asks where nothing listens", single("$C", `{containers: [{name: app, image: app, command: `+
		`[httpd, "8080"], ports: [{containerPort: 8080}], lifecycle: {postStart: {httpGet: {port: 8081, path: /}}}}]}`),
		"pod/$C", []truth{{kinds: "Pod", field: "postStart.httpGet.port", value: "8081", want: "8080"}}, ""},
	{"container: sidecar that does not start", single("$C", `{initContainers: [{name: $A, image: app, restartPolicy: `+
		`Always, startupProbe: {exec: {command: [sh, -c, "exit $N"]}, periodSeconds: 1}}], containers: [`+app+`]}`),
		"pod/$C", []truth{{kinds: "Pod", field: "initContainers[0].startupProbe", value: "exit $N",
			numbers: []string{"$N"}}}, ""},
	{"container: variable in a subPathExpr", configMap("$A", "$K: x") + single("$C",
		`{containers: [{name: app, image: `+
			`app, env: [{name: $K, value: x}], volumeMounts: [{name: v, mountPath: /x, subPathExpr: "$($L)"}]}], `+
			`volumes: `+
			`[{name: v, emptyDir: {}}]}`), "pod/$C", []truth{{kinds: "Pod", field: "subPathExpr", value: "$L",
		want: "$($K)"}}, ""},
	{"container: sysctl that is not allowed", single("$C", `{securityContext: {sysctls: [{name: kernel.msgmax, value: `+
		`"$N"}]}, containers: [`+app+`]}`), "pod/$C", []truth{{kinds: "Pod", field: "sysctls[0]",
		value: "kernel.msgmax", want: "sysctls"}}, ""},
	{"container: init container waits for a Service that is not there", workload("$A", plainApp) + serviceOf("$A", "$A",
		"8080") + single("$C", `{initContainers: [{name: wait, image: app, command: [sh, -c, "until nslookup $a; do `+
		`sleep 1; done"]}], containers: [`+app+`]}`), "pod/$C", []truth{{kinds: "Pod", field: "initContainers[0]",
		value: "$a", want: "$A"}}, ""},
	{"container: second of three init containers", single("$C", `{initContainers: [{name: one, image: exit-0}, {name: `+
		`$A, image: exit-4}, {name: three, image: exit-0}], containers: [`+app+`]}`), "pod/$C", []truth{{kinds: "Pod",
		field: "initContainers[1]", value: "$A", numbers: []string{"4"}}}, ""},
	{"container: group of its volume", ran("$C", "'mkdir /data/$A: permission denied'",
		`volumeMounts: [{name: d, mountPath: /data}]`, `securityContext: {runAsUser: 100$N}, volumes: [{name: d, `+
			`hostPath: {path: /tmp}}]`), "pod/$C", []truth{{kinds: "Pod", field: "fsGroup|runAsUser", value: "",
		numbers: []string{"100$N"}}}, ""},
}

// probeKinds are probes that ask the wrong thing, in the wrong way, or too early.
var probeKinds = []kind{
	probed("port where nothing listens", `readinessProbe: {periodSeconds: 1, httpGet: {port: 8081, path: /}}`,
		truth{field: "readinessProbe.httpGet.port", value: "8081", want: "8080"}),
	probed("tcp port where nothing listens", `readinessProbe: {periodSeconds: 1, tcpSocket: {port: 809$N}}`,
		truth{field: "readinessProbe.tcpSocket.port", value: "809$N", want: "8080"}),
	probed("scheme", `readinessProbe: {periodSeconds: 1, httpGet: {port: 8080, scheme: HTTPS}}`,
		truth{field: "httpGet.scheme", value: "HTTPS", want: "HTTP"}),
	probed("no gRPC there", `readinessProbe: {periodSeconds: 1, grpc: {port: 8080}}`,
		truth{field: "readinessProbe.grpc", value: "8080"}),
	probed("command that is not there", `readinessProbe: {periodSeconds: 1, exec: {command: [/bin/$A]}}`,
		truth{field: "readinessProbe.exec.command", value: "/bin/$A"}),
	probed("command that fails", `readinessProbe: {periodSeconds: 1, exec: {command: [sh, -c, "echo no $A; exit $N"]}}`,
		truth{field: "readinessProbe.exec", value: "exit $N"}),
	probed("host that is not there", `readinessProbe: {periodSeconds: 1, httpGet: {port: 8080, host: `+
		`$a.invalid}}`, truth{field: "httpGet.host", value: "$a.invalid", want: "host"}),
	probed("liveness of a port where nothing listens", `livenessProbe: {periodSeconds: 1, failureThreshold: 2, `+
		`httpGet: {port: 8081}}`, truth{field: "livenessProbe", want: "8080", numbers: []string{"2"}}),
	probed("named port of nobody", `livenessProbe: {periodSeconds: 1, failureThreshold: 2, httpGet: {port: hhtp}}`,
		truth{field: "livenessProbe.httpGet.port", value: "hhtp", want: "http"}),
	{"probe: path that is not there", single("$C", `{containers: [{name: app, image: web, ports: [{containerPort: `+
		`8080}], readinessProbe: {periodSeconds: 1, httpGet: {port: 8080, path: /$A}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "httpGet.path", value: "/$A", numbers: []string{"404"}}}, ""},
	{"probe: answer that comes too late", single("$C", `{containers: [{name: app, image: slow-web, ports: `+
		`[{containerPort: 8080}], readinessProbe: {periodSeconds: 1, httpGet: {port: 8080}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "timeoutSeconds", value: "1", want: "timeoutSeconds",
			numbers: []string{"1"}}}, ""},
	{"probe: command that takes too long", single("$C", `{containers: [{name: app, image: app, readinessProbe: `+
		`{periodSeconds: 1, timeoutSeconds: 1, exec: {command: [sh, -c, "sleep 3"]}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "timeoutSeconds", value: "1", want: "timeoutSeconds"}}, ""},
	{"probe: the program says no", single("$C", `{containers: [{name: app, image: app, command: [httpd, "8080", `+
		`"503", "no database"], readinessProbe: {periodSeconds: 1, httpGet: {port: 8080, path: /ready}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "readinessProbe.httpGet", value: "", numbers: []string{"503"}}}, ""},
	{"probe: a start longer than its startup probe allows", single("$C", `{containers: [{name: app, image: app, `+
		`command: [sh, -c, "sleep 20; httpd 8080"], ports: [{containerPort: 8080}], startupProbe: {periodSeconds: 1, `+
		`failureThreshold: $N, httpGet: {port: 8080}}}]}`), "pod/$C", []truth{{kinds: "Pod", field: "startupProbe",
		want: "failureThreshold", numbers: []string{"$N", "1"}}}, ""},
	{"probe: liveness kills a slow start", single("$C", `{containers: [{name: app, image: app, command: [sh, -c, `+
		`"sleep 20; httpd 8080"], ports: [{containerPort: 8080}], livenessProbe: {periodSeconds: 1, failureThreshold: `+
		`$N, httpGet: {port: 8080}}}]}`), "pod/$C", []truth{{kinds: "Pod", field: "livenessProbe",
		want: "startupProbe", numbers: []string{"$N"}}}, ""},
}

// probed is a Pod whose program answers on port 8080, with a probe.
func probed(name, probe string, t truth) kind {
	t.kinds = "Pod"
	return kind{"probe: " + name, single("$C",
		`{containers: [{name: app, image: app, command: [httpd, "8080"], ports: `+
			`[{name: http, containerPort: 8080}], `+probe+`}]}`), "pod/$C", []truth{t}, ""}
}

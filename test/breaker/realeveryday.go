package breaker

// realEverydayKinds are troubles that people ask about in public, with real containers.
var realEverydayKinds = []kind{
	{"real: everyday: variable that stands before what it uses", realShell("$C", `wget -T 3 -O- "http://$$$ENV/x"`,
		`env: [{name: $ENV, value: "$(HOST_$N):$PORT"}, {name: HOST_$N, value: "127.0.0.1"}]`, ""), "pod/$C .",
		[]truth{{kinds: "Pod", field: "env[0].value", value: "$(HOST_$N)"}}, ""},
	{"real: everyday: variable of a Service", serviceOf("$A", "$C", "$PORT") + realShell("$C",
		`v=$(env | grep -i ^$A'_PORT=' | cut -d= -f2); test "$v" -gt 0 || exit $CODE`, "", ""), "pod/$C .",
		[]truth{{kinds: "Pod", field: "enableServiceLinks", want: "enableServiceLinks", numbers: []string{"$A"}}}, ""},
	{"real: everyday: probe of another host", single("$C", realServes(`readinessProbe: {periodSeconds: 1, `+
		`httpGet: {host: 127.0.0.$N, port: $PORT, path: /}}`)), "pod/$C .", []truth{{kinds: "Pod",
		field: "httpGet.host", value: "127.0.0.$N"}}, ""},
	{"real: everyday: probe that answers too late", realShell("$C", `touch /tmp/ok; sleep 3600`,
		`readinessProbe: {periodSeconds: 2, timeoutSeconds: 1, exec: {command: [sh, -c, sleep $N]}}`, ""), "pod/$C",
		[]truth{{kinds: "Pod", field: "readinessProbe", want: "timeoutSeconds", numbers: []string{"1"}}}, ""},
	{"real: everyday: probe in one word", realShell("$C", `touch /tmp/$A; sleep 3600`, `readinessProbe: `+
		`{periodSeconds: 1, exec: {command: ["cat /tmp/$A"]}}`, ""), "pod/$C .", []truth{{kinds: "Pod",
		field: "readinessProbe.exec.command", value: "cat /tmp/$A", want: `"cat","/tmp/$A"`}}, ""},
	{"real: everyday: startup probe that is too short", realShell("$C", `sleep 20; httpd -f -p $PORT`,
		`startupProbe: {periodSeconds: 1, failureThreshold: $N, tcpSocket: {port: $PORT}}`, ""), "pod/$C",
		[]truth{{kinds: "Pod", field: "startupProbe", want: "failureThreshold", numbers: []string{"$N"}}}, ""},
	{"real: everyday: hook before the end that hangs", single("$C", `{terminationGracePeriodSeconds: $N00, `+
		`containers: [{name: app, image: $WEB, lifecycle: {preStop: {exec: {command: [sleep, "3$N00"]}}}}]}`),
		"pod/$C", []truth{{kinds: "Pod", field: "lifecycle.preStop|terminationGracePeriodSeconds"}},
		`pod/$C delete`},
	{"real: everyday: hook after the start that fails", realShell("$C", `sleep 3600`, `lifecycle: {postStart: {exec: `+
		`{command: [sh, -c, "echo no $A >&2; exit $CODE"]}}}`, ""), "pod/$C .", []truth{{kinds: "Pod",
		field: "lifecycle.postStart"}}, ""},
	{"real: everyday: hook after the start that hangs", realShell("$C", `sleep 3600`, `lifecycle: {postStart: {exec: `+
		`{command: [sh, -c, "until test -f /tmp/$A; do sleep 1; done"]}}}`, ""), "pod/$C", []truth{{kinds: "Pod",
		field: "lifecycle.postStart"}}, ""},
	{"real: everyday: sidecar that does not start", single("$C", `{terminationGracePeriodSeconds: 1, initContainers: `+
		`[{name: $A, image: $WEB, restartPolicy: Always, ports: [{containerPort: 8080}], startupProbe: `+
		`{periodSeconds: 1, failureThreshold: 300, tcpSocket: {port: $PORU}}}], containers: [{name: `+
		`app, image: $WEB}]}`),
		"pod/$C .", []truth{{kinds: "Pod", field: "initContainers[0].startupProbe", value: "$PORU", want: "8080"}}, ""},
	{"real: everyday: init container that waits for the program's file", realMounts("$C", `emptyDir: {}`,
		`touch /v/$A; sleep 3600`, "", `initContainers: [{name: $B, image: $APP, command: [sh, -c, `+
			`"until test -f /v/$A; do sleep 1; done"], volumeMounts: [{name: v, mountPath: /v}]}]`), "pod/$C .",
		[]truth{{kinds: "Pod", field: "initContainers[0]", value: "$B", numbers: []string{"/v/$A"}}}, ""},
	{"real: everyday: volume over the image's programs", realShell("$C", `sleep 3600`, `volumeMounts: [{name: v, `+
		`mountPath: /bin}]`, `volumes: [{name: v, emptyDir: {}}]`), "pod/$C .", []truth{{kinds: "Pod",
		field: "volumeMounts[0]", value: "/bin"}}, ""},
	{"real: everyday: little cpu and a probe", realShell("$C", `sleep 3600`, `resources: {limits: {cpu: 10m}}, `+
		`readinessProbe: {periodSeconds: 2, timeoutSeconds: 1, exec: {command: [sh, -c, "i=0; while [ $i -lt 60000 ]; `+
		`do i=$((i+1)); done"]}}`, ""), "pod/$C", []truth{{kinds: "Pod", field: "readinessProbe|cpu",
		want: "limits.cpu", numbers: []string{"10m"}}}, ""},
	{"real: everyday: name servers that do not answer", workload("$A", realServes("")) + serviceOf("$A", "$A",
		"$PORT") + realCalls("$C", "http://$A/", `dnsPolicy: None, dnsConfig: {nameservers: [10.255.2$N.1]}`),
		"pod/$C", []truth{{kinds: "Pod", field: "dnsConfig|dnsPolicy", want: "ClusterFirst"}}, ""},
	{"real: everyday: port of the node that is taken", single("$A", `{terminationGracePeriodSeconds: 1, containers: `+
		`[{name: app, image: $WEB, ports: [{containerPort: 8080, hostPort: 2$PORT}]}]}`) + single("$C",
		`{terminationGracePeriodSeconds: 1, containers: [{name: app, image: $WEB, ports: [{containerPort: 8080, `+
			`hostPort: 2$PORT}]}]}`), ".", []truth{{kinds: "Pod", field: "hostPort", value: "2$PORT"}}, ""},
	{"real: everyday: readiness gate that nobody sets", realShell("$C", `sleep 3600`, "", `readinessGates: `+
		`[{conditionType: example.com/$A}]`), "pod/$C .", []truth{{kinds: "Pod", field: "readinessGates",
		value: "example.com/$A"}}, ""},
	{"real: everyday: Pod over its own deadline", realShell("$C", `sleep 1$N`, "", `activeDeadlineSeconds: $N`),
		"pod/$C", []truth{{kinds: "Pod", field: "activeDeadlineSeconds", value: "$N"}}, ""},
	{"real: everyday: shared memory that is full", realShell("$C", `dd if=/dev/zero of=/dev/shm/$A bs=1M count=8$N `+
		`|| exit 5; sleep 3600`, "", ""), "pod/$C .", []truth{{kinds: "Pod", field: "volumeMounts", want: "emptyDir",
		numbers: []string{"/dev/shm"}}}, ""},
	{"real: everyday: directory of the node that is root's", realMounts("$C", `hostPath: {path: `+
		`/tmp/gantry-breaker/$NS-$A, type: DirectoryOrCreate}`, `echo x > /v/$B || exit 7; sleep 3600`,
		`securityContext: {runAsUser: $UID}`, `securityContext: {fsGroup: $UID}`), "pod/$C .", []truth{{kinds: "Pod",
		field: "runAsUser", value: "$UID", numbers: []string{"/tmp/gantry-breaker/$NS-$A"}}}, ""},
	{"real: everyday: words of a shell without one", single("$C", `{terminationGracePeriodSeconds: 1, containers: `+
		`[{name: app, image: $APP, command: [echo, $A, "&&", sleep, "3600"]}]}`), "pod/$C .", []truth{{kinds: "Pod",
		field: "command[2]", value: "&&", want: "sh -c"}}, ""},
	{"real: everyday: capability that is dropped", realShell("$C", `touch /tmp/x; chown $UID /tmp/x || exit 9; sleep `+
		`3600`, `securityContext: {capabilities: {drop: [ALL]}}`, ""), "pod/$C .", []truth{{kinds: "Pod",
		field: "capabilities.drop", value: "ALL"}}, ""},
	{"real: everyday: program that goes into the background", realShell("$C", `httpd -p $PORT`, "", ""), "pod/$C .",
		[]truth{{kinds: "Pod", field: "containers[0]", numbers: []string{"0"}}}, ""},
	{"real: everyday: image that is there and always pulled", realShell("$C", `sleep 3600`, `imagePullPolicy: Always`,
		""), "pod/$C .", []truth{{kinds: "Pod", field: "imagePullPolicy|image", value: "Always|$APP",
		want: "IfNotPresent"}}, ""},
	{"real: everyday: file to be read into the shell", realShell("$C", `. /etc/profile.d/$A.sh && sleep 3600`, "", ""),
		"pod/$C .", []truth{{kinds: "Pod", field: "containers[0]", numbers: []string{"2"}}}, ""},
	{"real: everyday: image, settings and probe at once", single("$C", `{terminationGracePeriodSeconds: 1, `+
		`containers: [{name: one, image: "$REG/$A:$N"}, {name: two, image: $WEB, envFrom: [{configMapRef: {name: `+
		`$B}}]}, {name: `+
		`three, image: $WEB, ports: [{containerPort: 8080}], readinessProbe: {periodSeconds: 1, tcpSocket: {port: `+
		`$PORU}}}]}`), "pod/$C .", []truth{
		{kinds: "Pod", field: "containers[0].image", value: "$REG/$A:$N"},
		{kinds: "Pod", field: "containers[1].envFrom[0].configMapRef", value: "$B"},
		{kinds: "Pod", field: "containers[2].readinessProbe.tcpSocket.port", value: "$PORU", want: "8080"}}, ""},
	{"well: real: everyday: port below 1024 as a user", realShell("$C", `httpd -f -p 80`,
		`securityContext: {runAsUser: $UID, capabilities: {drop: [ALL]}}`, ""), "pod/$C .", nil, ""},
	{"well: real: everyday: hook that takes its time", realShell("$C", `sleep 3600`, `lifecycle: {postStart: {exec: `+
		`{command: [sleep, "$N"]}}}`, ""), "pod/$C", nil, ""},
}

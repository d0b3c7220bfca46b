package breaker

// realFreshKinds are programs, probes, images and debugging with real containers, written from
// Kubernetes' documentation on 2026-11-29, before the rules of why were read.
var realFreshKinds = []kind{
	{"real: fresh: shell as arguments of an image with a program of its own",
		single("$C", `{terminationGracePeriodSeconds: `+
			`1, containers: [{name: app, image: $SRV, args: [sh, -c, "sleep `+
			`3600"]}]}`), "pod/$C .", []truth{{kinds: "Pod",
			field: "containers[0]", value: "sh|app", want: "command"}}, ""},
	{"real: fresh: program that reads memory it has not", realShell("$C", `sleep 1; kill -SEGV `+
		`$$$$`, "", ""), "pod/$C .",
		[]truth{{kinds: "Pod", field: "containers[0]", numbers: []string{"139"}}}, ""},
	{"real: fresh: program of the shell's that is not there", realShell("$C", `$A-tool --serve`, "", ""), "pod/$C .",
		[]truth{{kinds: "Pod", field: "containers[0]", numbers: []string{"127", "$A-tool"}}}, ""},
	{"real: fresh: shell's program that may not be executed", realShell("$C", `/srv/plain`, "", ""), "pod/$C .",
		[]truth{{kinds: "Pod", field: "containers[0]", numbers: []string{"126", "/srv/plain"}}}, ""},
	{"real: fresh: last words in a file of its own", realShell("$C", `mkdir -p /srv; echo no quota for $A > `+
		`/srv/last; exit $CODE`,
		`terminationMessagePath: /srv/last`, ""), "pod/$C .", []truth{{kinds: "Pod", field: "containers[0]",
		numbers: []string{"$CODE", "$A"}}}, ""},
	{"real: fresh: writable directory that is not the one it writes to", realShell("$C", `echo x > `+
		`/srv/$DIR-$A || exit `+
		`$CODE; sleep 3600`, `securityContext: {readOnlyRootFilesystem: true}, volumeMounts: [{name: v, mountPath: `+
		`/srv/$DIR}]`, `volumes: [{name: v, emptyDir: {}}]`), "pod/$C .", []truth{{kinds: "Pod",
		field: "readOnlyRootFilesystem|volumeMounts", numbers: []string{"/srv/$DIR-$A"}}}, ""},
	{"real: fresh: sidecar that ends again and again", single("$C", `{terminationGracePeriodSeconds: 1, `+
		`initContainers: [`+
		`{name: $A, image: $APP, restartPolicy: Always, command: [sh, -c, "sleep 1; exit $CODE"]}], containers: `+
		`[{name: `+
		`app, image: $WEB}]}`), "pod/$C .", []truth{{kinds: "Pod", field: "initContainers[0]", value: "$A",
		numbers: []string{"$CODE"}}}, ""},
	{"real: fresh: image of a container for debugging", realShell("$C", `sleep 3600`, "", ""), "pod/$C", []truth{{
		kinds: "Pod", field: "ephemeralContainers[0].image", value: "$REG/$A:$N"}},
		`pod/$C/ephemeralcontainers {"spec":{"ephemeralContainers":[{"name":"debug","image":"$REG/$A:$N"}]}}`},
	{"real: fresh: listens on the port of a variable, probed on another", realShell("$C", `httpd -f -p $(WEBPORT)`,
		`env: [{name: WEBPORT, value: "$PORU"}], ports: [{containerPort: $PORT}], readinessProbe: {periodSeconds: 1, `+
			`tcpSocket: {port: $PORT}}`, ""), "pod/$C .", []truth{{kinds: "Pod", field: "readinessProbe.tcpSocket.port",
		value: "$PORT", want: "$PORU"}}, ""},
	{"real: fresh: listens on the loopback only", realShell("$C", `httpd -f -p 127.0.0.1:$PORT`, `ports: [{`+
		`containerPort: $PORT}], readinessProbe: {periodSeconds: 1, tcpSocket: {port: $PORT}}`, ""), "pod/$C .",
		[]truth{{kinds: "Pod",
			field: "readinessProbe|containers[0]|command", numbers: []string{"127.0.0.1|127.0.0.1:$PORT"}}}, ""},
	{"real: fresh: Service of a server on the loopback", workload("$A", realShellSpec(`httpd -f -p 127.0.0.1:$PORT`,
		`ports: [{containerPort: $PORT}]`, "")) + serviceOf("$C", "$A", "$PORT"), "service/$C .", []truth{{
		kinds: podOrOwner + " Service", field: "containers[0]|targetPort|command",
		numbers: []string{"127.0.0.1|127.0.0.1:$PORT"}}}, ""},
	{"real: fresh: image without its tag", single("$C", `{containers: [{name: app, image: registry.example/app, `+
		`imagePullPolicy: Never, command: [sleep, "3600"]}]}`), "pod/$C .", []truth{{kinds: "Pod",
		field: "containers[0].image", value: "registry.example/app", want: "registry.example/app:1"}}, ""},
	{"real: fresh: digest that is not there", single("$C", `{containers: [{name: app, image: "$REG/team/tool@sha256:`+
		`1111111111111111111111111111111111111111111111111111111111111111"}]}`), "pod/$C .", []truth{{kinds: "Pod",
		field: "containers[0].image", value: "$REG/team/tool@sha256:11111"}}, ""},
	{"real: fresh: shell that has nothing to do", single("$C", `{containers: [{name: app, image: $APP, `+
		`command: [sh]}]}`),
		"pod/$C .", []truth{{kinds: "Pod", field: "containers[0]", numbers: []string{"0"}}}, ""},
	{"real: fresh: words behind those of the shell", single("$C", `{terminationGracePeriodSeconds: 1, `+
		`containers: [{name: `+
		`app, image: $APP, command: [sh, -c, sleep, "3600"]}]}`), "pod/$C .", []truth{{kinds: "Pod",
		field: "command", value: "sleep", want: "sleep 3600"}}, ""},
	{"real: fresh: no room for the program's start", realShell("$C", `sleep 3600`, `resources: {limits: `+
		`{memory: 1Mi}}`,
		""), "pod/$C .", []truth{{kinds: "Pod", field: "limits.memory", value: "1Mi"}}, ""},
	{"real: fresh: probe by a program that needs a shell", realShell("$C", `touch /tmp/ok; sleep 3600`,
		`readinessProbe: {periodSeconds: 1, exec: {command: [test, -f, /tmp/ok, "&&", test, -f, /tmp/$A]}}`, ""),
		"pod/$C .", []truth{{kinds: "Pod", field: "readinessProbe.exec.command", value: "&&",
			want: "sh"}}, ""},
	{"real: fresh: setting that was changed before the crash", configMap("$A", "$K: $B") + oneOf("$C", realShellSpec(
		`test $MODE = $B || { echo unknown $K: $MODE >&2; exit $CODE; }; sleep 3600`, `env: [{name: MODE, `+
			`valueFrom: {`+
			`configMapKeyRef: {name: $A, key: $K}}}]`, "")), "deployment/$C", []truth{{kinds: podOrOwner,
		field: "containers[0]", numbers: []string{"$CODE"}}, {kinds: "ConfigMap", field: "data", value: "$P|$K",
		numbers: []string{"$K"}}}, `deployment/$C {}` + "\n" + `configmap/$A {"data":{"$K":"$P"}}` + "\n" +
		`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"real: fresh: file of a mount that the program removes", configMap("$A", "$K: x") + realShell("$C", `rm `+
		`/etc/$DIR/$K `+
		`|| exit $CODE; sleep 3600`, `volumeMounts: [{name: v, mountPath: /etc/$DIR}]`, `volumes: [{name: v, `+
		`configMap: {`+
		`name: $A}}]`), "pod/$C .", []truth{{kinds: "Pod", field: "configMap|volumeMounts", numbers: []string{
		"/etc/$DIR/$K"}}}, ""},
	{"real: fresh: group that may not read a Secret's file", secret("$A", "$K: x") + realShell("$C", `cat `+
		`/k/$K || exit `+
		`$CODE; sleep 3600`, `securityContext: {runAsUser: $UID, runAsGroup: $UID}, volumeMounts: [{name: v, `+
		`mountPath: `+
		`/k}]`, `volumes: [{name: v, secret: {secretName: $A, items: [{key: $K, `+
		`path: `+
		`$K, mode: 0}]}}]`), "pod/$C .", []truth{{kinds: "Pod", field: "mode|Mode", value: "0",
		numbers: []string{"/k/$K"}}}, ""},
	{"real: fresh: port that another container listens on", single("$C", `{terminationGracePeriodSeconds: 1, `+
		`containers: [{name: $A, image: $SRV, args: [netexec, --http-port, "$PORT", --udp-port, "0"]}, {name: $B, `+
		`image: `+
		`$APP, command: [sh, -c, "sleep 3; httpd -f -p $PORT"]}]}`), "pod/$C .", []truth{{kinds: "Pod",
		field: "containers[1]", numbers: []string{"$PORT", "$A"}}}, ""},

	{"well: real: fresh: hook before the end, and nobody ends it", single("$C", `{containers: [{name: app, `+
		`image: $WEB, `+
		`lifecycle: {preStop: {sleep: {seconds: $N}}}}]}`), "pod/$C .", nil, ""},
	{"well: real: fresh: container for debugging that has ended", realShell("$C", `sleep `+
		`3600`, "", ""), "pod/$C .", nil,
		`pod/$C/ephemeralcontainers ` +
			`{"spec":{"ephemeralContainers":[{"name":"debug","image":"$APP","command":["true"]}]}}`},
	{"well: real: fresh: init containers that take their time", single("$C", `{initContainers: [{name: $A, `+
		`image: $APP, `+
		`command: [sleep, "$N"]}, {name: $B, image: $APP, command: [sleep, "3"]}], containers: [{name: app, image: `+
		`$WEB}]}`), "pod/$C .", nil, ""},
}

package breaker

// realProbed is a Pod that serves HTTP on $PORT, with a probe.
func realProbed(name, probe string, t truth) kind {
	t.kinds = "Pod"
	return kind{"real: probe: " + name, single("$C", realServes(probe)), "pod/$C .", []truth{t}, ""}
}

// realProbeKinds are probes of real servers.
var realProbeKinds = []kind{
	realProbed("port where nothing listens", `readinessProbe: {periodSeconds: 1, httpGet: {port: $PORU, path: /}}`,
		truth{field: "readinessProbe.httpGet.port", value: "$PORU", want: "$PORT"}),
	realProbed("scheme", `readinessProbe: {periodSeconds: 1, httpGet: {port: $PORT, scheme: HTTPS}}`,
		truth{field: "httpGet.scheme", value: "HTTPS", want: "HTTP"}),
	realProbed("no gRPC there", `readinessProbe: {periodSeconds: 1, grpc: {port: $PORT}}`,
		truth{field: "readinessProbe.grpc", value: "$PORT"}),
	realProbed("command that is not in the image", `readinessProbe: {periodSeconds: 1, exec: {command: [/opt/$A, `+
		`check]}}`,
		truth{field: "readinessProbe.exec.command", value: "/opt/$A"}),
	realProbed("command that fails", `readinessProbe: {periodSeconds: 1, exec: {command: [cat, /tmp/$A]}}`,
		truth{field: "readinessProbe.exec", value: "/tmp/$A"}),
	{"real: probe: path that is not there", single("$C", `{containers: [{name: app, image: $WEB, ports: `+
		`[{containerPort: 8080}], readinessProbe: {periodSeconds: 1, httpGet: {port: 8080, path: `+
		`/$A/$B}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "httpGet.path", value: "/$A/$B", numbers: []string{"404"}}}, ""},
	{"real: probe: liveness kills a slow start", single("$C", `{terminationGracePeriodSeconds: 1, containers: `+
		`[{name: `+
		`app, image: $APP, command: [sh, -c, "sleep 20; httpd -f -p $PORT"], ports: [{containerPort: $PORT}], `+
		`livenessProbe: {periodSeconds: 1, failureThreshold: $N, httpGet: {port: $PORT}}}]}`), "pod/$C", []truth{{
		kinds: "Pod", field: "livenessProbe", want: "startupProbe", numbers: []string{"$N"}}}, ""},
	{"well: real: slow start with a startup probe", single("$C", `{terminationGracePeriodSeconds: 1, containers: `+
		`[{name: `+
		`app, image: $APP, command: [sh, -c, "sleep $N; mkdir /www; touch /www/ok; httpd -f -p $PORT -h /www"], `+
		`ports: `+
		`[{containerPort: $PORT}], startupProbe: {periodSeconds: 1, failureThreshold: 60, httpGet: {port: $PORT, `+
		`path: /ok}}, readinessProbe: {periodSeconds: 1, httpGet: {port: $PORT, path: `+
		`/ok}}}]}`), "pod/$C .", nil, ""},
}

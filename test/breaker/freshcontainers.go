package breaker

// freshContainerKinds are settings, variables, restarts and volumes of containers, written from
// Kubernetes' API documentation on 2026-11-29, before the rules of why were read.
var freshContainerKinds = []kind{
	{"fresh: container: variable from an annotation with one letter wrong", `{apiVersion: v1, kind: Pod, metadata: ` +
		`{name: $C, annotations: {example.com/$A: x}}, spec: {containers: [{name: app, image: app, env: [{name: X, ` +
		`valueFrom: {fieldRef: {fieldPath: "metadata.annotations['example.com/$a']"}}}]}]}}`, "pod/$C",
		[]truth{{kinds: "Pod", field: "env[0].valueFrom.fieldRef", value: "$a", want: "$A"}}, ""},
	{"fresh: container: variable from a key of binary data", object("v1", "ConfigMap", "$A",
		`binaryData: {$K: eA==}`) + workload("$C", withEnv(`{name: X, valueFrom: {configMapKeyRef: {name: $A, key: `+
		`$K}}}`)), "deployment/$C", []truth{{kinds: podOrOwner, field: "configMapKeyRef", value: "$K",
		numbers: []string{"$A", "binaryData"}}}, ""},
	{"fresh: container: restarts for another exit code", single("$C", `{restartPolicy: Never, containers: [{name: `+
		`app, image: exit-3, restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, `+
		`values: [4$N]}}]}]}`), "pod/$C", []truth{{kinds: "Pod", field: "containers[0]",
		numbers: []string{"3"}}}, ""},
	{"fresh: container: setting that was changed before the crash", configMap("$A", "$K: $B") + oneOf("$C", `{`+
		`containers: [{name: app, image: app, terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c, `+
		`"if [ $MODE != $B ]; then echo unknown $K: $MODE >&2; exit 7; fi; sleep 3600"], env: [{name: MODE, `+
		`valueFrom: {configMapKeyRef: {name: $A, key: $K}}}]}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "containers[0]", numbers: []string{"7"}}, {kinds: "ConfigMap",
			field: "data", value: "$P|$K", numbers: []string{"$K"}}}, `deployment/$C {}` + "\n" +
			`configmap/$A {"data":{"$K":"$P"}}` + "\n" +
			`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"fresh: container: Secret that was changed before the crash", secret("$A", "$K: $B") + oneOf("$C", `{`+
		`containers: [{name: app, image: app, terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c, `+
		`"if [ $X_$K != $B ]; then echo login refused: bad $K >&2; exit 9; fi; sleep 3600"], envFrom: [{prefix: X_, `+
		`secretRef: {name: $A}}]}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "containers[0]", numbers: []string{"9"}}, {kinds: "Secret",
			field: "data", value: "$K", numbers: []string{"$K"}}}, `deployment/$C {}` + "\n" +
			`secret/$A {"stringData":{"$K":"$P"}}` + "\n" +
			`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"fresh: container: image of a volume that is never pulled", mounting("$C", `image: {reference: `+
		`"$A.example.com/$B:1", pullPolicy: Never}`, ""), "pod/$C", []truth{{kinds: "Pod", field: "volumes[0].image",
		value: "$A.example.com/$B:1|Never"}}, ""},
	{"fresh: container: probe of a port by the Service's name for it", workload("$C", `{containers: [{name: app, `+
		`image: app, ports: [{name: web, containerPort: 8080}], livenessProbe: {httpGet: {port: http}}}]}`) +
		object("v1", "Service", "$C", `spec: {selector: {app: $C}, ports: [{name: http, port: 80, targetPort: web}]}`),
		"deployment/$C", []truth{{kinds: podOrOwner, field: "livenessProbe.httpGet.port", value: "http",
			want: "web"}}, ""},
	{"fresh: container: second container needs what the first has not made", single("$C", `{containers: [{name: $A, `+
		`image: app}, {name: $B, image: app, terminationMessagePolicy: FallbackToLogsOnError, volumeMounts: [{name: `+
		`v, mountPath: /v}], command: [sh, -c, "cat /v/$K || exit 5; sleep 3600"]}], volumes: [{name: v, emptyDir: `+
		`{}}]}`), "pod/$C", []truth{{kinds: "Pod", field: "containers[1]|volumes[0]", numbers: []string{"/v/$K"}}}, ""},
	{"fresh: container: init container needs a key of another Secret", secret("$A", "$K: x") + secret("$B", "user: x") +
		single("$C", `{initContainers: [{name: $P, image: exit-0, env: [{name: X, valueFrom: {secretKeyRef: {name: `+
			`$B, key: $K}}}]}], containers: [`+app+`]}`), "pod/$C", []truth{{kinds: "Pod",
		field: "initContainers[0].env[0].valueFrom.secretKeyRef", value: "$K", numbers: []string{"$B"},
		want: "$A"}}, ""},
	{"fresh: container: sidecar crashes, and the program runs", single("$C", `{initContainers: [{name: $A, image: `+
		`exit-4, restartPolicy: Always}], containers: [`+app+`]}`), "pod/$C", []truth{{kinds: "Pod",
		field: "initContainers[0]", value: "$A", numbers: []string{"4"}}}, ""},
	{"fresh: container: two keys missing, each in its container", configMap("$A", "$K: x") + secret("$B", "user: x") +
		single("$C", `{containers: [{name: one, image: app, env: [{name: X, valueFrom: {configMapKeyRef: {name: $A, `+
			`key: $L}}}]}, {name: two, image: app, env: [{name: X, valueFrom: {secretKeyRef: {name: $B, key: `+
			`usr}}}]}]}`),
		"pod/$C", []truth{{kinds: "Pod", field: "containers[0].env[0].valueFrom.configMapKeyRef", value: "$L",
			want: "$K"}, {kinds: "Pod", field: "containers[1].env[0].valueFrom.secretKeyRef", value: "usr",
			want: "user"}}, ""},
	{"fresh: container: node's name in a variable's stead", workload("$C", withEnv(`{name: X, value: "$(NODE)"}, `+
		`{name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}`)), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "env[0].value", value: "$(NODE)", want: "NODE_NAME"}}, ""},
	{"fresh: container: command of one shell word", single("$C", `{containers: [{name: app, image: app, `+
		`terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c, "exit 2", "&&", $A]}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "command", numbers: []string{"2"}}}, ""},
	{"fresh: container: account missing, and a claim", oneOf("$C", `{serviceAccountName: $a, containers: [`+app+`], `+
		`volumes: [{name: v, persistentVolumeClaim: {claimName: $B}}]}`) + object("v1", "ServiceAccount", "$A", ""),
		"deployment/$C", []truth{{kinds: podOrOwner, field: "serviceAccountName", value: "$a", want: "$A"},
			{kinds: podOrOwner, field: "claimName", value: "$B"}}, ""},

	{"fresh: well: container: setting changed, and nothing crashes", configMap("$A", "$K: x") + oneOf("$C",
		withEnv(`{name: X, valueFrom: {configMapKeyRef: {name: $A, key: $K}}}`)), "deployment/$C", nil,
		`deployment/$C {}` + "\n" + `configmap/$A {"data":{"$K":"y"}}`},
	{"fresh: well: container: ready, and not yet long enough",
		object("apps/v1", "Deployment", "$C", `spec: {replicas: `+
			`1, minReadySeconds: 15, selector: {matchLabels: {app: $C}}, template: {metadata: `+
			`{labels: {app: $C}}, spec: `+
			plainApp+`}}`), "deployment/$C", nil, ""},
	{"fresh: well: container: restarts for an exit code, and ends well", single("$C", `{restartPolicy: Never, `+
		`containers: [{name: app, image: second-try, restartPolicy: Never, restartPolicyRules: [{action: Restart, `+
		`exitCodes: {operator: In, values: [3]}}]}]}`), "pod/$C", nil, ""},
	{"fresh: well: container: ends with 0 and is not started again", single("$C", `{restartPolicy: OnFailure, `+
		`containers: [{name: app, image: exit-0}]}`), "pod/$C", nil, ""},
	{"fresh: well: container: Secret that never changes", object("v1", "Secret", "$A", `immutable: true, stringData: `+
		`{$K: x}`) + mounting("$C", `secret: {secretName: $A}`, ""), "pod/$C", nil, ""},
}

// oneOf is a Deployment of one replica.
func oneOf(name, spec string) string {
	return object("apps/v1", "Deployment", name, `spec: {replicas: 1, selector: {matchLabels: {app: `+name+`}}, `+
		`template: {metadata: {labels: {app: `+name+`}}, spec: `+spec+`}}`)
}

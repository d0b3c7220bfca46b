package breaker

// realContainerKinds are containers that end, or do not start, by what programs and the runtime do.
var realContainerKinds = []kind{
	{"real: exit code", realShell("$C", `echo cannot reach $B >&2; sleep 1; exit $CODE`, "", ""), "pod/$C .",
		[]truth{{kinds: "Pod", field: "containers[0]", numbers: []string{"$CODE"}}}, ""},
	{"real: exit code of a Deployment, asked of its Service", workload("$A", realShellSpec(`exit $CODE`, "", "")) +
		serviceOf("$C", "$A", "$PORT"), "deployment/$A service/$C", []truth{{kinds: podOrOwner,
		field:   "containers[0]",
		numbers: []string{"$CODE"}}}, ""},
	{"real: program that is not in the image", single("$C", `{containers: [{name: app, image: $APP, command: `+
		`[/opt/$A/bin/$B]}]}`), "pod/$C .", []truth{{kinds: "Pod", field: "command[0]", value: "/opt/$A/bin/$B"}},
		""},
	{"real: command line as one word", single("$C", `{containers: [{name: app, image: $APP, command: ["sleep `+
		`$PORT"]}]}`), "pod/$C", []truth{{kinds: "Pod", field: "command[0]", value: "sleep $PORT",
		want: `"sleep","$PORT"`}}, ""},
	{"real: program that may not be executed", single("$C", `{containers: [{name: app, image: $APP, command: `+
		`[/srv/plain]}]}`), "pod/$C", []truth{{kinds: "Pod", field: "command[0]", value: "/srv/plain"}}, ""},
	{"real: program of another machine", single("$C", `{containers: [{name: app, image: $APP, command: `+
		`[/srv/foreign]}]}`), "pod/$C", []truth{{kinds: "Pod", field: "command|image", value: "/srv/foreign|$APP"}},
		""},
	{"real: interpreter that is missing", single("$C", `{containers: [{name: app, image: $APP, command: `+
		`[/srv/script]}]}`), "pod/$C", []truth{{kinds: "Pod", field: "command|image", value: "/srv/script|$APP"}},
		""},
	{"real: root file system that is read-only", realShell("$C", `sleep 1; echo x > /srv/$DIR-$A`,
		`securityContext: {readOnlyRootFilesystem: true}`, ""), "pod/$C", []truth{{kinds: "Pod",
		field: "readOnlyRootFilesystem", value: "true", want: "emptyDir", numbers: []string{"/srv/$DIR-$A"}}}, ""},
	{"real: user that may not write", realShell("$C", `mkdir /srv/$DIR || exit 4; sleep 3600`,
		`securityContext: {runAsUser: $UID}`, ""), "pod/$C", []truth{{kinds: "Pod", field: "runAsUser", value: "$UID",
		numbers: []string{"/srv/$DIR"}}}, ""},
	{"real: must not be root, and its image is", realShell("$C", `sleep 3600`, `securityContext: {runAsNonRoot: `+
		`true}`, ""),
		"pod/$C", []truth{{kinds: "Pod", field: "runAs", want: "runAsUser"}}, ""},
	{"real: working directory that is a file", realShell("$C", `sleep 3600`, `workingDir: /etc/passwd`, ""), "pod/$C",
		[]truth{{kinds: "Pod", field: "workingDir", value: "/etc/passwd"}}, ""},
	{"real: killed for its memory", single("$C", `{containers: [{name: app, image: $SRV, args: [eat, "200"], `+
		`resources: {limits: {memory: $MIMi}}}]}`), "pod/$C .", []truth{{kinds: "Pod",
		field: "resources.limits.memory", value: "$MIMi", numbers: []string{"137"}}}, ""},
	{"real: variable that is missing", realShell("$C", `set -u; echo start; echo $$ENV`, "", ""), "pod/$C",
		[]truth{{kinds: "Pod", field: "containers[0]", numbers: []string{"$ENV"}}}, ""},
	{"real: init container that ends with an error", single("$C", `{initContainers: [{name: $A, image: $APP, `+
		`command: `+
		`[sh, -c, "echo no $B >&2; exit $CODE"]}], containers: [{name: app, image: $WEB}]}`), "pod/$C", []truth{{
		kinds: "Pod", field: "initContainers[0]", value: "$A", numbers: []string{"$CODE"}}}, ""},
	{"real: init container that never ends", single("$C", `{terminationGracePeriodSeconds: 1, initContainers: `+
		`[{name: $A, image: $APP, command: [sh, -c, "until nslookup $a; do sleep 1; done"]}], containers: [{name: `+
		`app, `+
		`image: $WEB}]}`) + workload("$A", realServes("")) + serviceOf("$A", "$A", "$PORT"), "pod/$C .",
		[]truth{{kinds: "Pod",
			field: "initContainers[0]", value: "$a", want: "$A"}}, ""},
	{"well: real: Pod that runs", realShell("$C", `sleep 3600`, "", ""), "pod/$C .", nil, ""},
	{"well: real: Job that is complete", object("batch/v1", "Job", "$C", `spec: {template: {spec: {restartPolicy: `+
		`Never, containers: [{name: app, image: $APP, command: [sh, -c, "sleep $N"]}]}}}`), "job/$C .", nil, ""},
}

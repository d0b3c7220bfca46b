package breaker

// realJob is a Job that runs a script.
func realJob(name, more, script string) string {
	return object("batch/v1", "Job", name, `spec: {`+more+`template: {spec: {restartPolicy: Never, `+
		`terminationGracePeriodSeconds: 1, containers: [{name: app, image: $APP, command: [sh, -c, `+
		`"`+script+`"]}]}}}`)
}

// realWorkloadKinds are Jobs, roll-outs, quotas, rights and places.
var realWorkloadKinds = []kind{
	{"real: Job out of attempts", realJob("$C", "backoffLimit: 1, ", "exit $CODE"), "job/$C .",
		[]truth{{kinds: podOrOwner,
			field: "containers[0]|backoffLimit", numbers: []string{"$CODE"}}}, ""},
	{"real: Job deadline", realJob("$C", "activeDeadlineSeconds: $N, ", "sleep 1$N"), "job/$C .",
		[]truth{{kinds: "Job",
			field: "activeDeadlineSeconds", value: "$N"}}, ""},
	{"real: Job whose failure policy ends it", realJob("$C", `podFailurePolicy: {rules: [{action: FailJob, `+
		`onExitCodes: {operator: In, values: [$CODE]}}]}, `, "exit $CODE"), "job/$C", []truth{{kinds: "Job",
		field: "podFailurePolicy.rules[0]", numbers: []string{"$CODE"}}}, ""},
	{"real: StatefulSet held by its first Pod", object("apps/v1", "StatefulSet", "$C", `spec: {serviceName: "", `+
		`replicas: `+
		`3, selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+
		realServes(`readinessProbe: {periodSeconds: 1, tcpSocket: {port: $PORU}}`)+`}}`), "statefulset/$C pod/$C-0 .",
		[]truth{{kinds: podOrOwner, field: "readinessProbe.tcpSocket.port", value: "$PORU", want: "$PORT"}}, ""},
	{"real: roll-out to an image that is not there", workload("$C", realServes("")), "deployment/$C .", []truth{{
		kinds: podOrOwner, field: "containers[0].image", value: "$REG/$A:$N"}},
		`deployment/$C {"spec":{"template":{"spec":{"containers":[{"name":"app","image":"$REG/$A:$N"}]}}}}`},
	{"real: roll-out that exceeds its deadline", object("apps/v1", "Deployment", "$C", `spec: {replicas: 1, `+
		`progressDeadlineSeconds: 1$N, selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: `+
		`$C}}, spec: `+
		realServes(`readinessProbe: {periodSeconds: 1, httpGet: {port: $PORT, path: "/echo?code=50$N"}}`)+`}}`),
		"deployment/$C .", []truth{{kinds: podOrOwner, field: "readinessProbe.httpGet", numbers: []string{"50$N"}}},
		""},
	{"real: quota that is used up", quotaOf("$B", "pods: 1") + workload("$C", realServes("")), "deployment/$C .",
		[]truth{{
			kinds: "ResourceQuota Deployment ReplicaSet", field: "hard|template|replicas", numbers: []string{"$B",
				"1"}}}, ""},
	{"real: maximum of a range", object("v1", "LimitRange", "$A", `spec: {limits: [{type: Container, max: {memory: `+
		`$MIMi}}]}`) + workload("$C", `{containers: [{name: app, image: $WEB, resources: {requests: {memory: `+
		`1Gi}, limits: {memory: 1Gi}}}]}`),
		"deployment/$C .", []truth{{kinds: "LimitRange Deployment", field: "max|memory", numbers: []string{"1Gi",
			"$MIMi"}}}, ""},
	{"real: account that may not list", object("v1", "ServiceAccount", "$A", "") + realAsksAPI("$C", "pods",
		"serviceAccountName: $A"), "pod/$C .", []truth{{kinds: "Pod ServiceAccount", field: "serviceAccountName",
		value: "$A",
		want:  "list", numbers: []string{"pods"}}}, ""},
	{"real: account that is not there", workload("$C", `{serviceAccountName: $A, containers: [{name: app, image: `+
		`$WEB}]}`),
		"deployment/$C .", []truth{{kinds: podOrOwner, field: "serviceAccountName", value: "$A"}}, ""},
	{"real: no token", realShell("$C", `cat /var/run/secrets/kubernetes.io/serviceaccount/token || exit 9`, "",
		"automountServiceAccountToken: false"), "pod/$C", []truth{{kinds: "Pod",
		field: "automountServiceAccountToken",
		value: "false", want: "true"}}, ""},
	{"real: label that the node has not", single("$C", `{nodeSelector: {disk-$A: "$N"}, containers: [{name: app, `+
		`image: $WEB}]}`), "pod/$C .", []truth{{kinds: "Pod", field: "nodeSelector", value: "disk-$A=$N"}}, ""},
	{"real: more cpu than the node has", workload("$C", `{containers: [{name: app, image: $WEB, resources: `+
		`{requests: `+
		`{cpu: "$N00"}}}]}`), "deployment/$C .", []truth{{kinds: podOrOwner, field: "cpu", value: "$N00"}}, ""},
	{"real: priority class that is not there", workload("$C", `{priorityClassName: $NS-$A, containers: [{name: app, `+
		`image: $WEB}]}`), "deployment/$C .", []truth{{kinds: podOrOwner, field: "priorityClassName",
		value: "$NS-$A"}}, ""},
	{"real: autoscaler without requests", workload("$A", realServes("")) + object("autoscaling/v2",
		"HorizontalPodAutoscaler", "$C", `spec: {minReplicas: 1, maxReplicas: $N, scaleTargetRef: {apiVersion: `+
			`apps/v1, `+
			`kind: Deployment, name: $A}, metrics: [{type: Resource, resource: {name: cpu, target: {type: `+
			`Utilization, `+
			`averageUtilization: 50}}}]}`), "hpa/$C .", []truth{{kinds: "Deployment HorizontalPodAutoscaler",
		field: "resources.requests|metrics", numbers: []string{"cpu"}}}, ""},
	{"real: finalizer of a Pod", `{apiVersion: v1, kind: Pod, metadata: {name: $C, finalizers: [example.com/$A]}, ` +
		`spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: $WEB}]}}`,
		"pod/$C .", []truth{{kinds: "Pod",
			field: "finalizers", value: "$A", want: "finalizers"}}, `pod/$C delete`},
	{"real: program that ignores TERM", single("$C", `{terminationGracePeriodSeconds: 600, containers: [{name: `+
		`app, image: `+
		`$SRV, args: [ignore-term]}]}`), "pod/$C", []truth{{kinds: "Pod", field: "terminationGracePeriodSeconds",
		value: "600"}}, `pod/$C delete`},
	{"well: real: roll-out", workload("$C", realServes(`readinessProbe: {periodSeconds: 1, httpGet: {port: http, `+
		`path: /healthz}}`)) + serviceOf("$A", "$C", "http"), "deployment/$C service/$A .", nil,
		`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"well: real: account that may list", object("v1", "ServiceAccount", "$A",
		"") + object("rbac.authorization.k8s.io/v1",
		"Role", "$A", `rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]`) + object(
		"rbac.authorization.k8s.io/v1", "RoleBinding", "$A", `roleRef: {apiGroup: rbac.authorization.k8s.io, `+
			`kind: Role, name: `+
			`$A}, subjects: [{kind: ServiceAccount, name: $A, namespace: `+
			`$NS}]`) + realAsksAPI("$C", "pods", "serviceAccountName: $A"), "pod/$C .", nil, ""},
	{"well: real: sidecar and Job", object("batch/v1", "Job", "$C", `spec: {template: {spec: {restartPolicy: Never, `+
		`terminationGracePeriodSeconds: 1, initContainers: [{name: $A, image: $SRV, args: [pause], restartPolicy: `+
		`Always}], containers: [{name: app, image: `+
		`$APP, command: [sh, -c, "sleep $N"]}]}}}`), "job/$C .", nil, ""},
}

// realAsksAPI is a Pod that asks the API for objects of the namespace, with its account's token.
func realAsksAPI(name, resource, spec string) string {
	return single(name, `{terminationGracePeriodSeconds: 1, `+spec+`, containers: [{name: app, image: $SRV, args: `+
		`[fetch, --tries, "2", --token, /var/run/secrets/kubernetes.io/serviceaccount/token, `+
		`"https://kubernetes.default/api/v1/namespaces/$NS/`+resource+`"]}]}`)
}

// realPairKinds are two breaks at once.
var realPairKinds = []kind{
	{"real: pair: probe and init container", single("$A", realServes(`readinessProbe: {periodSeconds: 1, httpGet: `+
		`{port: $PORU}}`)) + realShell("$C", `exit `+
		`$CODE`, "", ""), ".", []truth{{kinds: "Pod", field: "readinessProbe.httpGet.port",
		value: "$PORU", want: "$PORT"}, {kinds: "Pod", field: "containers[0]", numbers: []string{"$CODE"}}}, ""},
	{"real: pair: two containers", single("$C", `{terminationGracePeriodSeconds: 1, containers: [{name: $A, image: `+
		`"$REG/$A:$N"}, {name: $B, image: $APP, command: [sh, -c, "echo no $P >&2; exit `+
		`$CODE"]}]}`), "pod/$C .", []truth{
		{kinds: "Pod", field: "containers[0].image", value: "$REG/$A:$N"},
		{kinds: "Pod", field: "containers[1]", numbers: []string{"$CODE"}}}, ""},
	{"real: pair: selector and probe", workload("$A", realServes(`readinessProbe: {periodSeconds: 1, tcpSocket: `+
		`{port: $PORU}}`)) + serviceOf("$C", "$a", "$PORT"), "service/$C .", []truth{
		{kinds: "Service", field: "selector", value: "$a", want: "$A"},
		{kinds: podOrOwner, field: "readinessProbe.tcpSocket.port", value: "$PORU", want: "$PORT"}}, ""},
}

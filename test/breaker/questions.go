package breaker

// questionKinds ask of one break from several sides: of the Pod, its owner, the Service, the
// Ingress, the claim, the quota, the namespace, of a Pod that is not there, and of nothing.
var questionKinds = []kind{
	{"question: missing Secret, asked of the Service", workload("$A", fromSecret("$B")) + serviceOf("$C", "$A", "8080"),
		"service/$C", []truth{{kinds: podOrOwner, field: "envFrom[0].secretRef", value: "$B"}}, ""},
	{"question: missing Secret, asked of the budget", workload("$A", fromSecret("$B")) + budgetOf("$C", "$A",
		"maxUnavailable: 1"), "pdb/$C", []truth{{kinds: podOrOwner, field: "envFrom[0].secretRef", value: "$B"}}, ""},
	{"question: missing Secret, asked of the Ingress", workload("$A", fromSecret("$B")) +
		serviceOf("$A", "$A", "8080") +
		ingressOf("$C", "$A", "80"), "ingress/$C",
		[]truth{{kinds: podOrOwner, field: "envFrom[0].secretRef", value: "$B"}}, ""},
	{"question: missing Secret, asked of nothing", workload("$A", fromSecret("$B")), "",
		[]truth{{kinds: podOrOwner, field: "envFrom[0].secretRef", value: "$B"}}, ""},
	{"question: missing Secret, asked of a bare ReplicaSet", object("apps/v1", "ReplicaSet", "$C", `spec: `+
		`{replicas: 2, `+
		`selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+fromSecret("$B")+`}}`),
		"replicaset/$C", []truth{{kinds: podOrOwner, field: "envFrom[0].secretRef", value: "$B"}}, ""},
	{"question: missing Secret, asked of a ReplicationController", object("v1", "ReplicationController", "$C",
		`spec: {replicas: 2, selector: {app: $C}, template: {metadata: {labels: {app: $C}}, spec: `+
			``+fromSecret("$B")+`}}`),
		"replicationcontroller/$C", []truth{{kinds: podOrOwner + " ReplicationController",
			field: "envFrom[0].secretRef", value: "$B"}}, ""},
	{"question: selector with one letter wrong, asked of nothing", workload("$A", plainApp) + serviceOf("$C", "$a",
		"8080"), "", []truth{{kinds: "Service", field: "selector", value: "$a", want: "$A"}}, ""},
	{"question: selector with one letter wrong, asked of the Ingress", workload("$A", plainApp) + serviceOf("$B", "$a",
		"8080") + ingressOf("$C", "$B", "80"), "ingress/$C",
		[]truth{{kinds: "Service", field: "selector", value: "$a", want: "$A"}}, ""},
	{"question: image that is never pulled, asked of the Service", workload("$A", `{containers: [{name: app, image: `+
		`"$B.example.com/app:$N", imagePullPolicy: Never}]}`) + serviceOf("$C", "$A", "8080"), "service/$C",
		[]truth{{kinds: podOrOwner, field: "imagePullPolicy|image", value: "Never|$B.example.com/app:$N",
			want: "IfNotPresent"}}, ""},
	{"question: crash, asked of the Ingress", workload("$A", `{containers: [{name: app, image: exit-3}]}`) + serviceOf(
		"$B", "$A", "8080") + ingressOf("$C", "$B", "80"), "ingress/$C",
		[]truth{{kinds: podOrOwner, field: "containers|ontainerStatuses", numbers: []string{"3"}}}, ""},
	{"question: scaled to zero, asked of the Ingress", workload("$A", plainApp) + serviceOf("$B", "$A", "8080") +
		ingressOf("$C", "$B", "80"), "ingress/$C", []truth{{kinds: "Deployment", field: "replicas", value: "0",
		want: "replicas"}}, `deployment/$A {"spec":{"replicas":0}}`},
	{"question: paused from the start, asked of the Service", object("apps/v1", "Deployment", "$A", `spec: {paused: `+
		`true, replicas: 2, selector: {matchLabels: {app: $A}}, template: {metadata: {labels: {app: $A}}, spec: `+
		plainApp+`}}`) + serviceOf("$C", "$A", "8080"), "service/$C",
		[]truth{{kinds: "Deployment", field: "paused", value: "true", want: "resume"}}, ""},
	{"question: ended Pod, asked of the Service", single("$A", `{restartPolicy: Never, containers: [{name: app, `+
		`image: `+
		`exit-3}]}`) + serviceOf("$C", "$A", "8080"), "service/$C", []truth{{kinds: "Pod",
		field: "restartPolicy|ontainer", numbers: []string{"3"}}}, ""},
	{"question: second container is not ready, asked of the Service", workload("$A", `{containers: [`+app+`, `+
		`{name: $B, `+
		`image: app, readinessProbe: {periodSeconds: 1, exec: {command: `+
		`["false"]}}}]}`) + serviceOf("$C", "$A", "8080"),
		"service/$C", []truth{{kinds: podOrOwner, field: "containers[1].readinessProbe", numbers: []string{"$B"}}}, ""},
	{"question: class of a claim template, asked of the claim", stateful("$C", `""`, `volumeClaimTemplates: `+
		`[{metadata: `+
		`{name: d}, spec: {storageClassName: $NS-$B, accessModes: [ReadWriteOnce], resources: {requests: {storage: `+
		`5Gi}}}}], `, plainApp), "pvc/d-$C-0",
		[]truth{{kinds: "PersistentVolumeClaim StatefulSet", field: "storageClassName", value: "$NS-$B"}}, ""},
	{"question: class of a claim template, asked of the Pod", stateful("$C", `""`, `volumeClaimTemplates: [{metadata: `+
		`{name: d}, spec: {storageClassName: $NS-$B, accessModes: [ReadWriteOnce], resources: {requests: {storage: `+
		`5Gi}}}}], `, plainApp), "pod/$C-0",
		[]truth{{kinds: "PersistentVolumeClaim StatefulSet", field: "storageClassName", value: "$NS-$B"}}, ""},
	{"question: second Pod of a StatefulSet, which is not there", stateful("$C", `""`, "", `{containers: [{name: app, `+
		`image: app, readinessProbe: {periodSeconds: 1, exec: {command: ["false"]}}}]}`), "pod/$C-1",
		[]truth{{kinds: "Pod StatefulSet", field: "readinessProbe", numbers: []string{"$C-0"}}}, ""},
	{"question: name of a Pod with one letter wrong", single("$C", plainApp), "pod/$c",
		[]truth{{kinds: "Pod", field: "name", value: "$c", want: "$C"}}, ""},
	{"question: name of a Service with one letter wrong", workload("$C", plainApp) + serviceOf("$C", "$C", "8080"),
		"service/$c", []truth{{kinds: "Service", field: "name", value: "$c", want: "$C"}}, ""},
	{"question: name of a Deployment, asked for as a Pod", workload("$C", plainApp), "pod/$C",
		[]truth{{kinds: "Pod", field: "name", value: "$C", want: "deployment/$C"}}, ""},
	{"question: policy shuts out an argument, asked of nothing", workload("$A", plainApp) + serviceOf("$A", "$A",
		"8080") + workload("$C", `{containers: [{name: app, image: app, args: ["--db=$A.$NS:80"]}]}`) + policyOf("$B",
		"$C", `policyTypes: [Egress], egress: [{ports: [{port: 53, protocol: UDP}, {port: 53}, {port: 80}]}]`), "",
		[]truth{{kinds: "NetworkPolicy", field: "egress", numbers: []string{"$A", "8080"}, want: "8080"}}, ""},
	{"question: beside a Pod that is beside one without a place", beside("$C", "$A") + beside("$A", "$B") + single("$B",
		withRequest("cpu", "1$N")), "pod/$C", []truth{{kinds: "Pod", field: "podAffinity", numbers: []string{"$A"}},
		{kinds: "Pod", field: "requests.cpu", value: "1$N", numbers: []string{"8"}}}, ""},
	{"question: quota of Pods, asked of the namespace", quotaOf("$B", "pods: 1") + workload("$A", plainApp),
		"namespace/$NS", []truth{{kinds: "ResourceQuota", field: "hard.pods", value: "1",
			numbers: []string{"$A"}}}, ""},
	{"question: quota of Pods, asked of nothing", quotaOf("$B", "pods: 1") + workload("$A", plainApp), "",
		[]truth{{kinds: "ResourceQuota Deployment ReplicaSet", field: "hard.pods", numbers: []string{"$B", "1"}}}, ""},
	{"question: quota of Pods, asked of the Service", quotaOf("$B", "pods: 0") + workload("$A", plainApp) + serviceOf(
		"$C", "$A", "8080"), "service/$C",
		[]truth{{kinds: "ResourceQuota", field: "hard.pods", value: "0", numbers: []string{"$B"}}}, ""},
	{"question: quota of Pods, asked of a DaemonSet", quotaOf("$B", "pods: 0") + daemonOf("$C", `{nodeSelector: `+
		`{kubernetes.io/hostname: node-1}, containers: [`+app+`]}`), "daemonset/$C",
		[]truth{{kinds: "ResourceQuota", field: "hard.pods", value: "0", numbers: []string{"$B"}}}, ""},
	{"question: no node is large enough, asked of the claim", object("storage.k8s.io/v1", "StorageClass", "$NS",
		"provisioner: $NS.example.com, volumeBindingMode: WaitForFirstConsumer") + claimOf("$C",
		"storageClassName: $NS, ") + single("$A", `{containers: [{name: app, image: app, resources: {requests: {cpu: `+
		`"1$N"}}}], volumes: [{name: v, persistentVolumeClaim: {claimName: $C}}]}`), "pvc/$C",
		[]truth{{kinds: "Pod", field: "requests.cpu", value: "1$N", numbers: []string{"8"}}}, ""},
	{"question: no node is large enough, asked of nothing", workload("$A", withRequest("cpu", "1$N")), "",
		[]truth{{kinds: podOrOwner, field: "requests.cpu", value: "1$N", numbers: []string{"8"}}}, ""},
	{"question: limit that is the request as well", workload("$C", `{containers: [{name: app, image: app, resources: `+
		`{limits: {cpu: "1$N"}}}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "limits.cpu|requests.cpu", value: "1$N", numbers: []string{"8"}}}, ""},
	{"question: ConfigMap in another namespace",
		otherNamespace("v1", "ConfigMap", "$A", "data: {$K: x}") + workload("$C",
			`{containers: [{name: app, image: app, envFrom: [{configMapRef: {name: $A}}]}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "envFrom[0].configMapRef", value: "$A", numbers: []string{"$NS-o"}}}, ""},
	{"question: Ingress to a Service in another namespace", otherNamespace("v1", "Service", "$A", "spec: {selector: "+
		"{app: $A}, ports: [{port: 80}]}") + ingressOf("$C", "$A", "80"), "ingress/$C",
		[]truth{{kinds: "Ingress", field: "service.name", value: "$A", numbers: []string{"$NS-o"}}}, ""},
	{"question: Secret of an Ingress with one letter wrong",
		emptyCertificate("$B") + workload("$A", plainApp) + serviceOf("$A",
			"$A", "8080") + secureIngress("$C", "$b", "$A"), "ingress/$C",
		[]truth{{kinds: "Ingress", field: "tls[0].secretName", value: "$b", want: "$B"}}, ""},
	{"question: liveness asks another port", workload("$C", `{containers: [{name: app, image: web, ports: `+
		`[{containerPort: 8080}], livenessProbe: {periodSeconds: 1, failureThreshold: 1, tcpSocket: {port: 818$N}}}]}`),
		"deployment/$C", []truth{{kinds: podOrOwner, field: "livenessProbe", value: "818$N", want: "8080",
			numbers: []string{"818$N"}}}, ""},
	{"question: readiness asks by HTTPS what answers by HTTP", single("$C", `{containers: [{name: app, image: `+
		`web, ports: `+
		`[{containerPort: 8080}], readinessProbe: {periodSeconds: 1, httpGet: {port: 8080, scheme: `+
		`HTTPS}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "readinessProbe", want: "HTTP"}}, ""},
	{"question: probe's command line as one word", single("$C", `{containers: [{name: app, image: app, `+
		`readinessProbe: `+
		`{periodSeconds: 1, exec: {command: ["cat /tmp/$K"]}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "readinessProbe.exec.command", value: "cat /tmp/$K"}}, ""},
	{"question: Job whose second container never ends", object("batch/v1", "Job", "$C", `spec: {template: {spec: `+
		`{restartPolicy: Never, containers: [{name: $A, image: exit-0}, {name: $B, image: app}]}}}`), "job/$C",
		[]truth{{kinds: "Job Pod", field: "containers[1]", numbers: []string{"$B"}, want: "initContainers"}}, ""},
	{"question: mount that hides the program", single("$C", `{containers: [{name: app, image: no-program, `+
		`volumeMounts: `+
		`[{name: v, mountPath: /bin}]}], volumes: [{name: v, emptyDir: {}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "volumeMounts[0].mountPath", value: "/bin", numbers: []string{"/bin/frob"}}}, ""},
	{"question: selector of a version that has gone", object("apps/v1", "Deployment", "$A", `spec: {replicas: 2, `+
		`selector: {matchLabels: {app: $A}}, template: {metadata: {labels: {app: $A, version: v1}}, spec: `+
		``+plainApp+`}}`) +
		object("v1", "Service", "$C", `spec: {selector: {app: $A, version: v$N}, ports: [{port: 80, targetPort: `+
			`8080}]}`),
		"service/$C", []truth{{kinds: "Service", field: "selector", value: "v$N", want: "v1"}}, ""},
	{"question: variable of a Service, without links", serviceOf("$K", "$A", "8080") +
		single("$C", `{enableServiceLinks: `+
			`false, containers: [{name: app, image: app, args: ["--x=$($k_SERVICE_HOST)"]}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "enableServiceLinks", value: "false", want: "true"}}, ""},
	{"question: resolver by hand that is not the cluster's", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") +
		single("$C", `{dnsPolicy: None, dnsConfig: {nameservers: [9.9.9.$N]}, containers: [{name: app, image: `+
			`app, env: `+
			`[{name: URL, value: "http://$A/"}]}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "dnsPolicy|dnsConfig", value: "None|9.9.9.$N", want: "ClusterFirst",
			numbers: []string{"$A"}}}, ""},
	{"question: asked for at the Pod's port, not the Service's", workload("$A", plainApp) + serviceOf("$A", "$A",
		"8080") + single("$C", `{containers: [{name: app, image: app, env: [{name: URL, value: "http://$A:8080/"}], `+
		`terminationMessagePolicy: FallbackToLogsOnError, command: [sh, -c, "echo 'dial $A:8080: i/o timeout' `+
		`>&2; exit `+
		`1"]}]}`), "pod/$C", []truth{{kinds: "Pod Service", field: "env[0].value|ports|command",
		numbers: []string{"80", "8080"}}}, ""},
	{"question: policy shuts out what a variable names", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") +
		workload("$C", withEnv(`{name: URL, value: "http://$A/"}`)) + policyOf("$B", "$C", `policyTypes: `+
		`[Egress], egress: `+
		`[{ports: [{port: 53, protocol: UDP}, {port: 53}]}]`), "deployment/$C",
		[]truth{{kinds: "NetworkPolicy", field: "egress", numbers: []string{"$A"}}}, ""},
	{"question: two replicas on the node's network", workload("$C", `{hostNetwork: true, containers: [{name: app, `+
		`image: `+
		`app, ports: [{containerPort: 74$N1}]}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "hostPort|hostNetwork|containerPort", value: "74$N1|true",
			numbers: []string{"74$N1"}}}, ""},
	{"question: autoscaler by a version that has gone", workload("$A", withRequest("cpu", "100m")) + object(
		"autoscaling/v2", "HorizontalPodAutoscaler", "$C", `spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: `+
			`extensions/v1beta1, kind: Deployment, name: $A}}`), "hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "scaleTargetRef.apiVersion", value: "extensions/v1beta1",
			want: "apps/v1"}}, ""},
	{"question: right to create by name", ruleOf("$C", `apiGroups: [""], resources: [configmaps], resourceNames: `+
		`[$A], `+
		`verbs: [create]`) + configMap("$A", "$K: x"), "role/$C", []truth{{kinds: "Role",
		field: "resourceNames|verbs", value: "$A|create", numbers: []string{"create"}}}, ""},
	{"question: restricted by its namespace", workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: podOrOwner + " Namespace", field: "securityContext|enforce", numbers: []string{
			"restricted|restricted:latest", "allowPrivilegeEscalation"}}},
		`namespace/$NS {"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}` + "\n" +
			`deployment/$C {"spec":{"replicas":$N}}`},
	{"question: requests of a level that is not there",
		object("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "$NS-$C",
			`spec: {priorityLevelConfiguration: {name: $NS-$A}, matchingPrecedence: 9000}`), "flowschema/$NS-$C",
		[]truth{{kinds: "FlowSchema", field: "priorityLevelConfiguration", value: "$NS-$A"}}, ""},
	{"question: ingress class whose parameters are not there", object("networking.k8s.io/v1", "IngressClass", "$NS-$C",
		`spec: {controller: example.com/x, parameters: {kind: ConfigMap, name: $A, scope: Namespace, namespace: $NS}}`),
		"ingressclass/$NS-$C", []truth{{kinds: "IngressClass", field: "parameters", value: "$A"}}, ""},
}

func fromSecret(name string) string {
	return `{containers: [{name: app, image: app, envFrom: [{secretRef: {name: ` + name + `}}]}]}`
}

func daemonOf(name, spec string) string {
	return object("apps/v1", "DaemonSet", name, `spec: {selector: {matchLabels: {app: `+name+`}}, template: `+
		`{metadata: `+
		`{labels: {app: `+name+`}}, spec: `+spec+`}}`)
}

// otherNamespace is a namespace $NS-o with an object in it.
func otherNamespace(version, kind, name, rest string) string {
	return object("v1", "Namespace", "$NS-o", "") + `{apiVersion: ` + version + `, kind: ` + kind + `, metadata: ` +
		`{name: ` +
		name + `, namespace: $NS-o}, ` + rest + "}\n---\n"
}

func emptyCertificate(name string) string {
	return object("v1", "Secret", name, `type: kubernetes.io/tls, stringData: {tls.crt: "", tls.key: ""}`)
}

// secureIngress is an Ingress of one host with a certificate.
func secureIngress(name, secret, service string) string {
	return object("networking.k8s.io/v1", "Ingress", name, `spec: {tls: [{hosts: [www.example.com], secretName: `+
		``+secret+
		`}], rules: [{host: www.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: `+
		``+service+
		`, port: {number: 80}}}}]}}]}`)
}

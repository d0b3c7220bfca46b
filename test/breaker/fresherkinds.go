package breaker

// fresherKinds are further breaks and healthy things of containers, networks, rights and storage.
// They were written on 2026-11-29 after the misses of the fresh kinds were known, and before any of
// them was played: they measure whether the rules carry.
var fresherKinds = []kind{
	{"fresher: container: variable from a Secret's key in another case", secret("$A", "$k: x") + oneOf("$C", withEnv(
		`{name: X, valueFrom: {secretKeyRef: {name: $A, key: $K}}}`)), "deployment/$C", []truth{{kinds: podOrOwner,
		field: "secretKeyRef", value: "$K", want: "$k"}}, ""},
	{"fresher: container: resource field of a container with one letter wrong", single("$C", `{containers: `+
		`[{name: $A, `+
		`image: app, resources: {limits: {cpu: 200m}}}, {name: $B, image: app, env: [{name: X, valueFrom: {`+
		`resourceFieldRef: {containerName: $a, resource: limits.cpu}}}]}]}`), "pod/$C", []truth{{kinds: "Pod",
		field: "resourceFieldRef", value: "$a", want: "$A"}}, ""},
	{"fresher: container: two init containers, the first needs the second's", single("$C", `{volumes: [{name: v, `+
		`emptyDir: {}}], initContainers: [{name: $A, image: app, terminationMessagePolicy: FallbackToLogsOnError, `+
		`command: [sh, -c, "cat /v/$K || exit 6"], volumeMounts: [{name: v, mountPath: /v}]}, {name: $B, image: app, `+
		`command: [sh, -c, "echo x > /v/$K"], volumeMounts: [{name: v, mountPath: /v}]}], containers: [`+app+`]}`),
		"pod/$C", []truth{{kinds: "Pod", field: "initContainers[0]", numbers: []string{"6", "$A"}}}, ""},
	{"fresher: container: liveness probe of the program's own end", single("$C", `{terminationGracePeriodSeconds: 1, `+
		`containers: [{name: app, image: app, livenessProbe: {periodSeconds: 1, failureThreshold: 1, exec: {command: `+
		`[sh, -c, "test -f /tmp/$A"]}}}]}`), "pod/$C", []truth{{kinds: "Pod", field: "livenessProbe",
		numbers: []string{"1"}}}, ""},
	{"fresher: container: image of an init container in capitals", oneOf("$C", `{initContainers: [{name: $A, image: `+
		`"example.com/Init-$B:1"}], containers: [`+app+`]}`), "deployment/$C", []truth{{kinds: podOrOwner,
		field: "initContainers[0].image", value: "example.com/Init-$B:1", want: "example.com/init-$B:1"}}, ""},
	{"fresher: container: password of a Secret that was replaced before the crash",
		secret("$A", "password: $B") + oneOf(
			"$C", `{containers: [{name: app, image: app, terminationMessagePolicy: FallbackToLogsOnError, `+
				`command: [sh, -c, `+
				`"if [ $DB_PASSWORD != $B ]; then echo DB_PASSWORD refused >&2; exit 8; fi; sleep 3600"], `+
				`env: [{name: `+
				`DB_PASSWORD, valueFrom: {secretKeyRef: {name: $A, key: password}}}]}]}`), "deployment/$C", []truth{{
			kinds: podOrOwner, field: "containers[0]", numbers: []string{"8"}}, {kinds: "Secret", field: "data",
			numbers: []string{"password"}}}, `deployment/$C {}` + "\n" + `secret/$A ` +
			`{"stringData":{"password":"$P"}}` + "\n" +
			`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"fresher: net: Service of a port by number that another port of the Pod has", oneOf("$A", `{containers: [{name: `+
		`app, image: app, ports: [{name: web, containerPort: 8080}, {name: admin, containerPort: `+
		`8081}]}]}`) + object("v1",
		"Service", "$C", `spec: {selector: {app: $A}, ports: [{port: 80, targetPort: wbe}]}`), "service/$C", []truth{{
		kinds: "Service", field: "targetPort", value: "wbe", want: "web"}}, ""},
	{"fresher: net: policy from a namespace by a label that its name is not", workload("$A", plainApp) + policyOf("$C",
		"$A", `ingress: [{from: [{namespaceSelector: {matchLabels: {name: kube-system}}}]}]`), "networkpolicy/$C",
		[]truth{{kinds: "NetworkPolicy", field: "namespaceSelector", value: "name",
			want: "kubernetes.io/metadata.name"}}, ""},
	{"fresher: net: Ingress of a path whose Service has no Pods",
		workload("$A", plainApp) + serviceOf("$A", "$A", "8080") +
			serviceOf("$B", "$b", "8080") + workload("$B", plainApp) + object("networking.k8s.io/v1", "Ingress", "$C",
			`spec: {rules: [{host: $N.example.com, http: {paths: [{path: /a, pathType: Prefix, backend: {service: `+
				`{name: $A, `+
				`port: {number: 80}}}}, {path: /b, pathType: Prefix, backend: {service: {name: $B, port: {number: `+
				`80}}}}]}}]}`),
		"ingress/$C", []truth{{kinds: "Service", field: "selector", value: "$b", want: "$B"}}, ""},
	{"fresher: net: egress by a block that the Service's Pods are not in",
		workload("$A", plainApp) + serviceOf("$A", "$A",
			"8080") + single("$C", withEnv(`{name: URL, value: "http://$A:80/"}`)) + policyOf("$B", "$C",
			`policyTypes: [`+
				`Egress], egress: [{ports: [{port: 53, protocol: UDP}, {port: 53}]}, {to: [{ipBlock: {cidr: `+
				`203.0.113.0/24}}]}]`),
		"pod/$C", []truth{{kinds: "NetworkPolicy", field: "egress", numbers: []string{"$A"}}}, ""},
	{"fresher: net: subdomain of a Service with an address", serviceOf("$A", "$C", "8080") + single("$C", `{hostname: `+
		`$B, subdomain: $a, containers: [`+app+`]}`), "pod/$C", []truth{{kinds: "Pod", field: "subdomain", value: "$a",
		want: "$A"}}, ""},
	{"fresher: rights: user of the scheduler with one letter wrong", object(rbac, "ClusterRoleBinding", "$NS-$C",
		`roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: `+
			`User, apiGroup: `+
			`rbac.authorization.k8s.io, name: "system:kube-schedular"}]`), "clusterrolebinding/$NS-$C", []truth{{
		kinds: "ClusterRoleBinding", field: "subjects[0]", value: "system:kube-schedular",
		want: "system:kube-scheduler"}}, ""},
	{"fresher: rights: mutating webhook that answers too late", object("admissionregistration.k8s.io/v1",
		"MutatingWebhookConfiguration", "$NS-$A", `webhooks: [{name: $NS.example.com, sideEffects: None, `+
			`admissionReviewVersions: [v1], timeoutSeconds: 2, clientConfig: {url: "$HOOK/slow", caBundle: $CA}, `+
			`namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}, rules: [{apiGroups: [""], `+
			`apiVersions: `+
			`[v1], resources: [pods], operations: [CREATE]}]}]`) + object("batch/v1", "Job", "$C", `spec: `+
		`{template: {spec: `+
		`{restartPolicy: Never, containers: [{name: app, image: app}]}}}`), "job/$C", []truth{{
		kinds: "MutatingWebhookConfiguration", field: "timeoutSeconds|clientConfig", numbers: []string{"2|2s"}}}, ""},
	{"fresher: rights: quota of Services of a type, asked of the quota",
		quotaOf("$C", "services.nodeports: 0, pods: 10"),
		"quota/$C", []truth{{kinds: "ResourceQuota", field: "services.nodeports", value: "0"}}, ""},
	enforced("fresher: rights: level of Pod security refuses more rights", "$C", "restricted", `{securityContext: {`+
		`runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}, containers: [{name: `+
		`app, image: `+
		`app, securityContext: {capabilities: {drop: [ALL]}}}]}`, []truth{{kinds: podOrOwner,
		field: "allowPrivilegeEscalation", numbers: []string{"restricted"}, want: "allowPrivilegeEscalation"}}),
	enforced("fresher: rights: level of Pod security refuses the node's memory between processes", "$C", "baseline",
		`{hostIPC: true, containers: [`+app+`]}`, []truth{{kinds: podOrOwner, field: "hostIPC", value: "true",
			numbers: []string{"baseline"}}}),
	{"fresher: rights: role that lists what no version serves", ruleOf("$C", `apiGroups: [policy], resources: `+
		`[podsecuritypolicies], verbs: [use]`), "role/$C", []truth{{kinds: "Role", field: "resources",
		value: "podsecuritypolicies"}}, ""},
	{"fresher: storage: claim whose class was deleted", classOf("$NS-$A", "$B.example.com") + claimOf("$C",
		"storageClassName: $NS-$A, "), "pvc/$C", []truth{{kinds: "PersistentVolumeClaim", field: "storageClassName",
		value: "$NS-$A"}}, `storageclass/$NS-$A delete`},
	{"fresher: storage: volume of another mode by name", volumeOf("$NS-$A", "storageClassName: $NS, ", "9Gi",
		"ReadWriteOnce") + object("v1", "PersistentVolumeClaim", "$C", `spec: {storageClassName: $NS, `+
		`volumeName: $NS-$A, `+
		`accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}`), "pvc/$C", []truth{{
		kinds: "PersistentVolumeClaim", field: "accessModes", value: "ReadWriteMany",
		numbers: []string{"ReadWriteOnce"}}}, ""},
	{"fresher: storage: volume on a node that was deleted, asked of the Pod",
		localVolume("$NS-$A", "$B") + boundClaim("$A",
			"$NS-$A") + single("$C", claimVolume("$A")), "pod/$C", []truth{{kinds: "PersistentVolume Pod",
			field: "nodeAffinity", numbers: []string{"$B"}}}, ""},
	{"fresher: storage: optional Secret and one that is not", single("$C", `{containers: [{name: app, image: app, `+
		`volumeMounts: [{name: one, mountPath: /one}, {name: two, mountPath: /two}]}], volumes: [{name: one, secret: {`+
		`secretName: $A, optional: true}}, {name: two, projected: {sources: [{secret: {name: $A, optional: true}}, {`+
		`configMap: {name: $B}}]}}]}`), "pod/$C", []truth{{kinds: "Pod", field: "projected.sources[1].configMap",
		value: "$B"}}, ""},
	{"fresher: storage: ConfigMap as a file at a path, and a probe of another", configMap("$A", "$K: x") + single("$C",
		`{containers: [{name: app, image: app, volumeMounts: [{name: v, mountPath: /etc/$A}], readinessProbe: {`+
			`periodSeconds: 1, exec: {command: [cat, /etc/$A/$L]}}}], volumes: [{name: v, configMap: {name: $A}}]}`),
		"pod/$C", []truth{{kinds: "Pod", field: "readinessProbe.exec", numbers: []string{"/etc/$A/$L"}}}, ""},

	{"fresher: well: container: password changed, and the Pod runs on",
		secret("$A", "password: x") + oneOf("$C", withEnv(
			`{name: P, valueFrom: {secretKeyRef: {name: $A, key: password}}}`)), "deployment/$C", nil,
		`deployment/$C {}` + "\n" + `secret/$A {"stringData":{"password":"y"}}`},
	{"fresher: well: net: own search list with its namespace",
		workload("$A", plainApp) + serviceOf("$A", "$A", "8080") +
			single("$C", `{dnsPolicy: None, dnsConfig: {nameservers: [10.96.0.10], searches: [`+
				`$NS.svc.cluster.local]}, containers: [{name: app, image: app, env: [{name: URL, `+
				`value: "http://$A:80/"}]}]}`), "pod/$C", nil, ""},
	{"fresher: well: rights: binding to all that are known", object(rbac, "ClusterRoleBinding", "$NS-$C", `roleRef: {`+
		`apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: Group, apiGroup: `+
		`rbac.authorization.k8s.io, name: "system:authenticated"}, {kind: Group, apiGroup: rbac.authorization.k8s.io, `+
		`name: "$A-team"}]`), "clusterrolebinding/$NS-$C", nil, ""},
}

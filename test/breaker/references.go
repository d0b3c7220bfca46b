package breaker

const podOrOwner = "Deployment ReplicaSet Pod StatefulSet Job CronJob"

func configMap(name, data string) string { return object("v1", "ConfigMap", name, "data: {"+data+"}") }
func secret(name, data string) string    { return object("v1", "Secret", name, "stringData: {"+data+"}") }

// referenceKinds name what is missing, elsewhere, of another kind, or a key of another spelling.
var referenceKinds = []kind{
	{"env: ConfigMap with one letter wrong", configMap("$A", "$K: x") + workload("$C",
		withEnv(`{name: X, valueFrom: {configMapKeyRef: {name: $a, key: $K}}}`)), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "configMapKeyRef", value: "$a", want: "$A"}}, ""},
	{"env: key in another case", configMap("$A", "$K: x") + workload("$C",
		withEnv(`{name: X, valueFrom: {configMapKeyRef: {name: $A, key: $k}}}`)), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "configMapKeyRef", value: "$k", want: "$K"}}, ""},
	{"env: key with one letter wrong", secret("$A", "$K: x") + single("$C",
		withEnv(`{name: X, valueFrom: {secretKeyRef: {name: $A, key: $L}}}`)), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "secretKeyRef", value: "$L", want: "$K"}}, ""},
	{"env: Secret that is a ConfigMap", configMap("$A", "$K: x") + single("$C",
		withEnv(`{name: X, valueFrom: {secretKeyRef: {name: $A, key: $K}}}`)), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "secretKeyRef", value: "$A", numbers: []string{"ConfigMap"}}}, ""},
	{"envFrom: nothing of that name", single("$C",
		`{containers: [{name: app, image: app, envFrom: [{secretRef: {name: $A}}]}]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "envFrom", value: "$A", want: "create"}}, ""},
	{"volume: ConfigMap with one letter wrong", configMap("$A", "$K: x") + single("$C",
		`{containers: [`+app+`], volumes: [{name: v, configMap: {name: $a}}]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "configMap.name", value: "$a", want: "$A"}}, ""},
	{"volume: item with one letter wrong", configMap("$A", "$K: x") + single("$C",
		`{containers: [`+app+`], volumes: [{name: v, configMap: {name: $A, items: [{key: $L, path: x}]}}]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "items", value: "$L", want: "$K"}}, ""},
	{"volume: Secret missing", single("$C", `{containers: [`+app+`], volumes: [{name: v, secret: {secretName: $A}}]}`),
		"pod/$C", []truth{{kinds: podOrOwner, field: "secretName", value: "$A", want: "create"}}, ""},
	{"volume: projected Secret missing", secret("$A", "$K: x") + single("$C",
		`{containers: [`+app+`], volumes: [{name: v, projected: {sources: [{secret: {name: $a}}]}}]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "projected", value: "$a", want: "$A"}}, ""},
	{"Secret and ConfigMap missing at once", single("$C", `{containers: [{name: app, image: app, `+
		`envFrom: [{configMapRef: {name: $B}}]}], volumes: [{name: v, secret: {secretName: $A}}]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "secretName", value: "$A"},
			{kinds: podOrOwner, field: "configMapRef", value: "$B"}}, ""},
	{"claim missing", single("$C", claimVolume("$A")), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "claimName", value: "$A", want: "create"}}, ""},
	{"claim with one letter wrong", claimOf("$A", "") + single("$C", claimVolume("$a")), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "claimName", value: "$a", want: "$A"}}, ""},
	{"claim missing, and no node is large enough", single("$C", `{containers: [{name: app, image: app, resources: `+
		`{requests: {cpu: "1$N"}}}], volumes: [{name: v, persistentVolumeClaim: {claimName: $A}}]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "claimName", value: "$A"},
			{kinds: podOrOwner, field: "cpu", numbers: []string{"1$N", "8"}}}, ""},
	{"storage class missing", claimOf("$A", "storageClassName: $B, ") + single("$C", claimVolume("$A")), "pod/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "storageClassName", value: "$B"}}, ""},
	{"service account with one letter wrong", object("v1", "ServiceAccount", "$A", "") + workload("$C",
		`{serviceAccountName: $a, containers: [`+app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "serviceAccountName", value: "$a", want: "$A"}}, ""},
	{"priority class missing", workload("$C", `{priorityClassName: $A, containers: [`+app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "priorityClassName", value: "$A"}}, ""},
	{"runtime class missing", workload("$C", `{runtimeClassName: $A, containers: [`+app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "runtimeClassName", value: "$A"}}, ""},
	{"pull secret missing", workload("$C", `{imagePullSecrets: [{name: $A}], containers: [`+app+`]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "imagePullSecrets", value: "$A"}}, ""},
	{"device claim missing",
		single("$C", `{resourceClaims: [{name: d, resourceClaimName: $A}], containers: [`+app+`]}`),
		"pod/$C", []truth{{kinds: podOrOwner, field: "resourceClaimName", value: "$A"}}, ""},
	{"CronJob's template names a missing Secret", object("batch/v1", "CronJob", "$C", `spec: {schedule: "0 0 1 * *", `+
		`jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: app, envFrom: `+
		`[{secretRef: {name: $A}}]}]}}}}}`), "cronjob/$C",
		[]truth{{kinds: podOrOwner, field: "secretRef", value: "$A"}}, ""},
	{"StatefulSet without its Service", stateful("$C", "$A", "", plainApp), "statefulset/$C",
		[]truth{{kinds: "StatefulSet", field: "serviceName", value: "$A"}}, ""},
	{"autoscaler's target missing", workload("$A", plainApp) + autoscalerOf("$C", "Deployment", "$a"), "hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "scaleTargetRef", value: "$a", want: "$A"}}, ""},
	{"autoscaler's target of another kind", workload("$A", plainApp) + autoscalerOf("$C", "StatefulSet", "$A"),
		"hpa/$C",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "scaleTargetRef", value: "$A",
			numbers: []string{"Deployment"}}}, ""},
	{"Ingress: backend with one letter wrong", serviceOf("$A", "$A", "8080") + ingressOf("$C", "$a", "80"),
		"ingress/$C",
		[]truth{{kinds: "Ingress", field: "backend", value: "$a", want: "$A"}}, ""},
	{"Ingress: port that the Service lacks", serviceOf("$A", "$A", "8080") + ingressOf("$C", "$A", "8$N"), "ingress/$C",
		[]truth{{kinds: "Ingress", field: "port", value: "8$N", want: "80"}}, ""},
	{"role missing", object("rbac.authorization.k8s.io/v1", "RoleBinding", "$C", `roleRef: {apiGroup: `+
		`rbac.authorization.k8s.io, kind: Role, name: $A}, subjects: [{kind: ServiceAccount, name: default,`+
		` namespace: $NS}]`),
		"rolebinding/$C", []truth{{kinds: "RoleBinding", field: "roleRef", value: "$A"}}, ""},
	{"subject missing", object("rbac.authorization.k8s.io/v1", "Role", "$A", "rules: []") + object(
		"rbac.authorization.k8s.io/v1", "RoleBinding", "$C",
		`roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, `+
			`name: $A}, subjects: [{kind: ServiceAccount, name: $b, namespace: $NS}]`), "rolebinding/$C",
		[]truth{{kinds: "RoleBinding", field: "subjects", value: "$b"}}, ""},
}

func claimVolume(name string) string {
	return `{containers: [` + app + `], volumes: [{name: v, persistentVolumeClaim: {claimName: ` + name + `}}]}`
}

func claimOf(name, more string) string {
	return object("v1", "PersistentVolumeClaim", name, `spec: {`+more+
		`accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}`)
}

func volumeOf(name, more, size, mode string) string {
	return object("v1", "PersistentVolume", name, `spec: {`+more+`capacity: {storage: `+size+`}, accessModes: [`+mode+
		`], hostPath: {path: /tmp/none}}`)
}

func stateful(name, service, more, spec string) string {
	return object("apps/v1", "StatefulSet", name, `spec: {`+more+`serviceName: `+service+`, replicas: 2, selector: `+
		`{matchLabels: {app: `+name+`}}, template: {metadata: {labels: {app: `+name+`}}, spec: `+spec+`}}`)
}

func autoscalerOf(name, kind, target string) string {
	return object("autoscaling/v2", "HorizontalPodAutoscaler", name,
		`spec: {maxReplicas: 5, scaleTargetRef: {apiVersion: `+
			`apps/v1, kind: `+kind+`, name: `+target+`}, metrics: [{type: Resource, resource: {name: cpu, target: `+
			`{type: Utilization, averageUtilization: 50}}}]}`)
}

func serviceOf(name, app, target string) string {
	return object("v1", "Service", name, `spec: {selector: {app: `+app+`}, ports: [{port: 80, targetPort: `+target+
		`}]}`)
}

func ingressOf(name, service, port string) string {
	return object("networking.k8s.io/v1", "Ingress", name,
		`spec: {rules: [{http: {paths: [{path: /, pathType: Prefix, `+
			`backend: {service: {name: `+service+`, port: {number: `+port+`}}}}]}}]}`)
}

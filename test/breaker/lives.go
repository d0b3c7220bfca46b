package breaker

// lifeKinds are containers, Jobs, roll-outs and ends.
var lifeKinds = []kind{
	{"crashes", workload("$C", `{containers: [{name: $A, image: exit-3}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "containers[0]", value: "$A", numbers: []string{"3"}}}, ""},
	{"init container crashes", single("$C", `{initContainers: [{name: $A, image: exit-3}], containers: [`+app+`]}`),
		"pod/$C", []truth{{kinds: podOrOwner, field: "initContainers[0]", value: "$A", numbers: []string{"3"}}}, ""},
	{"two containers crash", single("$C", `{containers: [{name: $A, image: exit-3}, {name: $B, image: exit-4}]}`),
		"pod/$C", []truth{{kinds: podOrOwner, field: "containers[0]", value: "$A", numbers: []string{"3"}},
			{kinds: podOrOwner, field: "containers[1]", value: "$B", numbers: []string{"4"}}}, ""},
	{"crashes for want of a Service", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + single("$C",
		`{restartPolicy: Never, containers: [{name: app, image: exit-3, command: [run, "http://$a:80/"]}]}`), "pod/$C",
		[]truth{{kinds: podOrOwner, field: "containers[0]", numbers: []string{"3"}, want: "$A"}}, ""},
	{"Pod deadline", single("$C", `{activeDeadlineSeconds: $N, containers: [`+app+`]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "activeDeadlineSeconds", value: "$N", numbers: []string{"$N"}}}, ""},
	{"Job deadline", jobOf("$C", "activeDeadlineSeconds: $N, ", "app"), "job/$C",
		[]truth{{kinds: "Job", field: "activeDeadlineSeconds", value: "$N", numbers: []string{"$N"}}}, ""},
	{"Job out of attempts", jobOf("$C", "backoffLimit: 0, ", "exit-3"), "job/$C",
		[]truth{{kinds: "Job", field: "backoffLimit", value: "0"}}, ""},
	{"Job suspended", jobOf("$C", "suspend: true, ", "app"), "job/$C",
		[]truth{{kinds: "Job", field: "suspend", value: "true", want: "suspend"}}, ""},
	{"Job without parallelism", jobOf("$C", "parallelism: 0, ", "app"), "job/$C",
		[]truth{{kinds: "Job", field: "parallelism", value: "0"}}, ""},
	{"Job of another controller", jobOf("$C", "managedBy: example.com/$A, ", "app"), "job/$C",
		[]truth{{kinds: "Job", field: "managedBy", value: "$A"}}, ""},
	{"CronJob on a day that never comes", cronOf("$C", "0 $N 31 2 *", ""), "cronjob/$C",
		[]truth{{kinds: "CronJob", field: "schedule", value: "0 $N 31 2 *", want: "schedule"}}, ""},
	{"CronJob suspended", cronOf("$C", "* * * * *", "suspend: true, "), "cronjob/$C",
		[]truth{{kinds: "CronJob", field: "suspend", value: "true"}}, ""},
	{"CronJob with a deadline too short", cronOf("$C", "0 0 * * *", "startingDeadlineSeconds: $N, "), "cronjob/$C",
		[]truth{{kinds: "CronJob", field: "startingDeadlineSeconds", value: "$N"}}, ""},
	{"Deployment paused", workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: "Deployment", field: "paused", value: "true", want: "resume"}},
		`deployment/$C {"spec":{"paused":true,"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"StatefulSet: OnDelete", serviceOf("$C", "$C", "8080") + stateful("$C", "$C", "updateStrategy: {type: OnDelete}, ",
		plainApp), "statefulset/$C",
		[]truth{{kinds: "StatefulSet", field: "updateStrategy", value: "OnDelete", want: "RollingUpdate",
			numbers: []string{"2"}}},
		`statefulset/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"StatefulSet: partition", serviceOf("$C", "$C", "8080") + stateful("$C", "$C",
		"updateStrategy: {rollingUpdate: {partition: $N}}, ", plainApp), "statefulset/$C",
		[]truth{{kinds: "StatefulSet", field: "partition", value: "$N", want: "0"}},
		`statefulset/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"DaemonSet: OnDelete", object("apps/v1", "DaemonSet", "$C", `spec: {updateStrategy: {type: OnDelete}, selector: `+
		`{matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+plainApp+`}}`), "daemonset/$C",
		[]truth{{kinds: "DaemonSet", field: "updateStrategy", value: "OnDelete", want: "RollingUpdate"}},
		`daemonset/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"finalizer of a ConfigMap",
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: $C, finalizers: [example.com/$A]}}`,
		"configmap/$C", []truth{{kinds: "ConfigMap", field: "finalizers", value: "$A", want: "finalizers"}},
		`configmap/$C delete`},
	{"certificate request nobody approved", csrOf("$NS-$C", "kubernetes.io/kube-apiserver-client"), "csr/$NS-$C",
		[]truth{{kinds: "CertificateSigningRequest", field: "conditions", want: "approve"}}, ""},
}

// volumeKinds are claims and volumes that do not meet.
var volumeKinds = []kind{
	{"claim wants more than the volume has", volumeOf("$NS-$A", `storageClassName: $NS, `, "2Gi", "ReadWriteOnce") +
		claimOf("$C",
			`storageClassName: $NS, `) + classOf("$NS", "kubernetes.io/no-provisioner"), "pvc/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "storage", value: "5Gi", want: "2Gi"}}, ""},
	{"claim wants another access mode", volumeOf("$NS-$A", `storageClassName: $NS, `, "9Gi", "ReadOnlyMany") + claimOf(
		"$C",
		`storageClassName: $NS, `) + classOf("$NS", "kubernetes.io/no-provisioner"), "pvc/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "accessModes", value: "ReadWriteOnce", want: "ReadOnlyMany"}},
		""},
	{"a Pod waits for such a claim", volumeOf("$NS-$A", `storageClassName: $NS, `, "9Gi", "ReadOnlyMany") +
		claimOf("$B",
			`storageClassName: $NS, `) + classOf("$NS", "kubernetes.io/no-provisioner") + single("$C",
		claimVolume("$B")), "pod/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "accessModes", value: "ReadWriteOnce", want: "ReadOnlyMany"}},
		""},
	{"claim wants a block volume", volumeOf("$NS-$A", `storageClassName: $NS, `, "9Gi", "ReadWriteOnce") + claimOf("$C",
		`storageClassName: $NS, volumeMode: Block, `) + classOf("$NS", "kubernetes.io/no-provisioner"), "pvc/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "volumeMode", value: "Block", want: "Filesystem"}}, ""},
	{"claim names a volume that is not there", claimOf("$C", `storageClassName: "", volumeName: $NS-$A, `), "pvc/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "volumeName", value: "$A"}}, ""},
	{"nobody provisions", classOf("$NS", "$A.example.com") + claimOf("$C", `storageClassName: $NS, `), "pvc/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "storageClassName", numbers: []string{"$A.example.com"}}}, ""},
	{"no default class", claimOf("$C", ""), "pvc/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "storageClassName"}}, ""},
}

// wellKinds are things of which nothing is wrong.
var wellKinds = []kind{
	{"well: Deployment", workload("$C", plainApp), "deployment/$C", nil, ""},
	{"well: Deployment with everything it names", configMap("$A", "$K: x") + secret("$B", `$K: "y"`) + object("v1",
		"ServiceAccount", "$A", "") + workload("$C",
		`{serviceAccountName: $A, containers: [{name: app, image: app, env: `+
			`[{name: X, valueFrom: {configMapKeyRef: {name: $A, key: $K}}}], envFrom: [{secretRef: {name: $B}}]}], `+
			`volumes: [{name: v, secret: {secretName: $B}}]}`), "deployment/$C", nil, ""},
	{"well: optional references",
		single("$C", `{containers: [{name: app, image: app, envFrom: [{secretRef: {name: $A, `+
			`optional: true}}]}], volumes: [{name: v, configMap: {name: $B, optional: true}}]}`), "pod/$C", nil, ""},
	{"well: Service and budget", workload("$C", plainApp) + serviceOf("$C", "$C", "http") + budgetOf("$C", "$C",
		"minAvailable: 1"), "service/$C", nil, ""},
	{"well: Service asked of its budget", workload("$C", plainApp) + budgetOf("$C", "$C", "maxUnavailable: 1"),
		"pdb/$C",
		nil, ""},
	{"well: StatefulSet", serviceOf("$C", "$C", "8080") + stateful("$C", "$C", "", plainApp), "statefulset/$C", nil,
		""},
	{"well: DaemonSet", object("apps/v1", "DaemonSet", "$C", `spec: {selector: {matchLabels: {app: $C}}, template: `+
		`{metadata: {labels: {app: $C}}, spec: `+plainApp+`}}`), "daemonset/$C", nil, ""},
	{"well: Job", jobOf("$C", "", "exit-0"), "job/$C", nil, ""},
	{"well: CronJob", cronOf("$C", "0 0 * * *", ""), "cronjob/$C", nil, ""},
	{"well: claim and volume", volumeOf("$NS-$A", `storageClassName: $NS, `, "9Gi", "ReadWriteOnce") + claimOf("$C",
		`storageClassName: $NS, `), "pvc/$C", nil, ""},
	{"well: quota with room", quotaOf("$C", "pods: 10") + workload("$A", plainApp), "quota/$C", nil, ""},
	{"well: slow start", single("$C", `{containers: [{name: app, image: app, readinessProbe: {initialDelaySeconds: 4, `+
		`periodSeconds: 1, exec: {command: [sh, -c, exit 0]}}}]}`), "pod/$C", nil, ""},
	{"well: Pod that ended", single("$C", `{restartPolicy: Never, containers: [{name: app, image: exit-0}]}`), "pod/$C",
		nil, ""},
}

func jobOf(name, more, image string) string {
	return object("batch/v1", "Job", name, `spec: {`+more+`template: {spec: {restartPolicy: Never, containers: `+
		`[{name: app, image: `+image+`}]}}}`)
}

func cronOf(name, schedule, more string) string {
	return object("batch/v1", "CronJob", name,
		`spec: {`+more+`schedule: "`+schedule+`", jobTemplate: {spec: {template: `+
			`{spec: {restartPolicy: Never, containers: [{name: app, image: app}]}}}}}`)
}

func classOf(name, provisioner string) string {
	return object("storage.k8s.io/v1", "StorageClass", name, `provisioner: `+provisioner)
}

func csrOf(name, signer string) string {
	return object("certificates.k8s.io/v1", "CertificateSigningRequest", name, `spec: {request: $CSR, signerName: `+
		signer+`, usages: [client auth]}`)
}

package breaker

var reportedStoreKinds = []kind{
	{"reported: two claims, and one volume", classOf("$NS", "kubernetes.io/no-provisioner") + volumeOf("$NS-$B",
		"storageClassName: $NS, ", "9Gi", "ReadWriteOnce") + claimOf("$A", "storageClassName: $NS, volumeName: "+
		"$NS-$B, ") +
		claimOf("$C", "storageClassName: $NS, volumeName: $NS-$B, "), "pvc/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "storageClassName|volumeName|status.phase|requests",
			numbers: []string{"$NS-$B", "$A"}}}, ""},
	{"reported: claim in powers of two, volume in powers of ten", classOf("$NS", "kubernetes.io/no-provisioner") +
		volumeOf("$NS-$A", "storageClassName: $NS, ", "$NG", "ReadWriteOnce") + object("v1",
		"PersistentVolumeClaim", "$C",
		`spec: {storageClassName: $NS, accessModes: [ReadWriteOnce], resources: {requests: {storage: $NGi}}}`),
		"pvc/$C",
		[]truth{{kinds: "PersistentVolumeClaim PersistentVolume", field: "requests.storage|capacity", value: "$NGi|$NG",
			want: "$NG", numbers: []string{"$NG"}}}, ""},
	{"reported: volume's name as a claim's", volumeOf("$NS-$A", "storageClassName: $NS, ", "9Gi", "ReadWriteOnce") +
		workload("$C", claimVolume("$NS-$A")), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "persistentVolumeClaim.claimName", value: "$NS-$A",
			numbers: []string{"PersistentVolume|pv/$NS-$A|persistentvolume/$NS-$A"}}}, ""},
	{"reported: claim that is being deleted", classOf("$NS", "kubernetes.io/no-provisioner") + volumeOf("$NS-$B",
		"storageClassName: $NS, ", "9Gi", "ReadWriteOnce") + `{apiVersion: v1, kind: PersistentVolumeClaim, ` +
		`metadata: {name: $A, finalizers: [example.com/$P]}, spec: {storageClassName: $NS, volumeName: $NS-$B, ` +
		`accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}}` + "\n---\n" + single("$C",
		`{schedulingGates: [{name: `+
			`example.com/x}], containers: [`+app+`], volumes: [{name: v, persistentVolumeClaim: {claimName: $A}}]}`),
		"pod/$C",
		[]truth{{kinds: "PersistentVolumeClaim Pod", field: "finalizers|deletionTimestamp|claimName",
			value: "example.com/$P|$A", numbers: []string{"$A"}}},
		"persistentvolumeclaim/$A delete\n" + `pod/$C {"spec":{"schedulingGates":null}}`},
	{"reported: volume of a node whose taint is not tolerated", localVolume("$NS-$A", "node-2") + claimOf("$B",
		"storageClassName: $NS, volumeName: $NS-$A, ") + single("$C", claimVolume("$B")), "pod/$C",
		[]truth{{kinds: "Pod PersistentVolume", field: "tolerations|nodeAffinity|claimName",
			numbers: []string{"node-2", "team|team=$TEAM"}, want: "team"}}, ""},
	{"reported: more files than the limit of the node's disk", single("$C", `{containers: [{name: app, image: app, `+
		`resources: {limits: {ephemeral-storage: $N0Mi}}, volumeMounts: [{name: v, mountPath: /x}]}], volumes: `+
		`[{name: v, emptyDir: {sizeLimit: 1Gi}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "sizeLimit|limits.ephemeral-storage", value: "1Gi|$N0Mi",
			numbers: []string{"$N0Mi", "1Gi"}}}, ""},
	{"reported: claim deleted while its Pods run", classOf("$NS", "kubernetes.io/no-provisioner") + volumeOf("$NS-$B",
		"storageClassName: $NS, ", "9Gi", "ReadWriteOnce") + claimOf("$C", "storageClassName: $NS, volumeName: "+
		"$NS-$B, ") +
		workload("$A", claimVolume("$C")), "pvc/$C",
		[]truth{{kinds: "PersistentVolumeClaim Pod Deployment", field: "finalizers|claimName",
			numbers: []string{"$A|deployment/$A"}}}, "deployment/$A {}\npersistentvolumeclaim/$C delete"},
}

var reportedNetKinds = []kind{
	{"reported: Service selects by a label of the Deployment itself", object("apps/v1", "Deployment", "$A",
		`spec: {replicas: 2, selector: {matchLabels: {app: $A}}, template: {metadata: {labels: {app: $A}}, spec: `+
			``+plainApp+
			`}}`) + object("v1", "Service", "$C", `spec: {selector: {tier: $B}, ports: [{port: 80, targetPort: `+
		`8080}]}`),
		"service/$C", []truth{{kinds: "Service", field: "selector", value: "$B", numbers: []string{"$A"}}},
		`deployment/$A {"metadata":{"labels":{"tier":"$B"}}}`},
	{"reported: two Ingresses for one path", workload("$A", plainApp) + workload("$B", plainApp) + serviceOf("$A", "$A",
		"8080") + serviceOf("$B", "$B", "8080") + hostIngress("$P", "$N.example.com", "$A", "") + hostIngress("$C",
		"$N.example.com", "$B", ""), "ingress/$C",
		[]truth{{kinds: "Ingress", field: "rules[0]", value: "$N.example.com|/", numbers: []string{"$P"}}}, ""},
	{"reported: Ingress to a Deployment", workload("$A", plainApp) + ingressOf("$C", "$A", "8080"), "ingress/$C",
		[]truth{{kinds: "Ingress", field: "service.name", value: "$A", want: "expose"}}, ""},
	{"reported: certificate for one label more", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + hostIngress(
		"$C", "$A.$B.example.com", "$A", `tls: [{hosts: ["*.example.com"]}], `), "ingress/$C",
		[]truth{{kinds: "Ingress", field: "tls[0].hosts", value: "*.example.com",
			numbers: []string{"$A.$B.example.com"}, want: "$A.$B.example.com|*.$B.example.com"}}, ""},
	{"reported: certificate that has expired", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + object("v1",
		"Secret", "$B", `type: kubernetes.io/tls, data: {tls.crt: $OLD, tls.key: eA==}`) + hostIngress("$C",
		"somebody.example.com", "$A", `tls: [{hosts: [somebody.example.com], secretName: $B}], `), "ingress/$C",
		[]truth{{kinds: "Secret Ingress", field: "tls.crt|secretName", value: "$B|2001|", numbers: []string{
			"2001|2001-01-02|2001-01-02T00:00:00Z"}}}, ""},
	{"reported: certificate made out for another name", workload("$A", plainApp) + serviceOf("$A", "$A",
		"8080") + object(
		"v1", "Secret", "$B", `type: kubernetes.io/tls, data: {tls.crt: $CRT, tls.key: eA==}`) + hostIngress("$C",
		"$A.example.com", "$A", `tls: [{hosts: [$A.example.com], secretName: $B}], `), "ingress/$C",
		[]truth{{kinds: "Secret Ingress", field: "tls.crt|secretName|hosts", numbers: []string{"somebody.example.com",
			"$A.example.com"}}}, ""},
	{"reported: range of ports that ends one too early", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") +
		policyOf("$C", "$A", `policyTypes: [Ingress], ingress: [{ports: [{port: 8000, endPort: 8079}]}]`),
		"networkpolicy/$C",
		[]truth{{kinds: "NetworkPolicy", field: "ingress[0].ports", value: "8000|8079", numbers: []string{"8080"},
			want: "8080"}}, ""},
	{"reported: name of another cluster's domain", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + workload(
		"$C", withEnv(`{name: URL, value: "http://$A.$NS.svc.cluster.loacl:80/"}`)), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "env[0].value", value: "$A.$NS.svc.cluster.loacl",
			want: "$A.$NS.svc.cluster.local"}}, ""},
	{"reported: Pod of a StatefulSet beyond its replicas", headless("$A") + stateful("$A", "$A", "",
		plainApp) + workload("$C", withEnv(`{name: URL, value: "http://$A-$N.$A:8080/"}`)), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "env[0].value", value: "$A-$N", numbers: []string{"2"}}}, ""},
	{"reported: way out for all but the cluster's networks", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") +
		single("$C", withEnv(`{name: URL, value: "http://$A:80/"}`)) + policyOf("$B", "$C", `policyTypes: [Egress], `+
		`egress: [{ports: [{port: 53, protocol: UDP}, {port: 53}]}, {to: [{ipBlock: {cidr: 0.0.0.0/0, except: `+
		`[10.0.0.0/8, 127.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16]}}]}]`), "pod/$C",
		[]truth{{kinds: "NetworkPolicy", field: "egress", numbers: []string{"$A"}}}, ""},
	{"reported: Service of a name that only another namespace has, by its short name", otherNamespace("v1", "Service",
		"$A", "spec: {selector: {app: $A}, ports: [{port: 80}]}") + workload("$C", withEnv(
		`{name: URL, value: "http://$A.$NS:80/"}`)), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "env[0].value", value: "$A.$NS", want: "$NS-o"}}, ""},
}

var reportedNodeKinds = []kind{
	{"reported: image by its address", single("$C", `{containers: [{name: app, image: `+
		`"https://registry.example.com/$A:$N"}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "containers[0].image", value: "https://registry.example.com/$A:$N",
			want: "registry.example.com/$A:$N"}}, ""},
	{"reported: probe of a host by a name", single("$C", `{containers: [{name: app, image: app, command: [httpd, `+
		`"8080"], `+
		`ports: [{containerPort: 8080}], readinessProbe: {periodSeconds: 1, httpGet: {host: $A.example.com, port: `+
		`8080}}`+
		`}]}`), "pod/$C", []truth{{kinds: "Pod", field: "readinessProbe.httpGet.host", value: "$A.example.com",
		want: "host"}}, ""},
	{"reported: probe of the second container's port", single("$C", `{containers: [{name: app, image: web, ports: `+
		`[{name: http, containerPort: 8080}]}, {name: $A, image: app, ports: [{name: metrics, containerPort: 9090}], `+
		`readinessProbe: {periodSeconds: 1, httpGet: {path: /, port: http}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "containers[1].readinessProbe", value: "http", numbers: []string{"$A"}}}, ""},
	{"reported: startup probe without end and a liveness probe", single("$C", `{containers: [{name: app, image: app, `+
		`ports: [{containerPort: 8080}], startupProbe: {periodSeconds: 1, failureThreshold: $N00, exec: {command: `+
		`["false"]}}, readinessProbe: {periodSeconds: 1, exec: {command: ["true"]}}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "startupProbe", numbers: []string{"$N00"}}}, ""},
	{"reported: image of another registry, whose credentials are for one", dockerSecret("$A",
		"$B.example.com") + single(
		"$C", `{imagePullSecrets: [{name: $a}], containers: [{name: app, image: "$B.example.com/$A:1", `+
			`imagePullPolicy: `+
			`Never}]}`), "pod/$C", []truth{{kinds: "Pod", field: "imagePullSecrets[0].name", value: "$a", want: "$A"},
		{kinds: "Pod", field: "imagePullPolicy|image", value: "Never|$B"}}, ""},
	{"reported: command line as a list of options", single("$C", `{restartPolicy: Never, containers: [{name: app, `+
		`image: app, command: ["--config=/etc/$A.yaml"]}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "containers[0].command", value: "--config=/etc/$A.yaml", want: "args"}}, ""},
	{"reported: file's owner is root, and the user is not", ran("$C", "open /data/$K: permission denied",
		"securityContext: {runAsUser: 100$N}, volumeMounts: [{name: v, mountPath: /data}]",
		"volumes: [{name: v, secret: {secretName: $A, defaultMode: 256}}]") + secret("$A", "$K: x"), "pod/$C",
		[]truth{{kinds: "Pod", field: "defaultMode|runAsUser|fsGroup", numbers: []string{"100$N|0400|256"},
			want: "fsGroup|defaultMode"}}, ""},
}

var reportedWellKinds = []kind{
	{"reported: well: spread that counts what the selector leaves in", object("apps/v1", "Deployment", "$C", `spec: {`+
		`replicas: 3, selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}}, spec: `+
		`{nodeSelector: `+
		`{kubernetes.io/hostname: node-1}, containers: [`+app+`], topologySpreadConstraints: [{maxSkew: 1, `+
		`topologyKey: `+
		`kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: $C}}}]}}}`),
		"deployment/$C", nil, ""},
	{"reported: well: sidecar that serves", workload("$C", `{initContainers: [{name: $A, image: web, restartPolicy: `+
		`Always, ports: [{containerPort: 8080}]}], containers: [{name: app, image: app}]}`), "deployment/$C", nil, ""},
	{"reported: well: Ingresses of one host and two paths", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") +
		hostIngress("$P", "$N.example.com", "$A", "") + object("networking.k8s.io/v1", "Ingress", "$C",
		`spec: {rules: [{`+
			`host: $N.example.com, http: {paths: [{path: /$B, pathType: Prefix, backend: {service: {name: $A, port: `+
			`{number: 80}}}}]}}]}`), "service/$A", nil, ""},
	{"reported: well: certificate of all names", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + hostIngress(
		"$C", "$A.example.com", "$A", `tls: [{hosts: ["*.example.com"]}], `), "service/$A", nil, ""},
	{"reported: well: range of ports that holds the port", workload("$A", plainApp) + serviceOf("$A", "$A", "8080") +
		policyOf("$C", "$A", `policyTypes: [Ingress], ingress: [{ports: [{port: 8000, endPort: 8080}]}]`),
		"networkpolicy/$C",
		nil, ""},
	{"reported: well: Pods of a StatefulSet by name", headless("$A") + object("apps/v1", "StatefulSet",
		"$A", `spec: {serviceName: $A, replicas: 2, selector: {matchLabels: {app: $A}}, template: {metadata: `+
			`{labels: {app: `+
			`$A}}, spec: `+plainApp+`}}`) + workload("$C", withEnv(`{name: URL, value: "http://$A-1.$A:8080/"}`)),
		"deployment/$C", nil, ""},
	{"reported: well: policy that ignores one exit code", object("batch/v1", "Job", "$C", `spec: {backoffLimit: 1, `+
		`podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In, values: [3]}}]}, template: {spec: {`+
		`restartPolicy: Never, containers: [{name: app, image: exit-0}]}}}`), "job/$C", nil, ""},
	{"reported: well: finalizer in a template, and nobody leaves", object("apps/v1", "Deployment", "$C", `spec: {`+
		`selector: {matchLabels: {app: $C}}, template: {metadata: {labels: {app: $C}, finalizers: `+
		`[example.com/$A]}, spec: `+
		plainApp+`}}`), "deployment/$C", nil, ""},
	{"reported: well: one variable of two ConfigMaps' prefixes", configMap("$A", "$K: x") + configMap("$B", "$K: z") +
		workload("$C", `{containers: [{name: app, image: app, envFrom: [{prefix: A_, configMapRef: {name: $A}}, `+
			`{prefix: B_, configMapRef: {name: $B}}]}]}`), "deployment/$C", nil, ""},
	{"reported: well: whole name of a Service", workload("$A", plainApp) + serviceOf("$A", "$A",
		"8080") + workload("$C",
		withEnv(`{name: URL, value: "http://$A.$NS.svc.cluster.local:80/"}, {name: TWO, value: `+
			`"http://$A.$NS.svc:80/"}`)),
		"deployment/$C", nil, ""},
}

// headless is a Service without an address over Pods of its name.
func headless(name string) string {
	return object("v1", "Service", name, `spec: {clusterIP: None, selector: {app: `+name+`}, ports: [{port: 8080}]}`)
}

// localVolume is a volume on one node.
func localVolume(name, node string) string {
	return object("v1", "PersistentVolume", name, `spec: {storageClassName: $NS, capacity: {storage: 9Gi}, `+
		`accessModes: [ReadWriteOnce], hostPath: {path: /tmp}, nodeAffinity: {required: {nodeSelectorTerms: `+
		`[{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [`+node+`]}]}]}}}`)
}

// hostIngress is an Ingress of one host to port 80 of a Service.
func hostIngress(name, host, service, more string) string {
	return object("networking.k8s.io/v1", "Ingress", name, `spec: {`+more+`rules: [{host: "`+host+`", http: {paths: [{`+
		`path: /, pathType: Prefix, backend: {service: {name: `+service+`, port: {number: 80}}}}]}}]}`)
}

// dockerSecret has credentials for a registry.
func dockerSecret(name, host string) string {
	return object("v1", "Secret", name, `type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: `+
		`'{"auths":{"`+host+`":{"username":"u","password":"p"}}}'}`)
}

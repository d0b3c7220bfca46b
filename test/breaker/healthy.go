package breaker

// healthyKinds are things of which nothing is wrong, of many parts.
var healthyKinds = []kind{
	{"well: sidecar and init containers", single("$C", `{initContainers: [{name: one, image: exit-0}, {name: side, `+
		`image: app, restartPolicy: Always, startupProbe: {periodSeconds: 1, exec: {command: ["true"]}}}, {name: `+
		`three, `+
		`image: exit-0}], containers: [`+app+`]}`), "pod/$C", nil, ""},
	{"well: hooks", single("$C", `{containers: [{name: app, image: app, lifecycle: {postStart: {exec: {command: `+
		`["true"]}}, preStop: {sleep: {seconds: 5}}}}]}`), "pod/$C", nil, ""},
	{"well: http probes", single("$C",
		`{containers: [{name: app, image: app, command: [httpd, "8080"], ports: [{name: `+
			`http, containerPort: 8080}], readinessProbe: {periodSeconds: 1, httpGet: {port: http}}, livenessProbe: `+
			`{tcpSocket: {port: 8080}}}]}`), "pod/$C", nil, ""},
	{"well: claim of one Pod", volumeOf("$NS-$A", "storageClassName: $NS, ", "9Gi", "ReadWriteOnce") + claimOf("$A",
		"storageClassName: $NS, ") + mounting("$C", `persistentVolumeClaim: {claimName: $A}`, ""), "pod/$C", nil, ""},
	{"well: projected volume", configMap("$A", "$K: x") + secret("$B", "user: x") + mounting("$C",
		`projected: {sources: `+
			`[{configMap: {name: $A, items: [{key: $K, path: a}]}}, {secret: {name: $B}}, {serviceAccountToken: `+
			`{path: `+
			`t}}, `+
			`{downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}}]}`, ""), "pod/$C", nil, ""},
	{"well: variables of itself", single("$C",
		`{containers: [{name: app, image: app, args: ["--x=$(A)"], env: [{name: `+
			`A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: B, value: "$(A)-$$(C)"}, {name: L, `+
			`valueFrom: `+
			`{resourceFieldRef: {resource: limits.cpu}}}]}]}`), "pod/$C", nil, ""},
	{"well: policy that opens the Service's port", workload("$A", plainApp) + serviceOf("$C", "$A", "8080") + policyOf(
		"$B", "$A", `ingress: [{ports: [{port: http}]}]`), "service/$C", nil, ""},
	{"well: policy with names and all else shut", workload("$A", plainApp) + policyOf("$C", "$A", `policyTypes: `+
		`[Egress], egress: [{ports: [{port: 53, protocol: UDP}, {port: 53}]}]`), "networkpolicy/$C", nil, ""},
	{"well: name outside", object("v1", "Service", "$C", `spec: {type: ExternalName, externalName: $A.example.com}`),
		"service/$C", nil, ""},
	{"well: endpoints by hand", object("v1", "Service", "$C", "spec: {ports: [{name: http, port: 80}]}") + sliceOf("$C",
		"$C", `ports: [{name: http, port: 8080}]`), "service/$C", nil, ""},
	{"well: role with subresources", ruleOf("$C", `apiGroups: [""], resources: [pods, pods/log, pods/exec], verbs: `+
		`[get, list, watch, create]`), "role/$C", nil, ""},
	{"well: role with the names of what is there", configMap("$A", "$K: x") + ruleOf("$C",
		`apiGroups: [""], resources: `+
			`[configmaps], resourceNames: [$A], verbs: [get, update, patch, delete]`), "role/$C", nil, ""},
	{"well: binding to groups", ruleOf("$A", `apiGroups: [""], resources: [pods], verbs: [get]`) + bindRole("$C",
		"Role", "$A", `{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccounts:$NS"}, {kind: `+
			`Group, apiGroup: rbac.authorization.k8s.io, name: "system:authenticated"}`), "rolebinding/$C", nil, ""},
	{"well: policy that allows", policyFor("$NS-$A", "pods", `validations: [{expression: `+
		`"object.spec.containers.size() < 9"}]`) + bindingFor("$NS-$A", "$NS-$A", "") + workload("$C", plainApp),
		"deployment/$C", nil, ""},
	{"well: restarted once, and well since", single("$C", `{containers: [{name: app, image: second-try}]}`), "pod/$C",
		nil, ""},
	{"well: directory that is made", mounting("$C", `hostPath: {path: /tmp/$NS-$A, type: DirectoryOrCreate}`, ""),
		"pod/$C", nil, ""},
	{"well: subPathExpr", mounting("$B", `emptyDir: {}`, "") + single("$C",
		`{containers: [{name: app, image: app, env: `+
			`[{name: $K, value: x}], volumeMounts: [{name: v, mountPath: /x, subPathExpr: "$($K)"}]}], volumes: `+
			`[{name: v, `+
			`emptyDir: {}}]}`), "pod/$C", nil, ""},
	{"well: mode 0400 in decimal", secret("$A", "$K: x") + mounting("$C", `secret: {secretName: $A, defaultMode: 256}`,
		""), "pod/$C", nil, ""},
	{"well: node's network with its own names", single("$C", `{hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet, `+
		`containers: [{name: app, image: app}]}`), "pod/$C", nil, ""},
	{"well: claim that waits for its Pod", object("storage.k8s.io/v1", "StorageClass", "$NS",
		"provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer") + claimOf("$C",
		"storageClassName: $NS, "), "pvc/$C", nil, ""},
	{"well: one container of two has ended", single("$C", `{restartPolicy: OnFailure, containers: [`+app+`, {name: `+
		`once, image: exit-0}]}`), "pod/$C", nil, ""},
	{"well: ending within its grace", single("$C", `{terminationGracePeriodSeconds: 120, containers: [{name: app, `+
		`image: ignores-term}]}`), "pod/$C", nil, "pod/$C delete"},
	{"well: pull secret of its registry", object("v1", "Secret", "$A", `type: kubernetes.io/dockerconfigjson, `+
		`stringData: {.dockerconfigjson: '{"auths":{"$B.example.com":{"auth":"dTpw"}}}'}`) + single("$C",
		`{imagePullSecrets: [{name: $A}], containers: [{name: app, image: "$B.example.com/app:1"}]}`), "pod/$C",
		nil, ""},
	{"well: resize within the node", single("$C", `{containers: [{name: app, image: app, resources: {requests: {cpu: `+
		`100m}}}]}`), "pod/$C", nil,
		`pod/$C/resize {"spec":{"containers":[{"name":"app","image":"app","resources":{"requests":{"cpu":"200m"}}}]}}`},
}

package breaker

// chainKinds are breaks whose root is another object than the one that is asked about, or another
// than the words of a component name: the answer's own sentence has to tell it.
var chainKinds = []kind{
	{"chain: claim whose Pod a finalizer holds", object("v1", "PersistentVolumeClaim", "$A", `spec: {accessModes: `+
		`[ReadWriteOnce], resources: {requests: {storage: $NGi}}}`) + `{apiVersion: v1, kind: Pod, metadata: ` +
		`{name: $C, ` +
		`finalizers: [example.com/$B]}, spec: {nodeName: node-1, terminationGracePeriodSeconds: 0, containers: [` +
		app +
		`], volumes: [{name: d, persistentVolumeClaim: {claimName: $A}}]}}`, "persistentvolumeclaim/$A",
		[]truth{{kinds: "Pod", field: "finalizers", value: "example.com/$B", want: "patch pod $C",
			lead: "example.com/$B"}},
		"persistentvolumeclaim/$A delete\npod/$C delete"},
	{"chain: Deployment that goes and is held", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: $C, ` +
		`finalizers: [example.com/$A]}, spec: {replicas: $N, selector: {matchLabels: {app: $C}}, template: ` +
		`{metadata: {labels: ` +
		`{app: $C}}, spec: {containers: [` + app + `]}}}}`, "deployment/$C",
		[]truth{{kinds: "Deployment", field: "finalizers", value: "example.com/$A", lead: "held by example.com/$A"}},
		"deployment/$C delete"},
	{"chain: Pod's name that somebody else has", single("$C-0", plainApp) + object("v1", "Service", "$C",
		`spec: {clusterIP: None, selector: {set: $C}}`) + object("apps/v1", "StatefulSet", "$C",
		`spec: {replicas: $N, `+
			`serviceName: $C, selector: {matchLabels: {set: $C}}, template: {metadata: {labels: {set: $C}}, spec: `+
			`{containers: [`+app+`]}}}`), "statefulset/$C",
		[]truth{{kinds: "Pod StatefulSet", field: "metadata", numbers: []string{"$C-0"},
			lead: "cannot make its Pod $C-0"}}, ""},
	{"chain: Pods refused for want of a policy's parameters", policyFor("$NS-$C", "pods", `paramKind: `+
		`{apiVersion: v1, `+
		`kind: ConfigMap}, validations: [{expression: "size(object.spec.containers) < 1$N"}]`) + bindingFor("$NS-$C",
		"$NS-$C", `, paramRef: {name: $A, namespace: $NS, parameterNotFoundAction: Deny}`) + workload("$C", plainApp),
		"deployment/$C", []truth{{kinds: "ValidatingAdmissionPolicyBinding", field: "paramRef", value: "$A",
			want: "create the ConfigMap $A", lead: "names ConfigMap $A"}}, `deployment/$C {"spec":{"replicas":1$N}}`},
	{"chain: LimitRange's default below a request", object("v1", "LimitRange", "$A", `spec: {limits: [{type: `+
		`Container, `+
		`default: {memory: $NMi}}]}`) + workload("$C", `{containers: [{name: app, image: app, resources: {requests: `+
		`{memory: 1$NMi}}}]}`), "deployment/$C",
		[]truth{{kinds: "Deployment LimitRange", field: "memory", numbers: []string{"1$NMi", "$NMi"}, want: "limit",
			lead: "LimitRange $A"}}, ""},
	{"chain: autoscaler of another kind's name", workload("$C", plainApp) + object("autoscaling/v2",
		"HorizontalPodAutoscaler", "$A", `spec: {maxReplicas: $N, scaleTargetRef: {apiVersion: apps/v1, kind: `+
			`StatefulSet, `+
			`name: $C}}`), "horizontalpodautoscaler/$A",
		[]truth{{kinds: "HorizontalPodAutoscaler", field: "scaleTargetRef", value: "$C", want: `"kind":"Deployment"`,
			lead: "There is a Deployment of that name"}}, ""},
	{"chain: class that only volumes have", object("v1", "PersistentVolume", "$NS-$A", `spec: {capacity: `+
		`{storage: 1Gi}, `+
		`accessModes: [ReadWriteOnce], storageClassName: $NS-$B, hostPath: {path: /tmp}}`) + object("v1",
		"PersistentVolumeClaim", "$C", `spec: {storageClassName: $NS-$B, accessModes: [ReadWriteOnce], resources: `+
			`{requests: {storage: $NGi}}}`), "persistentvolumeclaim/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "storage", value: "$NGi", numbers: []string{"1Gi"},
			lead: "Volume $NS-$A holds 1Gi"}}, ""},
	{"chain: host port on the one node that is chosen", `{apiVersion: v1, kind: Pod, metadata: {name: $A}, spec: ` +
		`{nodeSelector: {kubernetes.io/hostname: node-1}, containers: [{name: app, image: app, ports: ` +
		`[{containerPort: 80, ` +
		`hostPort: 71$N0}]}]}}` + "\n---\n" + `{apiVersion: v1, kind: Pod, metadata: {name: $C, annotations: ` +
		`{after: $A}}, ` +
		`spec: {nodeSelector: {kubernetes.io/hostname: node-1}, priority: 0, schedulingGates: [{name: ` +
		`example.com/wait}], ` +
		`containers: [{name: app, image: app, ports: [{containerPort: 80, hostPort: 71$N0}]}]}}`, "pod/$C",
		[]truth{{kinds: "Pod", field: "hostPort", value: "71$N0", numbers: []string{"$A"}, want: "delete pod $A",
			lead: "taken by $NS/$A"}}, `pod/$C {"spec":{"schedulingGates":null}}`},
}

package breaker

// everydayKinds are mistakes that people make with Services, policies, volumes, rights, definitions
// and nodes, and things that only look odd.
var everydayKinds = []kind{
	{"everyday: headless Service on another port than its Pods", workload("$A", plainApp) + object("v1", "Service",
		"$C", `spec: {clusterIP: None, selector: {app: $A}, ports: [{port: 80, targetPort: 8080}]}`), "service/$C",
		[]truth{{kinds: "Service", field: "ports[0]|clusterIP", value: "80|None", want: "8080",
			numbers: []string{"80", "8080"}}}, ""},
	{"everyday: traffic from outside that stays on its node", single("$A", `{nodeSelector: {kubernetes.io/hostname: `+
		`node-1}, containers: [`+app+`]}`) + object("v1", "Service", "$C", `spec: {type: NodePort, `+
		`externalTrafficPolicy: Local, selector: {app: $A}, ports: [{port: 80, targetPort: 8080}]}`), "service/$C",
		[]truth{{kinds: "Service", field: "externalTrafficPolicy", value: "Local", want: "Cluster",
			numbers: []string{"1", "3"}}}, ""},
	{"everyday: endpoint by hand that says it is not ready", object("v1", "Service", "$C", `spec: {ports: [{port: `+
		`80}]}`) + `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: $A, labels: ` +
		`{kubernetes.io/service-name: $C}}, addressType: IPv4, endpoints: [{addresses: [10.9.9.$N], conditions: ` +
		"{ready: false}}], ports: [{port: 8080}]}\n---\n", "service/$C",
		[]truth{{kinds: "EndpointSlice", field: "endpoints[0].conditions.ready", value: "false", want: "true",
			numbers: []string{"10.9.9.$N"}}}, ""},
	{"everyday: policy with egress rules that is of type Ingress", workload("$A", plainApp) + policyOf("$C", "$A",
		`policyTypes: [Ingress], ingress: [{}], egress: [{ports: [{port: 53, protocol: UDP}, {port: 543$N}]}]`),
		"networkpolicy/$C", []truth{{kinds: "NetworkPolicy", field: "policyTypes", value: "Ingress",
			want: "Egress"}}, ""},
	{"everyday: names of the cluster with the node's resolver", workload("$A", plainApp) + serviceOf("$A", "$A",
		"8080") + single("$C", `{dnsPolicy: Default, containers: [{name: app, image: app, env: [{name: URL, value: `+
		`"http://$A:80/"}]}]}`), "pod/$C", []truth{{kinds: "Pod", field: "dnsPolicy", value: "Default",
		want: "ClusterFirst", numbers: []string{"$A"}}}, ""},
	{"everyday: two containers on one port", single("$C", `{containers: [{name: $A, image: app, command: [httpd, `+
		`"8080"], ports: [{containerPort: 8080}]}, {name: $B, image: app, terminationMessagePolicy: `+
		`FallbackToLogsOnError, command: [sh, -c, "echo 'listen tcp :8080: bind: address already in use' >&2; exit `+
		`1"], ports: [{containerPort: 8080}]}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "containers[1]", value: "", numbers: []string{"8080", "$A"}}}, ""},
	{"everyday: Ingress of no class", object("networking.k8s.io/v1", "IngressClass", "$NS-$A",
		"spec: {controller: example.com/x}") + workload("$A", plainApp) + serviceOf("$A", "$A", "8080") + ingressOf(
		"$C", "$A", "80"), "ingress/$C", []truth{{kinds: "Ingress", field: "ingressClassName", value: "",
		want: "ingressClassName"}}, ""},
	{"everyday: Ingress with the certificate of another host", workload("$A", plainApp) + serviceOf("$A", "$A",
		"8080") + object("networking.k8s.io/v1", "Ingress", "$C", `spec: {tls: [{hosts: [$b.example.com]}], rules: [{`+
		`host: $B.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: $A, port: {`+
		`number: 80}}}}]}}]}`), "ingress/$C", []truth{{kinds: "Ingress", field: "tls[0].hosts[0]",
		value: "$b.example.com", want: "$B.example.com"}}, ""},
	{"everyday: claim for one Pod, and two replicas", volumeOf("$NS-$A", "storageClassName: $NS, ", "9Gi",
		"ReadWriteOncePod") + object("v1", "PersistentVolumeClaim", "$A", `spec: {storageClassName: $NS, volumeName: `+
		`$NS-$A, accessModes: [ReadWriteOncePod], resources: {requests: {storage: 5Gi}}}`) + workload("$C",
		claimVolume("$A")), "deployment/$C",
		[]truth{{kinds: "PersistentVolumeClaim Deployment Pod", field: "accessModes|replicas|claimName",
			value: "ReadWriteOncePod|2|$A", want: "ReadWriteOnce|replicas=1", numbers: []string{"$A"}}}, ""},
	{"everyday: claim made larger, and nobody resizes", object("storage.k8s.io/v1", "StorageClass", "$NS",
		"provisioner: $A.example.com, allowVolumeExpansion: true") + volumeOf("$NS-$A", "storageClassName: $NS, ",
		"9Gi", "ReadWriteOnce") + claimOf("$C", "storageClassName: $NS, volumeName: $NS-$A, "), "pvc/$C",
		[]truth{{kinds: "PersistentVolumeClaim", field: "requests.storage", value: "2$NGi", numbers: []string{"9Gi"}}},
		`persistentvolumeclaim/$C {"spec":{"resources":{"requests":{"storage":"2$NGi"}}}}`},
	{"everyday: class for a zone that no node is in", object("storage.k8s.io/v1", "StorageClass", "$NS",
		"provisioner: $NS.example.com, volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [{"+
			"matchLabelExpressions: [{key: kubernetes.io/hostname, values: [nod-1]}]}]") + csiDriver("false") + claimOf(
		"$A", "storageClassName: $NS, ") + single("$C", claimVolume("$A")), "pod/$C",
		[]truth{{kinds: "StorageClass", field: "allowedTopologies", value: "nod-1", want: "node-1"}}, ""},
	{"everyday: two sources of one file", configMap("$A", "$K: x") + secret("$B", "$K: z") + mounting("$C",
		`projected: {sources: [{configMap: {name: $A}}, {secret: {name: $B}}]}`, ""), "pod/$C",
		[]truth{{kinds: "Pod", field: "projected.sources", value: "$K|$A|$B", numbers: []string{"$K", "$A", "$B"}}},
		""},
	{"everyday: more files in memory than the limit", single("$C", `{containers: [{name: app, image: app, resources: {`+
		`limits: {memory: $N0Mi}}, volumeMounts: [{name: v, mountPath: /x}]}], volumes: [{name: v, emptyDir: {`+
		`medium: Memory, sizeLimit: 1Gi}}]}`), "pod/$C",
		[]truth{{kinds: "Pod", field: "sizeLimit|limits.memory", value: "1Gi|$N0Mi",
			numbers: []string{"$N0Mi", "1Gi"}}}, ""},
	{"everyday: nodes in a Role", ruleOf("$C", `apiGroups: [""], resources: [nodes], verbs: [get, list]`), "role/$C",
		[]truth{{kinds: "Role", field: "rules[0].resources[0]|kind", value: "nodes", want: "ClusterRole"}}, ""},
	{"everyday: cluster role about volumes, bound in one namespace", object(rbac, "ClusterRole", "$NS-$A", `rules: [{`+
		`apiGroups: [""], resources: [persistentvolumes], verbs: [get, list]}]`) + bindRole("$C", "ClusterRole",
		"$NS-$A", "{kind: ServiceAccount, name: default, namespace: $NS}"), "rolebinding/$C",
		[]truth{{kinds: "RoleBinding ClusterRole", field: "roleRef|kind|rules[0].resources[0]",
			value: "persistentvolumes|RoleBinding|$NS-$A", want: "ClusterRoleBinding|clusterrolebinding"}}, ""},
	{"everyday: level of Pod security refuses the node's network", workload("$C", `{hostNetwork: true, dnsPolicy: `+
		`ClusterFirstWithHostNet, containers: [{name: app, image: app}]}`), "deployment/$C",
		[]truth{{kinds: podOrOwner, field: "hostNetwork", value: "true", want: "hostNetwork",
			numbers: []string{"baseline"}}},
		`namespace/$NS {"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}` + "\n" +
			`deployment/$C {"spec":{"template":{"metadata":{"annotations":{"x":"$N"}}}}}`},
	{"everyday: webhook that asks about its own Pods", object("v1", "Service", "$C", `spec: {selector: {app: $C}, `+
		`ports: [{port: 443, targetPort: 8080}]}`) + hookFor("$NS-$A", `service: {namespace: $NS, name: $C}`, "") +
		workload("$C", plainApp), "deployment/$C",
		[]truth{{kinds: "ValidatingWebhookConfiguration", field: "namespaceSelector|objectSelector|clientConfig",
			value: "", want: "objectSelector|namespaceSelector|Ignore", numbers: []string{"$C"}}}, ""},
	{"everyday: policy reads a field that Pods do not have", policyFor("$NS-$A", "pods", `validations: [{expression: `+
		`"object.spec.replicas > $N"}]`) + bindingFor("$NS-$A", "$NS-$A", "") + workload("$C", plainApp),
		"deployment/$C", []truth{{kinds: "ValidatingAdmissionPolicy", field: "validations[0].expression",
			value: "object.spec.replicas", numbers: []string{"replicas"}}},
		`deployment/$C {"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":0}},"template":{"metadata":` +
			`{"annotations":{"x":"$N"}}}}}`},
	{"everyday: certificate request of a node by another name", object("certificates.k8s.io/v1",
		"CertificateSigningRequest", "$NS-$C", `spec: {request: $CSR, signerName: `+
			`kubernetes.io/kube-apiserver-client-kubelet, usages: [client auth, digital signature]}`), "csr/$NS-$C",
		[]truth{{kinds: "CertificateSigningRequest", field: "request|conditions", value: "",
			numbers: []string{"system:nodes|system:node|system:node:|somebody"}}},
		`csr/$NS-$C/approval {"status":{"conditions":[{"type":"Approved","status":"True","reason":"x"}]}}`},
	{"everyday: definition with a short name that is taken", definition("$A", "shortNames: [$P], ", oneVersion) +
		definition("$B", "", oneVersion), "crd/$Bs.$NS.example.com",
		[]truth{{kinds: "CustomResourceDefinition", field: "names.shortNames", value: "$P",
			numbers: []string{"$As|$As.$NS.example.com"}}},
		`crd/$Bs.$NS.example.com {"spec":{"names":{"shortNames":["$P"]}}}`},
	{"everyday: conversion by a Service with one letter wrong", serviceOf("$B", "$B", "8080") + definition("$A", "",
		twoVersions+`, conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {`+
			`service: {namespace: $NS, name: $b}}}}`), "crd/$As.$NS.example.com",
		[]truth{{kinds: "CustomResourceDefinition", field: "conversion.webhook.clientConfig.service", value: "$b",
			want: "$B"}}, ""},
	{"everyday: finalizer of a namespace", `{apiVersion: v1, kind: Namespace, metadata: {name: $NS-x}, spec: ` +
		`{finalizers: [kubernetes, example.com/$A]}}`, "namespace/$NS-x",
		[]truth{{kinds: "Namespace", field: "spec.finalizers", value: "example.com/$A", want: "finalize"}},
		`namespace/$NS-x delete`},
	{"everyday: cordoned node, asked itself", "", "node/node-3", []truth{{kinds: "Node", field: "spec.unschedulable",
		value: "true", want: "uncordon"}}, ""},
	{"everyday: no attachment left on the node", csiDriver("false") + csiVolume("$NS-$A") + csiVolume("$NS-$B") +
		boundClaim("$A", "$NS-$A") + boundClaim("$B", "$NS-$B") + single("$P", `{nodeName: node-1, containers: [`+app+
		`], volumes: [{name: v, persistentVolumeClaim: {claimName: $A}}]}`) + single("$C", `{schedulingGates: [{name: `+
		`example.com/wait}], nodeSelector: {kubernetes.io/hostname: node-1}, containers: [`+app+
		`], volumes: [{name: v, persistentVolumeClaim: {claimName: $B}}]}`), "pod/$C",
		[]truth{{kinds: "CSINode Pod PersistentVolumeClaim", field: "allocatable.count|claimName", value: "",
			numbers: []string{"1", "$NS.example.com|$P"}}},
		`csinode/node-1 {"spec":{"drivers":[{"name":"$NS.example.com","nodeID":"node-1","topologyKeys":[],` +
			`"allocatable":{"count":1}}]}}` + "\n" + `pod/$C {"spec":{"schedulingGates":null}}`},
	{"everyday: well: tainted node, asked itself", "", "node/node-2", nil, ""},
	{"everyday: well: nobody in by default", workload("$A", plainApp) + object("networking.k8s.io/v1", "NetworkPolicy",
		"$C", `spec: {podSelector: {}, policyTypes: [Ingress]}`), "networkpolicy/$C", nil, ""},
	{"everyday: well: headless Service on its Pods' port", workload("$A", plainApp) + object("v1", "Service", "$C",
		`spec: {clusterIP: None, selector: {app: $A}, ports: [{port: 8080}]}`), "service/$C", nil, ""},
	{"everyday: well: the node's resolver, and names outside", single("$C", `{dnsPolicy: Default, containers: [{name: `+
		`app, image: app, env: [{name: URL, value: "http://$A.example.com:80/"}]}]}`), "pod/$C", nil, ""},
	{"everyday: well: nodes in a cluster role", object(rbac, "ClusterRole", "$NS-$A", `rules: [{apiGroups: [""], `+
		`resources: [nodes, pods], verbs: [get, list]}]`) + object(rbac, "ClusterRoleBinding", "$NS-$C", `roleRef: {`+
		`apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $NS-$A}, subjects: [{kind: ServiceAccount, `+
		`name: default, namespace: $NS}]`), "clusterrolebinding/$NS-$C", nil, ""},
	{"everyday: well: files in memory within the limit", single("$C", `{containers: [{name: app, image: app, `+
		`resources: {limits: {memory: 1$N0Mi}}, volumeMounts: [{name: v, mountPath: /x}]}], volumes: [{name: v, `+
		`emptyDir: {`+
		`medium: Memory, sizeLimit: 1$NMi}}]}`), "pod/$C", nil, ""},
	{"everyday: well: definition of two versions", definition("$A", "shortNames: [$P], ", twoVersions),
		"crd/$As.$NS.example.com", nil, ""},
	{"everyday: well: claim for one Pod, and one Pod", volumeOf("$NS-$A", "storageClassName: $NS, ", "9Gi",
		"ReadWriteOncePod") + object("v1", "PersistentVolumeClaim", "$A", `spec: {storageClassName: $NS, volumeName: `+
		`$NS-$A, accessModes: [ReadWriteOncePod], resources: {requests: {storage: 5Gi}}}`) + single("$C",
		claimVolume("$A")), "pod/$C", nil, ""},
}

// csiDriver is the driver of the namespace's name.
func csiDriver(attach string) string {
	return object("storage.k8s.io/v1", "CSIDriver", "$NS.example.com", "spec: {attachRequired: "+attach+"}")
}

// csiVolume is a volume of that driver.
func csiVolume(name string) string {
	return object("v1", "PersistentVolume", name, `spec: {storageClassName: $NS, capacity: {storage: 9Gi}, `+
		`accessModes: [ReadWriteOnce], csi: {driver: $NS.example.com, volumeHandle: `+name+`}}`)
}

func boundClaim(name, volume string) string {
	return claimOf(name, "storageClassName: $NS, volumeName: "+volume+", ")
}

const (
	oneVersion  = `versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]`
	twoVersions = `versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}, ` +
		`{name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}]`
)

// definition is a CustomResourceDefinition of a kind in the group of the namespace's name.
func definition(name, names, spec string) string {
	return object("apiextensions.k8s.io/v1", "CustomResourceDefinition", name+"s.$NS.example.com", `spec: {group: `+
		`$NS.example.com, scope: Namespaced, names: {`+names+`plural: `+name+`s, singular: `+name+`, kind: `+name+
		`}, `+spec+`}`)
}

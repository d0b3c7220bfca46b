package breaker

import (
	"time"
)

// heldOutRefusals are things that the API server or another component refuses.
var heldOutRefusals = []situation{
	{name: "namespace's Pod security: the node's network", ask: "deployment/$C",
		before:   []step{enforce("<<baseline||privileged>>")},
		manifest: workload("$C", `{hostNetwork: true, containers: [{name: app, image: app}]}`),
		truth: []truth{{kinds: podOrOwner + " Namespace", field: "hostNetwork|pod-security",
			numbers: []string{"baseline|baseline:latest"},
			want:    "hostNetwork|privileged"}}},
	{name: "namespace's Pod security: a capability", ask: "statefulset/$C",
		before: []step{enforce("baseline")},
		manifest: serviceOf("$C", "$C", "8080") + stateful("$C", "$C", "", `{containers: [{name: app, image: `+
			`app, securityContext: `+
			`{capabilities: {add: [<<NET_ADMIN||NET_BIND_SERVICE>>]}}}]}`),
		truth: []truth{{kinds: podOrOwner + " Namespace", field: "capabilities|pod-security",
			numbers: []string{"NET_ADMIN"},
			want:    "capabilities|NET_ADMIN|privileged"}}},
	{name: "webhook whose Service is not there", ask: "deployment/$C",
		before:   []step{create(webhookOf("Fail", "<<pods||configmaps>>")), pause(3 * time.Second)},
		manifest: workload("$C", plainApp),
		truth: []truth{{kinds: "ValidatingWebhookConfiguration", field: "clientConfig|service|webhooks", value: "$A|",
			numbers: []string{"$A"}, want: "failurePolicy|delete validatingwebhookconfiguration|Ignore"}}},
	{name: "admission policy that wants a label", ask: "deployment/$C",
		before: []step{create(admissionPolicyOf(`"<<'owner' in object.metadata.labels||true>>"`, "say who owns this",
			"")), pause(5 * time.Second)},
		manifest: workload("$C", plainApp),
		truth: []truth{{kinds: "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding Deployment ReplicaSet",
			field: "validations|labels|policyName|template|expression", numbers: []string{"$NS"},
			want: "owner|labels|label"}}},
	{name: "admission policy without its parameters", ask: "deployment/$C",
		before: []step{create(configMap("$B", "owner: me") + admissionPolicyOf(`"true"`, "no", "$NS")),
			pause(5 * time.Second)},
		manifest: workload("$C", plainApp),
		truth: []truth{{kinds: "ValidatingAdmissionPolicyBinding ValidatingAdmissionPolicy", field: "paramRef",
			value: "$b",
			want:  "$B"}}},
	{name: "mutating policy that sends Pods to a node that is not there", ask: "pod/$C",
		before: []step{create(`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, ` +
			`metadata: {name: $NS}, spec: ` +
			`{reinvocationPolicy: Never, failurePolicy: Fail, matchConstraints: {namespaceSelector: ` +
			`{matchLabels: {kubernetes.io/metadata.name: $NS}}, resourceRules: ` +
			`[{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, mutations: ` +
			`[{patchType: JSONPatch, ` +
			`jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/spec/nodeSelector', value: {'region': ` +
			`'$A'}}]"}}]}}` + "\n---\n" +
			object("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", "$NS",
				"spec: {policyName: $NS<<||-off>>}")),
			pause(5 * time.Second)},
		manifest: single("$C", plainApp),
		truth: []truth{{kinds: "Pod MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
			field: "nodeSelector|mutations|policyName",
			value: "$A", want: "region|nodeSelector|label"}}},
	{name: "definition whose kind another has", ask: "crd/$As.$NS.example.com", unseen: true,
		manifest: definitionOf("$Bs", "$B", "Thing") + "\n---\n",
		steps:    []step{pause(3 * time.Second), create(definitionOf("$As", "$A", "<<Thing||Other>>"))},
		truth: []truth{{kinds: "CustomResourceDefinition", field: "names", value: "Thing|",
			numbers: []string{"Thing"}, want: "kind|names"}}},
	{name: "certificate request that nobody signs", ask: "csr/$NS-$C", unseen: true,
		manifest: csrOf("$NS-$C", "example.com/$A"),
		steps:    []step{approve("$NS-$C")},
		truth: []truth{{kinds: "CertificateSigningRequest", field: "signerName", value: "example.com/$A",
			want: "signer"}}},
	{name: "aggregated API whose Service is not there, and a namespace that ends", ask: "namespace/$NS-x",
		nodes: []string{"node-1"},
		manifest: `{apiVersion: v1, kind: Namespace, metadata: {name: "$NS-x"}}` + "\n---\n<<" + `{apiVersion: ` +
			`apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.$A.example.com}, spec: {group: ` +
			`$A.example.com, version: v1, ` +
			`groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: ` +
			`$NS, name: $B}}}||` +
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}>>\n---\n",
		steps: []step{pause(5 * time.Second), change("namespace/$NS-x delete"), pause(8 * time.Second)},
		truth: []truth{{kinds: "APIService", field: "service|conditions", value: "$B|",
			numbers: []string{"$B"}, want: "apiservice"}}},
	{name: "claim that a LimitRange refuses to a StatefulSet", ask: "statefulset/$C",
		manifest: object("v1", "LimitRange", "$A", `spec: {limits: [{type: PersistentVolumeClaim, max: `+
			`{storage: 1Gi}}]}`) +
			classOf("$NS", "kubernetes.io/no-provisioner") + volumeOf("$NS-v", `storageClassName: $NS, `,
			"9Gi", "ReadWriteOnce") +
			object("v1", "Service", "$C", `spec: {clusterIP: None, selector: {app: $C}, ports: [{port: `+
				`80}]}`) + object("apps/v1",
			"StatefulSet", "$C", `spec: {serviceName: $C, replicas: 1, selector: {matchLabels: {app: $C}}, `+
				`template: {metadata: {labels: `+
				`{app: $C}}, spec: `+plainApp+`}, volumeClaimTemplates: [{metadata: {name: v}, spec: `+
				`{storageClassName: $NS, `+
				`accessModes: [ReadWriteOnce], resources: {requests: {storage: <<$NGi||1Gi>>}}}}]}`),
		truth: []truth{{kinds: "StatefulSet LimitRange PersistentVolumeClaim", field: "storage|volumeClaimTemplates",
			numbers: []string{"$NGi", "1Gi"}, want: "1Gi|limitrange"}}},
}

// enforce sets the Pod security standard of the namespace.
func enforce(level string) step {
	return change(`namespace/$NS {"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"` + level + `"}}}`)
}

// webhookOf asks a Service that is not there about one resource of the namespace.
func webhookOf(policy, resource string) string {
	return object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "$NS", `webhooks: `+
		`[{name: $A.example.com, `+
		`failurePolicy: `+policy+`, sideEffects: None, admissionReviewVersions: [v1], timeoutSeconds: 2, `+
		`namespaceSelector: {matchLabels: `+
		`{kubernetes.io/metadata.name: $NS}}, clientConfig: {service: {namespace: $NS, name: $A, path: /}}, `+
		`rules: [{apiGroups: [""], `+
		`apiVersions: [v1], operations: [CREATE], resources: [`+resource+`]}]}]`)
}

// admissionPolicyOf is a policy about the namespace's Pods with its binding; params names the
// policy's parameters' namespace, empty: it has none.
func admissionPolicyOf(expression, message, params string) string {
	kind, ref := "", ""
	if params != "" {
		kind = "paramKind: {apiVersion: v1, kind: ConfigMap}, "
		ref = ", paramRef: {name: <<$b||$B>>, namespace: " + params + ", parameterNotFoundAction: Deny}"
	}
	return object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "$NS", `spec: {failurePolicy: `+
		`Fail, `+kind+
		`matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NS}}, `+
		`resourceRules: [{apiGroups: [""], `+
		`apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: `+
		expression+`, message: "`+message+`"}]}`) +
		object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "$NS", `spec: `+
			`{policyName: $NS, `+
			`validationActions: [Deny]`+ref+`}`)
}

func definitionOf(plural, singular, kind string) string {
	return object("apiextensions.k8s.io/v1", "CustomResourceDefinition", plural+".$NS.example.com", `spec: `+
		`{group: $NS.example.com, `+
		`scope: Namespaced, names: {plural: `+plural+`, singular: `+singular+`, kind: `+kind+`}, versions: `+
		`[{name: v1, served: true, `+
		`storage: true, schema: {openAPIV3Schema: {type: object}}}]}`)
}

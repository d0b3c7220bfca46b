package finding

import (
	"strings"
	"testing"
)

// What an object names or selects beside its main parts is told of with the field, and alike things
// that are well are not.
func TestFurtherReferencesAndSelectors(t *testing.T) {
	const nodes = "\n---\n{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {kubernetes.io/hostname: n1, " +
		"zone: a}}}"
	const spaces = "\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: red}}}"
	pod := func(spec string) string { return webPod + "spec: {containers: [{name: a}], " + spec + "}" }
	term := func(kind, term string) string {
		return pod("affinity: {" + kind + ": {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: " +
			"kubernetes.io/hostname, " + term + "}]}}")
	}
	wish := func(expression string) string {
		return pod("affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, " +
			"preference: {matchExpressions: [" + expression + "]}}]}}")
	}
	binding := func(param string) string {
		return `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: ` +
			`{name: b}, spec: {policyName: p, paramRef: {name: limits, namespace: shop}}}` + "\n---\n" +
			`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, ` +
			`spec: {paramKind: ` + param + `}}`
	}
	webhook := func(value string) string {
		return pod("") + "\n---\n{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, " +
			"metadata: {name: w}, webhooks: [{name: w, objectSelector: {matchLabels: {app: " + value + "}}}]}"
	}
	egress := func(port string) string {
		return webPod + "spec: {containers: [{name: a, ports: [{name: http, containerPort: 80}]}]}\n---\n" +
			"{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: shop}, spec: " +
			"{podSelector: {}, egress: [{ports: [{port: " + port + "}]}]}}"
	}
	const required = "requiredDuringSchedulingIgnoredDuringExecution[0]"
	const preferred = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference." +
		"matchExpressions[0]"
	for _, c := range []struct{ cluster, of, want, words string }{
		{"read: Secret\n" + pod("volumes: [{name: v, iscsi: {targetPortal: x, iqn: z, lun: 0, secretRef: "+
			"{name: chap}}}]"), "Pod shop web", "ReferenceMissing spec.volumes[0].iscsi.secretRef.name chap -", ""},
		{"read: ClusterTrustBundle\n" + pod("volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {name: "+
			"roots, path: x}}]}}]"), "Pod shop web",
			"ReferenceMissing spec.volumes[0].projected.sources[0].clusterTrustBundle.name roots -", ""},
		{"read: ClusterTrustBundle\n" + pod("volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {name: "+
			"roots, path: x, optional: true}}]}}]"), "Pod shop web", "no ReferenceMissing", ""},
		{pod("volumes: [{name: v, projected: {sources: [{downwardAPI: {items: [{path: x, resourceFieldRef: " +
			"{containerName: b, resource: limits.cpu}}]}}]}}]"), "Pod shop web", "PartMissing spec.volumes[0]." +
			"projected.sources[0].downwardAPI.items[0].resourceFieldRef.containerName b a", ""},
		{term("podAffinity", "labelSelector: {matchLabels: {app: web}}, namespaces: [shpo]") + nodes + spaces,
			"Pod shop web", "ReferenceMissing spec.affinity.podAffinity." + required + ".namespaces[0] shpo shop", ""},
		{"read: Pod\n" + term("podAffinity", "labelSelector: {matchLabels: {app: web}}, namespaceSelector: "+
			"{matchLabels: {team: rde}}") + nodes + spaces, "Pod shop web",
			"SelectsNothing spec.affinity.podAffinity." + required + ".namespaceSelector team=rde team=red",
			"no node fits"},
		{term("podAntiAffinity", "labelSelector: {matchLabels: {app: wbe}}") + nodes, "Pod shop web",
			"SelectsNothing spec.affinity.podAntiAffinity." + required + ".labelSelector app=wbe app=web",
			"the term has no effect"},
		{term("podAntiAffinity", "labelSelector: {matchLabels: {app: web}}") + nodes, "Pod shop web",
			"no SelectsNothing", ""},
		{term("podAntiAffinity", "matchLabelKeys: [ap], labelSelector: {matchLabels: {app: web}}") + nodes,
			"Pod shop web", "PartMissing spec.affinity.podAntiAffinity." + required + ".matchLabelKeys[0] ap app", ""},
		{term("podAntiAffinity", "matchLabelKeys: [pod-template-hash], labelSelector: {matchLabels: {app: web}}") +
			nodes, "Pod shop web", "no PartMissing", ""},
		{wish("{key: zoen, operator: In, values: [a]}") + nodes, "Pod shop web",
			"NodeLabelMissing " + preferred + " zoen_In_a zone", "prefers"},
		{wish("{key: zone, operator: In, values: [a]}") + nodes, "Pod shop web", "no NodeLabelMissing", ""},
		{pod("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "+
			"[{matchFields: [{key: metadata.name, operator: In, values: [n2]}]}]}}}") + nodes, "Pod shop web",
			"ReferenceMissing spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution." +
				"nodeSelectorTerms[0].matchFields[0] n2 n1", "no such node"},
		{"read: ConfigMap\n" + binding("{apiVersion: v1, kind: ConfigMap}"),
			"ValidatingAdmissionPolicyBinding - b", "ReferenceMissing spec.paramRef.name limits -", ""},
		{"read: ConfigMap\n" + binding("{apiVersion: example.com/v1, kind: Limits}"),
			"ValidatingAdmissionPolicyBinding - b", "no ReferenceMissing", ""},
		{webhook("wbe"), "MutatingWebhookConfiguration - w",
			"SelectsNothing webhooks[0].objectSelector app=wbe app=web", ""},
		{webhook("orders"), "MutatingWebhookConfiguration - w", "no SelectsNothing", ""},
		{egress("htpt"), "NetworkPolicy shop p", "PolicyPortMissing spec.egress[0].ports[0].port htpt http", ""},
		{egress("dns"), "NetworkPolicy shop p", "no PolicyPortMissing", ""},
		{"{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g, namespace: shop}, spec: " +
			"{schedulingConstraints: {topology: [{key: zoen}]}}}" + nodes, "PodGroup shop g",
			"TopologyKeyMissing spec.schedulingConstraints.topology[0].key zoen zone", ""},
		{"read: Secret\n{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: s}, provisioner: x, " +
			"parameters: {csi.storage.k8s.io/provisioner-secret-name: key, " +
			"csi.storage.k8s.io/provisioner-secret-namespace: shop}}", "StorageClass - s",
			"ReferenceMissing parameters[csi.storage.k8s.io/provisioner-secret-name] key -", ""},
		{"read: Secret\n{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: s}, provisioner: x, " +
			"parameters: {csi.storage.k8s.io/node-stage-secret-name: '${pvc.name}', " +
			"csi.storage.k8s.io/node-stage-secret-namespace: shop}}", "StorageClass - s", "no ReferenceMissing", ""},
	} {
		wantFinding(t, clusterOf(t, c.cluster), c.of, c.want, c.words)
	}
}

// What was not read and is named is asked for, also by what stands behind.
func TestUnreadKindsAreThoseThatAreNamed(t *testing.T) {
	c := clusterOf(t, "read: Secret\n"+webPod+"spec: {containers: [{name: a}], runtimeClassName: r, "+
		"volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}\n---\n"+
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: "+
		"{name: data, namespace: shop}, spec: {volumeAttributesClassName: gold}}")
	got := strings.Join(c.UnreadKinds(Object{"Pod", "shop", "web"}), " ")
	if want := "RuntimeClass VolumeAttributesClass"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

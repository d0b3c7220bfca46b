package apiserver

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// some is one small object of each of many kinds.
const some = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: b}}
{apiVersion: v1, kind: Secret, metadata: {name: x}, stringData: {a: b}}
{apiVersion: v1, kind: ServiceAccount, metadata: {name: x}}
{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {selector: {a: b}, ports: [{port: 80}]}}
{apiVersion: v1, kind: Endpoints, metadata: {name: x}, subsets: [{addresses: [{ip: 10.1.2.3}], ports: [{port: 80}]}]}
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: x}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
{apiVersion: v1, kind: ReplicationController, metadata: {name: x}, spec: {selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
{apiVersion: v1, kind: PodTemplate, metadata: {name: x}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
{apiVersion: v1, kind: LimitRange, metadata: {name: x}, spec: {limits: [{type: Pod, max: {cpu: "1"}}]}}
{apiVersion: v1, kind: ResourceQuota, metadata: {name: x}, spec: {hard: {pods: "3"}}}
{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: c, image: i}]}}
{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: x}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: x}, spec: {serviceName: x, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: x}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: x}, revision: 1, data: {a: b}}
{apiVersion: batch/v1, kind: Job, metadata: {name: x}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
{apiVersion: batch/v1, kind: CronJob, metadata: {name: x}, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: x}, spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}}
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: x}, addressType: IPv4, endpoints: [{addresses: [10.1.2.3]}], ports: [{port: 80}]}
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: x}, spec: {holderIdentity: me}}
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: x}, spec: {podSelector: {}}}
{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: x}, spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}}
{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: x-old}, spec: {scaleTargetRef: {kind: Deployment, name: x, apiVersion: apps/v1}, maxReplicas: 3}}
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: x}, spec: {scaleTargetRef: {kind: Deployment, name: x, apiVersion: apps/v1}, maxReplicas: 3}}
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}, rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: x}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: x}, subjects: [{kind: User, name: u}]}
{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: x}, regarding: {kind: Pod, name: x, namespace: NS}, reason: R, note: hello, type: Normal, eventTime: "2026-01-01T00:00:00.000000Z", reportingController: a/b, reportingInstance: i, action: A}
{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: x}, storageClassName: c, capacity: 1Gi}
{apiVersion: v1, kind: Node, metadata: {name: x-kinds}}
{apiVersion: v1, kind: PersistentVolume, metadata: {name: x-kinds}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /x}}}
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: x-kinds}, value: 7}
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: x-kinds}, handler: runc}
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: x-kinds}, provisioner: a.b/c}
{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: x-kinds}, spec: {}}
{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: x-kinds}, spec: {drivers: []}}
{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: x-kinds}, spec: {attacher: a.b, nodeName: n1, source: {persistentVolumeName: v}}}
{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: x-kinds}, spec: {controller: a.b/c}}
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: x-kinds}, rules: [{verbs: [get], apiGroups: [""], resources: [pods]}]}
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: x-kinds}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: x}}
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: x}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}}
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: x}, spec: {spec: {devices: {requests: [{name: r, firstAvailable: [{name: s, deviceClassName: c}]}]}}}}
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: x-kinds}, spec: {selectors: [{cel: {expression: "device.driver == 'a.b'"}}]}}
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: x-kinds}, spec: {driver: a.b, nodeName: node, pool: {name: node, generation: 1, resourceSliceCount: 1}, devices: [{name: d, attributes: {a: {string: s}}}]}}
{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {name: x-kinds}, spec: {deviceSelector: {driver: a.b}, taint: {key: a, effect: NoSchedule}}}
{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {name: x-kinds}, spec: {priorityLevelConfiguration: {name: p}, rules: [{subjects: [{kind: User, user: {name: u}}], nonResourceRules: [{verbs: [get], nonResourceURLs: [/x]}]}]}}
{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: PriorityLevelConfiguration, metadata: {name: x-kinds}, spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {}}}}}
{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: x-kinds}, spec: {cidrs: [10.9.0.0/16]}}
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: x-kinds}}
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: x-kinds}}
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: x-kinds}, spec: {policyName: none, validationActions: [Audit]}}
{apiVersion: v1, kind: Namespace, metadata: {name: x-kinds}}
{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: x-kinds}, driverName: a.b, parameters: {a: b}}
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: x-kinds}, spec: {reinvocationPolicy: IfNeeded, failurePolicy: Ignore, matchConstraints: {resourceRules: [{apiGroups: [none], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]}, variables: [{name: a, expression: "'b'"}], mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/a', value: variables.a}]"}}, {patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}]}}
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: x-kinds}, spec: {policyName: none}}
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.x-kinds.io}, spec: {group: x-kinds.io, scope: Namespaced, names: {plural: things, singular: thing, kind: Thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-validations: [{rule: "self.a > 1"}], properties: {a: {type: integer, default: 3}}}}}}, subresources: {status: {}}, additionalPrinterColumns: [{name: A, type: integer, jsonPath: .spec.a}]}]}}
{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.nothing.x-kinds.io}, spec: {group: nothing.x-kinds.io, version: v1, groupPriorityMinimum: 10, versionPriority: 10}}
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: x-kinds}, spec: {matchConstraints: {resourceRules: [{apiGroups: [none], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]}, variables: [{name: a, expression: "1"}], validations: [{expression: "variables.a == 1", messageExpression: "'x'"}], auditAnnotations: [{key: a, valueExpression: "'b'"}], matchConditions: [{name: a, expression: "true"}]}}
{apiVersion: storagemigration.k8s.io/v1, kind: StorageVersionMigration, metadata: {name: x-kinds}, spec: {resource: {group: apps, resource: deployments}}}
{apiVersion: certificates.k8s.io/v1, kind: PodCertificateRequest, metadata: {name: x}, spec: {signerName: a.b/c, podName: p, podUID: '1', serviceAccountName: default, serviceAccountUID: '2', nodeName: n1, nodeUID: '3', stubPKCS10Request: MH8wMwIBADAAMCowBQYDK2VwAyEA5wnpSD4RXiKOdWzNrtOZD6jHRWD0kb7XGPkzpWfjnbagADAFBgMrZXADQQCJdioA6Z2fZZ3aZzjeyuqAd5Vhgc68BmyWd/kg43Oj6g6mnl3OlaNVEIjmyoMeSTzEuuUbyQEaXH1pK3ZBbIQO}}
{apiVersion: certificates.k8s.io/v1, kind: ClusterTrustBundle, metadata: {name: x-kinds}, spec: {trustBundle: "-----BEGIN CERTIFICATE-----\nMIIBbzCCARWgAwIBAgIUc82g4t8f7ZiQ3GRfLOcTy5yTjb4wCgYIKoZIzj0EAwIw\nDDEKMAgGA1UEAwwBeDAgFw0yNjExMjEyMDA0MDBaGA8yMTI2MTAyODIwMDQwMFow\nDDEKMAgGA1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABMx+tWT46fm0\nhG90sbOObrbt2w0yyiSpwzHMIs9ScfIVSJmrIVVIKKasNNwuOk1MFgF8MD57VPoi\nP+7O8f+jox6jUzBRMB0GA1UdDgQWBBSscD+hqRWdn8FAhiZ/J/FHyMwzHDAfBgNV\nHSMEGDAWgBSscD+hqRWdn8FAhiZ/J/FHyMwzHDAPBgNVHRMBAf8EBTADAQH/MAoG\nCCqGSM49BAMCA0gAMEUCIFPvKn0DlSwI4QmG3RS7j7YsH9obqhxOeKgT7d4lEIYI\nAiEAuEyNa38pBgFDfnSR6EEt8LqZ58GncpEI9vNZqhuFYhA=\n-----END CERTIFICATE-----\n"}}
{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: x-kinds}, spec: {signerName: a.b/c, request: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISE1HNENBUUF3RERFS01BZ0dBMVVFQXd3QmVEQlpNQk1HQnlxR1NNNDlBZ0VHQ0NxR1NNNDlBd0VIQTBJQQpCTzFOakt1RE1mcml0TFdnR09LaC9Ba3lnMWd0QVVldHhDNkVZZEdmdVJNa281amlhQi8rS2YxSkNBUE55aEhpCnlwanZWZmd4NmJBL1hFK1RSK0R4bG5PZ0FEQUtCZ2dxaGtqT1BRUURBZ05KQURCR0FpRUFzV1dMTFBuZC9vK0MKVWEzc2lkbE11QkUwVkNNVVFuck1QV3h6RGU0WUpXa0NJUUNBaEl3NTY0S0lqb2hyUVVEWUt0cnV2YVRNTkFuTwo1T0xzYU1raVp0TTlrUT09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=, usages: ["client auth"]}}
`

// resources maps kinds to where they are served, as discovery tells.
func resources(t *testing.T, c kubernetes.Interface) map[schema.GroupVersionKind]metav1.APIResource {
	t.Helper()
	_, lists, err := c.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	out := map[schema.GroupVersionKind]metav1.APIResource{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range l.APIResources {
			if !strings.Contains(r.Name, "/") {
				r.Group, r.Version = gv.Group, gv.Version
				out[gv.WithKind(r.Kind)] = r
			}
		}
	}
	return out
}

// Every kind can be created, read, listed, patched and deleted.
func TestKinds(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	known := resources(t, c)
	dyn := dynamic.NewForConfigOrDie(s.InProcess(admin()))
	for _, line := range strings.Split(strings.TrimSpace(some), "\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(line, "NS", ns)), &obj.Object); err != nil {
			t.Fatal(line, err)
		}
		r, ok := known[obj.GroupVersionKind()]
		if !ok {
			t.Errorf("%s is not served", obj.GroupVersionKind())
			continue
		}
		var client dynamic.ResourceInterface = dyn.Resource(schema.GroupVersionResource{Group: r.Group,
			Version: r.Version, Resource: r.Name})
		if r.Namespaced {
			client = dyn.Resource(schema.GroupVersionResource{Group: r.Group, Version: r.Version,
				Resource: r.Name}).Namespace(ns)
		}
		t.Run(obj.GetKind(), func(t *testing.T) { life(t, client, obj) })
	}
}

func life(t *testing.T, client dynamic.ResourceInterface, obj *unstructured.Unstructured) {
	made := mustCreate[*unstructured.Unstructured](t)(client.Create(t.Context(), obj, metav1.CreateOptions{}))
	if made.GetUID() == "" || made.GetResourceVersion() == "" || made.GetCreationTimestamp().Time.IsZero() ||
		made.GroupVersionKind() != obj.GroupVersionKind() {
		t.Errorf("created without identity: %v", made.Object["metadata"])
	}
	got := mustCreate[*unstructured.Unstructured](t)(client.Get(t.Context(), obj.GetName(), metav1.GetOptions{}))
	if got.GetUID() != made.GetUID() {
		t.Errorf("uid changed from %s to %s", made.GetUID(), got.GetUID())
	}
	list := mustCreate[*unstructured.UnstructuredList](t)(client.List(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=" + obj.GetName()}))
	if len(list.Items) != 1 {
		t.Errorf("listed %d times", len(list.Items))
	}
	patched := mustCreate[*unstructured.Unstructured](t)(client.Patch(t.Context(), obj.GetName(), types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"p":"q"}}}`), metav1.PatchOptions{}))
	if patched.GetLabels()["p"] != "q" || patched.GetResourceVersion() == made.GetResourceVersion() {
		t.Errorf("patch: labels %v, revision %s after %s", patched.GetLabels(), patched.GetResourceVersion(),
			made.GetResourceVersion())
	}
	if g := made.GetGeneration(); patched.GetGeneration() != g {
		t.Errorf("a label moved the generation from %d to %d", g, patched.GetGeneration())
	}
	if err := client.Delete(t.Context(), obj.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// row: API-46
func TestDiscoveryListsSubresources(t *testing.T) {
	_, c := shared(t)
	_, lists, err := c.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, l := range lists {
		for _, r := range l.APIResources {
			have[l.GroupVersion+" "+r.Name] = true
		}
	}
	for _, want := range []string{
		"v1 pods/binding", "v1 pods/eviction", "v1 pods/status", "v1 pods/ephemeralcontainers", "v1 pods/log",
		"v1 pods/exec", "v1 pods/attach",
		"v1 pods/portforward", "v1 pods/proxy", "v1 pods/resize", "v1 namespaces/finalize", "v1 namespaces/status",
		"v1 nodes/status", "v1 nodes/proxy",
		"v1 services/status", "v1 services/proxy", "v1 replicationcontrollers/scale",
		"certificates.k8s.io/v1 certificatesigningrequests/status",
		"apps/v1 deployments/scale", "apps/v1 statefulsets/scale", "apps/v1 replicasets/scale",
		"certificates.k8s.io/v1 certificatesigningrequests/approval",
	} {
		if !have[want] {
			t.Errorf("discovery does not list %s", want)
		}
	}
}

// One hub type stands behind events of both groups.
func TestEventsOfBothGroupsAreTheSameObjects(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p",
			Namespace: ns},
		Reason: "R", Message: "hello", Type: "Normal", Count: 3, Source: corev1.EventSource{Component: "me"},
	}
	mustCreate[*corev1.Event](t)(c.CoreV1().Events(ns).Create(t.Context(), e, metav1.CreateOptions{}))
	got, err := c.EventsV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "regarding.name=p"})
	if err != nil || len(got.Items) != 1 || got.Items[0].Note != "hello" || got.Items[0].Regarding.Name != "p" ||
		got.Items[0].DeprecatedCount != 3 {
		t.Errorf("events.k8s.io: %+v, %v", got, err)
	}
}

// row: API-49
func TestEncodings(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	var made []*corev1.Pod
	for i, ct := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, runtime.ContentTypeCBOR} {
		cfg := s.InProcess(admin())
		cfg.ContentType, cfg.AcceptContentTypes = ct, ct
		if ct == runtime.ContentTypeCBOR {
			cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
			raw := mustCreate[[]byte](t)(kubernetes.NewForConfigOrDie(cfg).CoreV1().RESTClient().Get().SetHeader(
				"Accept", ct).
				AbsPath("/api/v1/namespaces", ns, "pods").DoRaw(t.Context()))
			if len(raw) < 3 || raw[0] != 0xd9 || raw[1] != 0xd9 || raw[2] != 0xf7 {
				t.Errorf("no self-described CBOR: % x", raw[:min(len(raw), 8)])
			}
			continue
		}
		p := pod([]string{"json", "protobuf"}[i])
		made = append(made,
			mustCreate[*corev1.Pod](t)(kubernetes.NewForConfigOrDie(cfg).CoreV1().Pods(ns).Create(t.Context(), p,
				metav1.CreateOptions{})))
	}
	if a, b := made[0].Spec.String(), made[1].Spec.String(); a != b {
		t.Errorf("the same Pod in JSON and protobuf differ:\n%s\n%s", a, b)
	}
}

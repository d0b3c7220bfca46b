package apiserver

import (
	_ "embed"
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

// kindsYAML is one small object of each of many kinds, as documents; NS is the test's namespace.
//
//go:embed testdata/kinds.yaml
var kindsYAML string

// someObjects lists the documents of kindsYAML.
func someObjects() []string { return strings.SplitAfter(kindsYAML, "\n---\n") }

// resources maps kinds to where they are served, as discovery lists them.
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
	for _, line := range someObjects() {
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
	want := made.GetGeneration()
	if obj.GetKind() == "EndpointSlice" { // upstream counts its labels: they say what it is a slice of
		want++
	}
	if got := patched.GetGeneration(); got != want {
		t.Errorf("a label moved the generation from %d to %d, want %d", made.GetGeneration(), got, want)
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

package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/simulate/usage"
)

func clientWithout(resource string) *fake.Clientset {
	c := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p", UID: "2"}})
	c.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource(resource), "", nil)
	})
	return c
}

// Who may not list nodes or Pods is told; what else may not be read is left out and named.
func TestForbiddenKindsAreNamed(t *testing.T) {
	for _, resource := range []string{"nodes", "pods"} {
		_, err := FromCluster(t.Context(), clientWithout(resource))
		if err == nil || !strings.Contains(err.Error(), "a copy needs the right to list "+resource) {
			t.Errorf("without %s: %v", resource, err)
		}
	}
	c, err := FromCluster(t.Context(), clientWithout("poddisruptionbudgets"))
	if err != nil || c.Note() != "not read, so not copied: poddisruptionbudgets" || len(c.Objects) != 2 {
		t.Errorf("%v, %q, %d objects, want no error, \"not read, so not copied: poddisruptionbudgets\", 2", err,
			c.Note(), len(c.Objects))
	}
}

// A snapshot is read back as it was, with its time.
func TestSnapshot(t *testing.T) {
	c, err := FromCluster(t.Context(), clientWithout("nothing"))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var b bytes.Buffer
	if err := WriteSnapshot(&b, c, at); err != nil {
		t.Fatal(err)
	}
	again, taken, err := FromFiles(t.Context(), []string{"-"}, &b)
	if err != nil || !taken.Equal(at) || len(again.Objects) != 2 {
		t.Fatalf("%v, %v, %d objects", err, taken, len(again.Objects))
	}
	if p, ok := again.Objects[1].(*corev1.Pod); !ok || p.UID != "2" || p.Namespace != "d" {
		t.Errorf("got %+v", again.Objects[1])
	}
}

// A snapshot has what the metrics API told, and what kubectl gets of that API is read too.
func TestUsageInFiles(t *testing.T) {
	c, err := FromCluster(t.Context(), clientWithout("nothing"))
	if err != nil {
		t.Fatal(err)
	}
	c.Usage = usage.Figures{"d/p": {"a": {CPU: 250, Memory: 3 << 20}, "b": {CPU: 1, Memory: 7}}}
	var b bytes.Buffer
	if err := WriteSnapshot(&b, c, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	again, _, err := FromFiles(t.Context(), []string{"-"}, &b)
	if err != nil || len(again.Objects) != 2 || again.Note() != "" || !reflect.DeepEqual(again.Usage, c.Usage) {
		t.Errorf("%v, %d objects, %q, usage %v, want %v", err, len(again.Objects), again.Note(), again.Usage, c.Usage)
	}
	of := `{"metadata": {"namespace": "d", "name": "p"}, "containers": [{"name": "a", "usage": {"cpu": "250m"}}]}`
	raw := `{"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetricsList", "items": [` + of + `]}` + "\n---\n" +
		`{"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": {"name": "n"}}` + "\n---\n" +
		`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}`
	again, _, err = FromFiles(t.Context(), []string{"-"}, strings.NewReader(raw))
	want := usage.Figures{"d/p": {"a": {CPU: 250}}}
	if err != nil || !reflect.DeepEqual(again.Usage, want) || again.Note() != "" {
		t.Errorf("%v, usage %v, %q, want %v and no note", err, again.Usage, again.Note(), want)
	}
}

// Without a metrics API the kubelets are asked; one that does not answer is left out.
func TestUsageOfKubelets(t *testing.T) {
	summary := `{"node": {"nodeName": "a"}, "pods": [{"podRef": {"name": "p", "namespace": "d"}, "containers": [
		{"name": "c", "cpu": {"usageNanoCores": 250000000}, "memory": {"workingSetBytes": 4096}}, {"name": "new"}]}]}`
	answers := map[string]string{
		"/api/v1/nodes": `{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}},
			{"metadata": {"name": "b"}}]}`,
		"/api/v1/nodes/a/proxy/stats/summary": summary}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if answers[r.URL.Path] == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	defer server.Close()
	c, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Usage(t.Context(), c)
	want := usage.Figures{"d/p": {"c": {CPU: 250, Memory: 4096}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, error %v, want %v", got, err, want)
	}
	delete(answers, "/api/v1/nodes/a/proxy/stats/summary")
	if got, err = Usage(t.Context(), c); err == nil || !strings.Contains(err.Error(), "the metrics API: ") {
		t.Errorf("nobody answers: got %v, error %v, want one that tells of both", got, err)
	}
}

// Kinds that nobody knows are named and left out.
func TestUnknownKinds(t *testing.T) {
	c, _, err := FromFiles(t.Context(), []string{"-"}, strings.NewReader(
		"apiVersion: x.y/v1\nkind: Z\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n"))
	if err != nil || len(c.Objects) != 1 || c.Note() != "not read, so not copied: x.y/v1 Z" {
		t.Errorf("%v, %d objects, %q, want no error, 1, \"not read, so not copied: x.y/v1 Z\"", err, len(c.Objects),
			c.Note())
	}
}

// A long List is read side by side: its objects stay in its order, whatever is of a List within it,
// kinds that nobody knows are named once, and of several faults the first is told.
func TestLongLists(t *testing.T) {
	var items []string
	for i := range 5 * fewItems {
		switch {
		case i%100 == 7:
			items = append(items, `{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}`)
		case i%100 == 50:
			items = append(items, fmt.Sprintf(`{"apiVersion": "v1", "kind": "List", "items": [
				{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n%d"}}]}`, i))
		default:
			items = append(items, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n%d"}}`, i))
		}
	}
	read := func() (Copied, error) {
		c, _, err := FromFiles(t.Context(), []string{"-"}, strings.NewReader(
			`{"apiVersion": "v1", "kind": "List", "items": [`+strings.Join(items, ", ")+"]}"))
		return c, err
	}
	c, err := read()
	if err != nil || len(c.Objects) != len(items)-5 || !slices.Equal(c.Unread, []string{"example.com/v1 Thing"}) {
		t.Fatalf("got %d objects, unread %v, error %v", len(c.Objects), c.Unread, err)
	}
	at := 0
	for i := range items {
		if i%100 == 7 {
			continue
		}
		if got, want := c.Objects[at].(*corev1.Node).Name, fmt.Sprint("n", i); got != want {
			t.Fatalf("object %d: got %s, want %s", at, got, want)
		}
		at++
	}
	items[130], items[460] = `{"kind": 1}`, `{"kind": 2}`
	if _, err := read(); err == nil || !strings.Contains(err.Error(), "items[130]") {
		t.Errorf("got error %v, want that of items[130]", err)
	}
}

// JSON, which is not read as YAML, says the same as the YAML that it is made of.
func TestJSONSaysWhatYAMLSays(t *testing.T) {
	text := `
apiVersion: v1
kind: List
takenAt: "2026-01-02T03:04:05Z"
items:
- {apiVersion: v1, kind: Node, metadata: {name: a, labels: {"y": "ü\u2028<>&", n: "1e3"}},
   status: {capacity: {cpu: 4, memory: 1.5e9, pods: "110"}}}
- {apiVersion: v1, kind: Pod, metadata: {name: p, generation: 9007199254740993, annotations: {a: ""}},
   spec: {priority: -7, activeDeadlineSeconds: null, terminationGracePeriodSeconds: 1000000, containers: [{name: c}]}}
`
	inJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var read [2]Copied
	for i, doc := range []string{text, string(inJSON)} {
		var at time.Time
		if read[i], at, err = FromFiles(t.Context(), []string{"-"}, strings.NewReader(doc)); err != nil || at.IsZero() {
			t.Fatalf("document %d: read at %s, error %v", i, at, err)
		}
	}
	if !reflect.DeepEqual(read[0], read[1]) {
		t.Errorf("of YAML %+v, of JSON %+v", read[0], read[1])
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := FromFiles(ended, []string{"-"}, strings.NewReader(text)); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: got error %v, want it", err)
	}
}

package size

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// metricsServer serves a node, a Pod and, of two measurements of it, one after the other, each
// twice.
func metricsServer(t *testing.T) (kubeconfig string) {
	t.Helper()
	pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop"}, Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi"),
				v1.ResourceCPU: resource.MustParse("1m")},
			Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}}}}}}
	node := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1.NodeStatus{Capacity: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"),
		v1.ResourceEphemeralStorage: resource.MustParse("100Gi")}}}
	small := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "small"}}
	var asked atomic.Int64
	answers := map[string]func() any{
		"/api/v1/nodes/n1": func() any { return &node }, "/api/v1/nodes/small": func() any { return &small },
		"/api/v1/namespaces/shop/pods": func() any { return &v1.PodList{Items: []v1.Pod{pod}} },
		"/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods": func() any {
			n := min(asked.Add(1), 4) / 2 // the second and the third measurement are one
			at := time.Unix(1_700_000_000+15*n, 0).UTC().Format(time.RFC3339)
			return json.RawMessage(fmt.Sprintf(`{"items":[{"metadata":{"name":"web-0","namespace":"shop"},`+
				`"timestamp":%q,`+
				`"containers":[{"name":"app","usage":{"cpu":"%d00m","memory":"%d00Mi"}}]}]}`, at, n+1, n+1))
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := answers[r.URL.Path]
		if answer == nil {
			w.WriteHeader(http.StatusNotFound)
			answer = func() any {
				return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
					Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
					Message: r.URL.Path + " not found"}
			}
		}
		if err := json.NewEncoder(w).Encode(answer()); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\nusers: [{name: "+
		"a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n", server.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Usage comes from the metrics API, each measurement once, and is held against what Pods request.
func TestMetricsAPI(t *testing.T) {
	kubeconfig := metricsServer(t)
	code, out := call(t, "", "--kubeconfig", kubeconfig, "--metrics-api", "-n", "shop", "--for", "300ms", "--every",
		"50ms",
		"-o", "json")
	var a answer
	if err := json.Unmarshal([]byte(out), &a); code != 0 || err != nil || len(a.Containers) != 1 {
		t.Fatalf("got %d %v\n%s\nwant one container", code, err, out)
	}
	c := a.Containers[0]
	if c.Key.String() != "shop/web/app" || c.CPU.Samples != 3 || c.Request.CPU.String() != "300m" ||
		c.Request.Memory.String() != "300Mi" {
		t.Errorf("got %+v, want 3 samples of shop/web/app and requests of 300m and 300Mi", c)
	}
	if all := strings.Join(c.Warnings, "\n"); !strings.Contains(all, "it requests 64Mi now") ||
		!strings.Contains(all, "it requests 1m now") || !strings.Contains(all, "16.00 times its request") {
		t.Errorf("got warnings %q, want ones about what it requests now", all)
	}
	if code, out := call(t, "", "--kubeconfig", kubeconfig, "--metrics-api", "-n", "other", "--for", "0s"); code != 1 ||
		!strings.Contains(out, "the metrics API: ") {
		t.Errorf("without a metrics API: got %d %s, want 1 and its name", code, out)
	}
}

func TestSizeOfANode(t *testing.T) {
	kubeconfig := metricsServer(t)
	_, want := call(t, "", "--cpu", "4", "--memory", "16Gi", "--disk", "100Gi")
	if code, out := call(t, "", "--kubeconfig", kubeconfig, "--node", "n1"); code != 0 || out != want {
		t.Errorf("got %d\n%s\nwant\n%s", code, out, want)
	}
	for name, says := range map[string]string{"small": "node small: status.capacity.cpu: ", "none": "not found"} {
		code, out := call(t, "", "--kubeconfig", kubeconfig, "--node", name)
		if code != 1 || !strings.Contains(out, says) {
			t.Errorf("node %s: got %d %s, want 1 and %q", name, code, out, says)
		}
	}
}

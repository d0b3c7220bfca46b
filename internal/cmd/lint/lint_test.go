package lint

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/cli"
)

const shared = `# two documents, the first with nothing
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: app
        livenessProbe: {httpGet: {path: /health, port: 80}, failureThreshold: 4}
        readinessProbe: {httpGet: {path: /health, port: 80}}
`

func TestLintFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bad, good := write("bad.yaml", shared),
		write("good.json", `{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}`)
	write("notes.txt", "not an object")
	for _, tc := range []struct {
		name  string
		args  []string
		stdin string
		code  int
		says  string
	}{
		{"a warning", []string{"-f", bad}, "", 1,
			"Deployment shop/web\n  warning  shared-endpoint  spec.template.spec.containers[0].livenessProbe  " +
				"(container app)"},
		{"a directory", []string{"-f", dir}, "", 1, "2 objects judged: 0 errors, 1 warning"},
		{"standard input", []string{"-f", "-"}, shared, 1, "stdin: Deployment"},
		{"nothing", []string{"-f", good}, "", 0, "1 object judged: 0 errors, 0 warnings"},
		{"only errors count", []string{"-f", bad, "--fail-on", "error"}, "", 0, "shared-endpoint"},
		{"nothing counts", []string{"-f", bad, "--fail-on", "none"}, "", 0, "shared-endpoint"},
		{"measured", []string{"-f", bad, "--startup-time", "60s"}, "", 1, "needs-startup-probe"},
		{"no such file", []string{"-f", filepath.Join(dir, "none")}, "", 1, "no such file"},
		{"no Pod in it", []string{"-f", "-"}, "kind: Secret", 1, "no Pod and no Pod template"},
		{"no object", []string{"-f", "-"}, "a: b", 1, "document 1: the object has no kind"},
		{"no call", nil, "", 2, "name files with -f"},
		{"both", []string{"-f", bad, "pod/x"}, "", 2, "one call"},
		{"output", []string{"-f", bad, "-o", "xml"}, "", 2, "must be text or json"},
		{"fail-on", []string{"-f", bad, "--fail-on", "all"}, "", 2, "must be error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			io := cli.IO{Out: &out, Err: &out}
			root := cli.Root(io, New(io))
			root.SetIn(strings.NewReader(tc.stdin))
			root.SetArgs(append([]string{"lint"}, tc.args...))
			if code := cli.Report(&out, root.ExecuteContext(t.Context())); code != tc.code ||
				!strings.Contains(out.String(), tc.says) {
				t.Errorf("exit code %d, want %d; printed\n%s\nwant %q", code, tc.code, out.String(), tc.says)
			}
		})
	}
}

func TestLintJSON(t *testing.T) {
	var out bytes.Buffer
	io := cli.IO{Out: &out, Err: &out}
	root := cli.Root(io, New(io))
	root.SetIn(strings.NewReader(shared))
	root.SetArgs([]string{"lint", "-f", "-", "-o", "json", "--fail-on", "none"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []lintResult
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Name != "web" || len(got[0].Findings) != 1 ||
		got[0].Findings[0].Rule != "shared-endpoint" || got[0].Findings[0].Fix == "" {
		t.Errorf("got %+v, want 1 in got, Name web, 1 in Findings, Rule shared-endpoint and Fix other than empty", got)
	}
}

// Pods of one owner are checked once, by the slowest start among them.
func TestLintLivePodsByOwner(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	yes := true
	of := func(name string, took time.Duration) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
		p.OwnerReferences = []metav1.OwnerReference{{UID: "rs", Controller: &yes}}
		p.Spec.Containers = []corev1.Container{{Name: "c", ReadinessProbe: &corev1.Probe{}}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "c", State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)}}}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(began.Add(took))}}
		return p
	}
	alone := of("c", 3*time.Second)
	alone.OwnerReferences = nil
	got := distinctWorkloads([]corev1.Pod{of("a", 8*time.Second), of("b", 20*time.Second), alone})
	if len(got) != 2 || got[0].duplicates != 1 || got[0].Replicas != 2 || got[0].Started["c"] != 20*time.Second ||
		got[1].Started["c"] != 3*time.Second {
		t.Errorf("got %+v, want 2 in got, duplicates 1, Replicas 2, Started[c] %v and Started[c] %v", got,
			20*time.Second, 3*time.Second)
	}
}

package why

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/test/wrappers"
)

// served answers GET by path; of other paths 404.
func served(t *testing.T, objects func(path string) any) (kubeconfig string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		o := objects(r.URL.Path)
		if o == nil {
			w.WriteHeader(http.StatusNotFound)
			o = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
		}
		if err := json.NewEncoder(w).Encode(o); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q}}]\nusers: "+
		"[{name: a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a, namespace: "+
		"mine}}]\ncurrent-context: a\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// asked runs the command.
func asked(t *testing.T, args ...string) (printed, said string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	c := New(cli.IO{Out: &out, Err: &errs})
	c.SetArgs(args)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	c.SetContext(ctx)
	c.SilenceErrors, c.SilenceUsage = true, true
	code = cli.Report(&errs, c.Execute())
	return out.String(), errs.String(), code
}

// aPod is a Pod of namespace mine that the scheduler refused, or that is ready.
func aPod(ready bool) *corev1.Pod {
	p := wrappers.MakePod().Namespace("mine").Name("web").UID("u").Container("app", "app:1").
		CreationTimestamp(metav1.NewTime(time.Now().Add(-time.Hour))).Obj()
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled,
		Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/3 nodes are available: 3 Insufficient cpu."}}}
	if !ready {
		return p
	}
	p.Spec.NodeName = "node-1"
	since := metav1.NewTime(time.Now().Add(-time.Minute))
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: since}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Ready: true, State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: since}}}}}
	return p
}

// aNode is a node that is ready.
func aNode() *corev1.Node {
	n := wrappers.MakeNode().Name("node-1").Obj()
	n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastHeartbeatTime: metav1.Now()}}
	return n
}

// JSON and YAML have the same data: of one object, of the namespace, of the cluster.
func TestJSONAndYAMLSayTheSame(t *testing.T) {
	file := served(t, func(path string) any {
		switch path {
		case "/api/v1/namespaces/mine/pods/web":
			return aPod(false)
		case "/api/v1/namespaces/mine/pods", "/api/v1/pods":
			return &corev1.PodList{Items: []corev1.Pod{*aPod(false)}}
		}
		return nil
	})
	since := func(m map[string]any) map[string]any { // the times of two answers differ
		delete(m, "since")
		return m
	}
	for _, row := range []struct {
		name  string
		args  []string
		parts []string
	}{
		{"a Pod", []string{"pod/web"}, []string{"subject", "state", "cause", "findings"}},
		{"the namespace", nil, []string{"scope", "causes"}},
		{"the cluster", []string{"-A"}, []string{"scope", "causes"}},
	} {
		args := append(row.args, "--kubeconfig", file, "-o")
		inJSON, said, code := asked(t, append(args, "json")...)
		inYAML, _, _ := asked(t, append(args, "yaml")...)
		var a, b map[string]any
		if err := json.Unmarshal([]byte(inJSON), &a); err != nil || code != 0 {
			t.Errorf("%s: got %v, exit code %d, %q and\n%s\nwant JSON and exit code 0", row.name, err, code, said,
				inJSON)
			continue
		}
		if err := yaml.Unmarshal([]byte(inYAML), &b); err != nil {
			t.Errorf("%s: got %v of\n%s\nwant YAML", row.name, err, inYAML)
		}
		for _, part := range row.parts {
			if _, ok := a[part]; !ok {
				t.Errorf("%s: got no %q in\n%s", row.name, part, inJSON)
			}
		}
		if !strings.HasPrefix(inYAML, "---\n") || !reflect.DeepEqual(since(a), since(b)) {
			t.Errorf("%s: got as JSON\n%s\nand as YAML\n%s\nwant the same", row.name, inJSON, inYAML)
		}
	}
	if _, said, code := asked(t, "pod/web", "-o", "toml", "--kubeconfig", file); code != 2 ||
		!strings.Contains(said, "must be text, json or yaml") {
		t.Errorf("of another form: got exit code %d and %q, want 2 and the forms", code, said)
	}
}

// A watch prints an answer, another one when that changes, and ends with exit code 0 when the
// object is well.
func TestAWatchEndsWhenItIsWell(t *testing.T) {
	var reads atomic.Int32
	file := served(t, func(path string) any {
		switch path {
		case "/api/v1/namespaces/mine/pods/web":
			return aPod(reads.Add(1) > 2)
		case "/api/v1/nodes/node-1":
			return aNode()
		}
		return nil
	})
	printed, said, code := asked(t, "pod/web", "--watch", "-o", "json", "--kubeconfig", file)
	var states []string
	for d := json.NewDecoder(strings.NewReader(printed)); ; {
		var a explain.Answer
		if d.Decode(&a) != nil {
			break
		}
		states = append(states, a.State)
	}
	if code != 0 || len(states) < 2 || states[0] != "Pending" || states[len(states)-1] != "Ready" {
		t.Errorf("got exit code %d, %q and the states %v, want 0 and from Pending to Ready, of\n%s", code, said, states,
			printed)
	}
}

// With --since events that are older are left out.
func TestSinceLeavesOlderEventsOut(t *testing.T) {
	p := aPod(true)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	p.Status.ContainerStatuses[0].Ready = false
	p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(time.Now().Add(-2 * time.Hour))
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 3,
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check"}}}}
	for _, row := range []struct {
		age  time.Duration
		args []string
		told bool
	}{{time.Hour, nil, true}, {time.Hour, []string{"--since", "1m"}, false}, {time.Hour, []string{"--since", "2h"},
		true},
		{10 * time.Second, []string{"--since", "1m"}, true}} {
		at := metav1.NewTime(time.Now().Add(-row.age))
		file := served(t, func(path string) any {
			switch path {
			case "/api/v1/namespaces/mine/events":
				return &corev1.EventList{Items: []corev1.Event{{ObjectMeta: metav1.ObjectMeta{Namespace: "mine",
					Name: "e"},
					Type: "Warning", Reason: "Unhealthy", Message: "Readiness probe failed: the store is shut",
					FirstTimestamp: at, LastTimestamp: at, Count: 3, Source: corev1.EventSource{Component: "kubelet"},
					InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "mine", Name: "web", UID: "u",
						FieldPath: "spec.containers{app}"}}}}
			case "/api/v1/namespaces/mine/pods/web":
				return p
			case "/api/v1/nodes/node-1":
				return aNode()
			}
			return nil
		})
		printed, said, code := asked(t, append([]string{"pod/web", "-o", "json", "--kubeconfig", file}, row.args...)...)
		if told := strings.Contains(printed, "the store is shut"); code != 0 || told != row.told {
			t.Errorf("an event %s old, %v: got exit code %d, %q, told: %t in\n%s\nwant %t", row.age, row.args, code,
				said,
				told, printed, row.told)
		}
	}
}

// The names of the data's fields stand on the page, and none that is not there does.
func TestTheFieldsOfTheDataAreOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/user/why-and-trace.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "### The answer as data")
	text, _, _ = strings.Cut(text, "\n## ")
	for _, row := range []struct {
		of   any
		want string
	}{
		{explain.Answer{}, "subject state code cause since facts next fixes findings unread"},
		{explain.Fix{}, "say run config amend proven see"},
		{explain.ManifestChange{}, "object type patch"},
		{explain.Overview{}, "scope causes unread notAsked"},
		{explain.Root{}, "explains said ask"},
		{finding.Finding{}, "code severity object field value want related numbers message remedies"},
		{finding.Object{}, "kind namespace name"},
		{finding.Remedy{}, "say run see"},
	} {
		var got []string
		for f := range reflect.TypeOf(row.of).Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && name != "-" {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%T: got the fields %v, want %s: fields are added, none is renamed", row.of, got, row.want)
		}
		for _, name := range got {
			if !strings.Contains(text, name) {
				t.Errorf("%T: got no %s in docs/user/why-and-trace.md, The answer as data, want it there", row.of, name)
			}
		}
	}
}

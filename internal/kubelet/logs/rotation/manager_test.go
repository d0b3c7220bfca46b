package rotation

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/journal"
)

func TestRotation(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name  string
		max   int
		files []string
		want  rotationSteps
	}{
		{"the first", 5, nil, rotationSteps{rename: "0.log.20260102-150405"}},
		{"the previous one is compressed", 5, []string{"0.log.1"}, rotationSteps{compress: []string{"0.log.1"},
			rename: "0.log.20260102-150405"}},
		{"the oldest goes", 4, []string{"0.log.3", "0.log.1.gz", "0.log.2.gz"},
			rotationSteps{remove: []string{"0.log.1.gz"}, compress: []string{"0.log.3"},
				rename: "0.log.20260102-150405"}},
		{"leftovers go", 5, []string{"0.log.1", "0.log.1.gz", "0.log.2.tmp"},
			rotationSteps{remove: []string{"0.log.1", "0.log.2.tmp"}, rename: "0.log.20260102-150405"}},
		{"two files only", 2, []string{"0.log.1"},
			rotationSteps{remove: []string{"0.log.1"}, rename: "0.log.20260102-150405"}},
	} {
		if d := cmp.Diff(c.want, planRotation("0.log", c.files, Policy{MaxFiles: c.max}, at),
			cmp.AllowUnexported(rotationSteps{})); d != "" {
			t.Errorf("%s: the two differ (-want +got):\n%s", c.name, d)
		}
	}
	if got := unreachable([]string{"0.log", "1.log", "1.log.20260102-150405.gz", "2.log", "3.log", "note"},
		3); !slices.Equal(got, []string{"0.log", "1.log", "1.log.20260102-150405.gz"}) {
		t.Errorf("unreachable: got %v, want %v", got, []string{"0.log", "1.log", "1.log.20260102-150405.gz"})
	}
	if got := linkName(strings.Repeat("p", 250), "ns", "c", "id"); len(got) != 255 {
		t.Errorf("a name of %d bytes fits no file system, want 255", len(got))
	}
}

func TestPolicy(t *testing.T) {
	c := kubeletconfig.KubeletConfiguration{}
	if p, err := PolicyOf(&c); err != nil || p != (Policy{10 << 20, 5, 1, 10 * time.Second}) {
		t.Errorf("got %v, %v, want no error and p %v", p, err, Policy{10 << 20, 5, 1, 10 * time.Second})
	}
	for want, change := range map[string]func(*kubeletconfig.KubeletConfiguration){
		"containerLogMaxSize": func(c *kubeletconfig.KubeletConfiguration) { c.ContainerLogMaxSize = "ten" },
		"containerLogMaxFiles": func(c *kubeletconfig.KubeletConfiguration) {
			c.ContainerLogMaxFiles = ptr.To[int32](1)
		},
		"containerLogMaxWorkers": func(c *kubeletconfig.KubeletConfiguration) {
			c.ContainerLogMaxWorkers = ptr.To[int32](0)
		},
		"containerLogMonitorInterval": func(c *kubeletconfig.KubeletConfiguration) {
			c.ContainerLogMonitorInterval = &metav1.Duration{Duration: time.Second}
		},
	} {
		c := kubeletconfig.KubeletConfiguration{}
		change(&c)
		if _, err := PolicyOf(&c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want an error beginning with %v", want, err, want)
		}
	}
}

// runtime writes a new file when asked to reopen.
type runtime struct {
	path   string
	err    error
	asked  int
	status int
}

func (r *runtime) ReopenContainerLog(context.Context, string) error {
	r.asked++
	if r.err != nil {
		return r.err
	}
	return os.WriteFile(r.path, nil, 0o640)
}

func (r *runtime) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.status++
	return &runtimeapi.ContainerStatusResponse{
		Status: &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_RUNNING, LogPath: r.path}}, nil
}

func newTestManager(t *testing.T, size int64) (*Manager, *runtime, string) {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "pods", "a_web_u1", "app")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "containers"), 0o755); err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "u1"},
		Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
			{Name: "app", ContainerID: "containerd://c9", RestartCount: 2,
				State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
			{Name: "done", ContainerID: "containerd://c8",
				State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}},
		}}}
	r := &runtime{path: filepath.Join(dir, "2.log")}
	k := New(Deps{
		Pods: func() []*v1.Pod { return []*v1.Pod{pod} }, Runtime: r, Dir: filepath.Join(root, "pods"),
		Links:  filepath.Join(root, "containers"),
		Policy: Policy{MaxSize: size, MaxFiles: 3, Workers: 2, MonitorInterval: time.Hour},
	})
	return k, r, dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestRotationCompressesAndRemovesOldLogs(t *testing.T) {
	k, r, dir := newTestManager(t, 10)
	for name, text := range map[string]string{"0.log": "old", "1.log": "previous", "2.log": "more than ten bytes",
		"2.log.20200101-000000": "before"} {
		put(t, filepath.Join(dir, name), text)
	}
	k.RotateAll(t.Context())
	got := names(t, dir)
	if len(got) != 4 || got[0] != "1.log" || got[1] != "2.log" || got[2] != "2.log.20200101-000000.gz" {
		t.Fatalf(`got %v, want 4 in got, got[0] 1.log, got[1] 2.log and got[2] "2.log.20200101-000000.gz"`, got)
	}
	f, err := os.Open(filepath.Join(dir, got[2]))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(z); string(b) != "before" || err != nil {
		t.Errorf("got %q %v, want b before and no error", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, got[3])); string(b) != "more than ten bytes" || err != nil {
		t.Errorf("what was rotated: %q %v", b, err)
	}
	if r.asked != 1 || r.status != 0 {
		t.Errorf("%d reopened, %d asked, want 1, 0", r.asked, r.status)
	}
	k.RotateAll(t.Context())
	if r.asked != 1 {
		t.Errorf("a small log is rotated: got %v, want 1", r.asked)
	}
	if target, err := os.Readlink(filepath.Join(k.d.Links, "web_a_app-c9.log")); err != nil || target != r.path {
		t.Errorf("link: %s %v, want no error, %v", target, err, r.path)
	}
}

func TestRuntimeThatDoesNotReopen(t *testing.T) {
	k, r, dir := newTestManager(t, 1)
	put(t, filepath.Join(dir, "2.log"), "text")
	r.err = errors.New("no")
	k.RotateAll(t.Context())
	if got := names(t, dir); !slices.Equal(got, []string{"2.log"}) {
		t.Errorf("the log lost its name: %v", got)
	}
}

func TestLogThatIsNotThere(t *testing.T) {
	k, r, dir := newTestManager(t, 100)
	k.RotateAll(t.Context())
	if got := names(t, dir); r.status != 1 || r.asked != 1 || !slices.Equal(got, []string{"2.log"}) {
		t.Errorf("got %d %d %v, want status 1, asked 1 and %v", r.status, r.asked, got, []string{"2.log"})
	}
}

func TestLinks(t *testing.T) {
	k, _, dir := newTestManager(t, 100)
	put(t, filepath.Join(dir, "2.log"), "")
	links := map[string]string{"gone": filepath.Join(k.d.Dir, "x_y_z/c/0.log"), "foreign": "/somewhere/else/0.log"}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(k.d.Links, name)); err != nil {
			t.Fatal(err)
		}
	}
	starts := 0
	k.Sink(listener{&starts}).Put(journal.Ref{Namespace: "a", Name: "web", UID: "u1"},
		journal.ContainerStarted{Container: "app", ID: "c9", Restart: 2})
	if starts != 1 {
		t.Errorf("the fact does not go on: got %v, want 1", starts)
	}
	k.track(t.Context(), <-k.starts)
	if got := names(t, k.d.Links); !slices.Equal(got, []string{"foreign", "gone", "web_a_app-c9.log"}) {
		t.Errorf("at the start: got %v, want %v", got, []string{"foreign", "gone", "web_a_app-c9.log"})
	}
	k.RotateAll(t.Context())
	if got := names(t, k.d.Links); !slices.Equal(got, []string{"foreign", "web_a_app-c9.log"}) {
		t.Errorf("after a round: %v", got)
	}
}

type listener struct{ n *int }

func (l listener) Put(journal.Ref, journal.Fact) { *l.n++ }

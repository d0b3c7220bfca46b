package pleg

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

type rig struct {
	fake     *crifake.Fake
	cri      *cri.Client
	w        *PLEG
	mu       sync.Mutex
	notified map[types.UID]int
	end      func()
}

// failingEvents is a runtime whose event stream is scripted.
type failingEvents struct {
	Runtime
	events func(ctx context.Context) error
}

func (d failingEvents) GetContainerEvents(ctx context.Context, _ chan *runtimeapi.ContainerEventResponse,
	_ func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	return d.events(ctx)
}

func begin(t *testing.T) *rig {
	r := &rig{notified: map[types.UID]int{}}
	dir, err := os.MkdirTemp("", "observe")
	if err != nil {
		t.Fatal(err)
	}
	if r.fake, err = crifake.Start(crifake.Options{Dir: dir, InMemory: true,
		Images: []crifake.Image{{Names: []string{"busybox:1"}}}}); err != nil {
		t.Fatal(err)
	}
	if r.cri, err = cri.Dial(t.Context(), cri.Options{Endpoint: "/fake", Dialer: r.fake.Dialer()}); err != nil {
		t.Fatal(err)
	}
	r.w = New(Deps{Runtime: r.cri.Runtime(), Changed: func(uid types.UID) {
		r.mu.Lock()
		r.notified[uid]++
		r.mu.Unlock()
	}})
	r.end = func() { r.cri.Close(); r.fake.Close(); os.RemoveAll(dir) }
	return r
}

func (r *rig) notifications(uid types.UID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.notified[uid]
}

// pod makes a sandbox with one container that runs the script.
func (r *rig) pod(t *testing.T, uid, script string) (sandbox, container string) {
	t.Helper()
	labels := map[string]string{"io.kubernetes.pod.uid": uid, "io.kubernetes.pod.name": "p",
		"io.kubernetes.pod.namespace": "default"}
	cfg := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "default",
		Uid: uid}, Labels: labels, LogDirectory: t.TempDir(), Linux: &runtimeapi.LinuxPodSandboxConfig{}}
	sandbox, err := r.cri.Runtime().RunPodSandbox(t.Context(), cfg, "")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]string{"io.kubernetes.container.name": "c"}
	for k, v := range labels {
		own[k] = v
	}
	container, err = r.cri.Runtime().CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: &runtimeapi.ImageSpec{Image: "busybox:1"},
		Command: []string{"sh", "-c", script}, Labels: own, LogPath: "c.log",
		Annotations: map[string]string{podplan.RestartCountAnnotation: "3", podplan.CrashDelayAnnotation: "40s",
			podplan.HashAnnotation: "abc"}, Linux: &runtimeapi.LinuxContainerConfig{},
	}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cri.Runtime().StartContainer(t.Context(), container); err != nil {
		t.Fatal(err)
	}
	return sandbox, container
}

// row: PLG-01
func TestEventsNotifyAndGetPodStatusReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t)
		defer r.end()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = r.w.Run(ctx) }()
		defer func() { cancel(); <-done }()
		synctest.Wait()
		r.pod(t, "u1", "sleep 5; exit 7")
		synctest.Wait()
		o, err := r.w.GetPodStatus(t.Context(), "u1")
		if err != nil || len(o.Sandboxes) != 1 || !o.Sandboxes[0].Ready || len(o.Sandboxes[0].IPs) == 0 {
			t.Fatalf("got %+v %v, want no error, 1 in Sandboxes, Ready true and some IPs", o, err)
		}
		c := o.Latest("c")
		if c == nil || c.State != podplan.Running || c.Attempt != 3 || c.Annotations.CrashDelay != 40*time.Second ||
			c.Annotations.Hash != "abc" {
			t.Fatalf("got %+v, want State Running, Attempt 3, CrashDelay %v and Hash abc", c, 40*time.Second)
		}
		before := r.notifications("u1")
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if r.notifications("u1") == before {
			t.Error("the end was not notified")
		}
		if o, _ = r.w.GetPodStatus(t.Context(), "u1"); o.Latest("c").State != podplan.Exited ||
			o.Latest("c").Exit.Code != 7 {
			t.Errorf("got %+v, want State Exited and Code 7", o.Latest("c"))
		}
	})
}

// row: PLG-01
func TestRuntimeWithoutEventsIsListedEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t)
		defer r.end()
		r.w.d.Runtime = failingEvents{r.w.d.Runtime,
			func(context.Context) error { return status.Error(codes.Unimplemented, "unknown method") }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = r.w.Run(ctx) }()
		defer func() { cancel(); <-done }()
		synctest.Wait()
		sandbox, _ := r.pod(t, "u1", "sleep 5")
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if r.notifications("u1") != 1 {
			t.Errorf("%d rings", r.notifications("u1"))
		}
		if _, err := r.w.GetPodStatus(t.Context(), "u1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if r.notifications("u1") != 1 {
			t.Errorf("%d rings of a Pod that did not change", r.notifications("u1"))
		}
		time.Sleep(2 * time.Second) // its container has ended
		synctest.Wait()
		if r.notifications("u1") < 2 {
			t.Errorf("%d rings after its container has ended, want another", r.notifications("u1"))
		}
		if o, err := r.w.GetPodStatus(t.Context(), "u1"); err != nil || o.Latest("c").State != podplan.Exited {
			t.Fatalf("got %+v %v, want the container exited", o, err)
		}
		r.pod(t, "u2", "sleep 500")
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if _, err := r.w.GetPodStatus(t.Context(), "u2"); err != nil {
			t.Fatal(err)
		}
		before, other := r.notifications("u1"), r.notifications("u2")
		if err := r.cri.Runtime().StopPodSandbox(t.Context(), sandbox); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if r.notifications("u1") <= before || r.notifications("u2") != other {
			t.Errorf("%d rings of a Pod whose sandbox has ended, after %d, and %d of another, after %d",
				r.notifications("u1"), before, r.notifications("u2"), other)
		}
	})
}

// An event says whether something was made or started, or has changed otherwise, and of which Pod;
// one that tells what the last look saw of this container is dropped, one about another container
// is not.
//
// row: PLG-02
func TestEventsFromTwoRelists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t)
		defer r.end()
		heard := ""
		r.w.d.Started = func(uid types.UID) { heard += "started " + string(uid) }
		r.w.d.Changed = func(uid types.UID) { heard += "changed " + string(uid) }
		sandbox, container := r.pod(t, "u1", "sleep 500")
		if o, err := r.w.GetPodStatus(t.Context(), "u1"); err != nil || o.Latest("c").ID != container {
			t.Fatalf("got %+v %v, want container %s", o, err, container)
		}
		of := func(id string, state runtimeapi.ContainerState) []*runtimeapi.ContainerStatus {
			return []*runtimeapi.ContainerStatus{{Id: id, State: state,
				Labels: map[string]string{"io.kubernetes.pod.uid": "u2"}}}
		}
		running, exited := runtimeapi.ContainerState_CONTAINER_RUNNING, runtimeapi.ContainerState_CONTAINER_EXITED
		status := &runtimeapi.PodSandboxStatus{Id: sandbox, Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u1"}}
		for _, c := range []struct {
			what  string
			event *runtimeapi.ContainerEventResponse
			want  string
		}{
			{"started", &runtimeapi.ContainerEventResponse{PodSandboxStatus: status,
				ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT,
				ContainersStatuses: of("new", running)}, "started u1"},
			{"created", &runtimeapi.ContainerEventResponse{PodSandboxStatus: status,
				ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT,
				ContainersStatuses: of("new", runtimeapi.ContainerState_CONTAINER_CREATED)}, "started u1"},
			{"stopped", &runtimeapi.ContainerEventResponse{PodSandboxStatus: status,
				ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT,
				ContainersStatuses: of(container, exited)}, "changed u1"},
			{"deleted", &runtimeapi.ContainerEventResponse{PodSandboxStatus: status,
				ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT}, "changed u1"},
			{"known", &runtimeapi.ContainerEventResponse{PodSandboxStatus: status,
				ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT,
				ContainersStatuses: of(container, running)}, ""},
			{"of a sandbox that is gone", &runtimeapi.ContainerEventResponse{
				ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT,
				ContainersStatuses: of("old", exited)}, "changed u2"},
			{"of no Pod", &runtimeapi.ContainerEventResponse{
				ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT}, ""},
		} {
			heard = ""
			if r.w.handleEvent(c.event); heard != c.want {
				t.Errorf("%s: heard %q, want %q", c.what, heard, c.want)
			}
		}
	})
}

// unansweredLists is a runtime that answers no list of Pods.
type unansweredLists struct{ Runtime }

func (unansweredLists) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox,
	error) {
	return nil, errors.New("not now")
}

// Only a list that the runtime answered is told of: the kubelet's health depends on that.
//
// row: KAP-02
func TestOnlyAnsweredListsAreReported(t *testing.T) {
	for name, want := range map[string]bool{"answers": true, "does not answer": false} {
		synctest.Test(t, func(t *testing.T) {
			r := begin(t)
			defer r.end()
			told := 0
			r.w.d.Relisted = func(time.Time, time.Duration) { told++ }
			if !want {
				r.w.d.Runtime = unansweredLists{r.w.d.Runtime}
			}
			for range 3 {
				r.w.relist(t.Context(), true)
			}
			if (told == 3) != want || !want && told != 0 {
				t.Errorf("the runtime %s: told of %d of 3 lists, want all or none", name, told)
			}
		})
	}
}

// What vanishes from the runtime as a whole, without an event, is noticed as well.
//
// row: KSL-26
func TestAPodThatVanishesIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t)
		defer r.end()
		r.w.d.Runtime = failingEvents{r.w.d.Runtime, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = r.w.Run(ctx) }()
		defer func() { cancel(); <-done }()
		sandbox, _ := r.pod(t, "u1", "sleep 500")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if _, err := r.w.GetPodStatus(t.Context(), "u1"); err != nil {
			t.Fatal(err)
		}
		before := r.notifications("u1")
		if err := r.cri.Runtime().StopPodSandbox(t.Context(), sandbox); err != nil {
			t.Fatal(err)
		}
		if err := r.cri.Runtime().RemovePodSandbox(t.Context(), sandbox); err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Second)
		synctest.Wait()
		if told := r.notifications("u1") - before; told != 1 {
			t.Errorf("a minute after all of the Pod vanished: told %d times of it, want once", told)
		}
	})
}

// row: PLG-04
// row: KSL-26
func TestAuditCountsWhatEventsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t)
		defer r.end()
		r.w.d.Runtime = failingEvents{r.w.d.Runtime, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = r.w.Run(ctx) }()
		defer func() { cancel(); <-done }()
		synctest.Wait()
		r.pod(t, "u1", "sleep 500")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if r.notifications("u1") != 1 || r.w.MissedEvents() != 1 {
			t.Errorf("%d rings, %d missed", r.notifications("u1"), r.w.MissedEvents())
		}
	})
}

// row: PST-29
func TestTerminationMessage(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "0.log")
	rows := strings.Repeat("2026-01-01T00:00:00.000000000Z stdout F old\n",
		100) + "2026-01-01T00:00:00.000000000Z stderr P par\n2026-01-01T00:00:00.000000000Z stderr F tial\n"
	file := filepath.Join(dir, "message")
	for path, text := range map[string]string{log: rows, file: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &runtimeapi.ContainerStatus{
		ExitCode: 1, LogPath: log, Mounts: []*runtimeapi.Mount{{ContainerPath: "/dev/termination-log", HostPath: file}},
		Annotations: map[string]string{podplan.MessagePathAnnotation: "/dev/termination-log",
			podplan.MessagePolicyAnnotation: "FallbackToLogsOnError"},
	}
	if got := terminationMessage(s); !strings.HasSuffix(got, "old\npartial\n") || strings.Count(got, "old") != 78 {
		t.Errorf(`got %q, want it ending in "old partial" and 78 times old`, got)
	}
	if err := os.WriteFile(file, []byte("bye"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := terminationMessage(s); got != "bye" {
		t.Errorf("got %q, want bye", got)
	}
	s.ExitCode = 0
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	if got := terminationMessage(s); got != "" {
		t.Errorf("a success falls back to logs: got %q, want it empty", got)
	}
}

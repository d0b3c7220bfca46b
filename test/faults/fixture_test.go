package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/test/instance"
	"github.com/gantry-project/gantry/test/wrappers"
)

const (
	stays = 3 // Pods that nobody touches
	steps = 8
)

// fixture is the instance under test and what must hold of it.
type fixture struct {
	t         *testing.T
	i         *instance.Instance
	client    kubernetes.Interface
	cri       *cri.Client
	stay      map[string]string // container ids by Pod
	baseline  []string          // ConfigMaps whose creation was acknowledged
	lines     []string
	startedAt time.Time
}

func (w *fixture) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v\n%s\n--- kubelet\n%s", err, w.transcript(), end(w.i.Output("kubelet"), 4000))
	}
}

func end(s string, n int) string { return s[max(0, len(s)-n):] }

func (w *fixture) logf(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf("%8s  ", time.Since(w.startedAt).Round(time.Millisecond))+fmt.Sprintf(format,
		args...))
}

func (w *fixture) transcript() string { return strings.Join(w.lines, "\n") }

// runtime opens a connection of the test's own to containerd.
func (w *fixture) runtime(ctx context.Context) {
	var err error
	w.must(instance.Poll(ctx, 50*time.Millisecond, func() error {
		w.cri, err = cri.Dial(ctx, cri.Options{Endpoint: "unix://" + filepath.Join(w.state(), "containerd.sock"),
			ConnectTimeout: 20 * time.Second})
		return err
	}))
	w.t.Cleanup(func() { _ = w.cri.Close() })
}

// state is where sockets and pid files of the instance are.
func (w *fixture) state() string { return w.i.Traces()[1] }

// settle makes the Pods that stay.
func (w *fixture) settle(ctx context.Context) {
	for i := range stays {
		name := fmt.Sprintf("stay-%d", i)
		w.must(instance.Poll(ctx, 50*time.Millisecond, func() error { return w.create(name, 0) }))
	}
	for i := range stays {
		p := w.wait(fmt.Sprintf("stay-%d", i),
			func(p *v1.Pod) bool { return p != nil && p.Status.Phase == v1.PodRunning })
		w.stay[p.Name] = p.Status.ContainerStatuses[0].ContainerID
	}
}

// faults are what is killed.
var faults = []struct {
	name string
	do   func(w *fixture, r *rand.Rand)
}{
	{"kubelet", func(w *fixture, _ *rand.Rand) {
		w.kill("kubelet", w.i.PID("kubelet"))
		w.reapProcess("kubelet")
		w.must(w.i.StartKubelet())
	}},
	{"API server", func(w *fixture, _ *rand.Rand) {
		w.kill("server", w.i.PID("server"))
		w.reapProcess("server")
		w.must(w.i.Start())
	}},
	{"containerd", func(w *fixture, _ *rand.Rand) { w.kill("containerd", w.containerd()) }},
	{"a shim", func(w *fixture, r *rand.Rand) { w.killShim(r) }},
	{"kubelet and containerd", func(w *fixture, _ *rand.Rand) {
		w.kill("kubelet", w.i.PID("kubelet"))
		w.kill("containerd", w.containerd())
		w.reapProcess("kubelet")
		w.must(w.i.StartKubelet())
	}},
}

func (w *fixture) kill(what string, pid int) {
	if pid <= 0 {
		w.t.Fatalf("%s does not run\n%s", what, w.transcript())
	}
	w.logf("kill -9 %s (%d)", what, pid)
	w.must(syscall.Kill(pid, syscall.SIGKILL))
}

func (w *fixture) reapProcess(name string) { w.must(w.i.End(name)) }

// containerd is its process id; containerd comes back by itself, so it is waited for.
func (w *fixture) containerd() (pid int) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	w.must(instance.Poll(ctx, 20*time.Millisecond, func() error {
		raw, err := os.ReadFile(filepath.Join(w.state(), "containerd.pid"))
		if err != nil {
			return err
		}
		if pid, err = strconv.Atoi(strings.Fields(string(raw) + " -")[0]); err != nil {
			return err
		}
		return syscall.Kill(pid, 0)
	}))
	return pid
}

// killShim kills the shim of a Pod that does not stay.
func (w *fixture) killShim(r *rand.Rand) {
	boxes, err := w.cri.Runtime().ListPodSandbox(w.t.Context(), nil)
	if err != nil {
		return // containerd is just coming back
	}
	for _, n := range r.Perm(len(boxes)) {
		b := boxes[n]
		if strings.HasPrefix(b.Metadata.Name, "stay-") {
			continue
		}
		procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, p := range procs {
			raw, err := os.ReadFile(p)
			if err != nil || !strings.Contains(string(raw), "containerd-shim") || !strings.Contains(string(raw), b.Id) {
				continue
			}
			if pid, err := strconv.Atoi(strings.Split(p, "/")[2]); err == nil {
				w.logf("kill -9 shim of %s (%d)", b.Metadata.Name, pid)
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have just ended
				return
			}
		}
	}
}

// runSchedule goes through one schedule and checks what must hold after it.
func (w *fixture) runSchedule(seed uint64, r *rand.Rand) {
	w.logf("--- seed %d", seed)
	at := r.IntN(steps - 2)
	for n := range steps {
		switch n {
		case at, steps - 1:
			f := faults[r.IntN(len(faults))]
			f.do(w, r)
		default:
			w.churn(r)
		}
		<-time.After(time.Duration(r.IntN(150)) * time.Millisecond) // what is under way gets somewhere
	}
	starting, started := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer started()
	w.must(w.i.WaitAPI(starting)) // a server that starts on a busy machine takes most of a minute
	ctx, cancel := context.WithTimeout(w.t.Context(), 60*time.Second)
	defer cancel()
	w.settled(ctx)
	w.clear(ctx)
}

// churn creates and deletes. What fails because nobody answers is not asked again.
func (w *fixture) churn(r *rand.Rand) {
	name := func() string { return fmt.Sprintf("p-%d", r.IntN(*pods)) }
	switch r.IntN(5) {
	case 0:
		n := name()
		w.delete(n, 0)
		_ = w.create(n, r.IntN(3)) // the error is in the log
	case 1:
		w.delete(name(), 1)
		w.delete(name(), 1)
	case 2:
		w.createBaseline()
	default:
		for range 3 {
			_ = w.create(name(), r.IntN(3)) // the error is in the log
		}
	}
}

func (w *fixture) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.t.Context(), 5*time.Second)
}

func (w *fixture) createBaseline() {
	ctx, cancel := w.ctx()
	defer cancel()
	name := fmt.Sprintf("kept-%d", len(w.lines))
	_, err := w.client.CoreV1().ConfigMaps("default").Create(ctx,
		&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err == nil {
		w.baseline = append(w.baseline, name)
	}
	w.logf("write %s: %s", name, short(err))
}

func (w *fixture) create(name string, kind int) error {
	ctx, cancel := w.ctx()
	defer cancel()
	_, err := w.client.CoreV1().Pods("default").Create(ctx, aPod(name, kind), metav1.CreateOptions{})
	w.logf("create %s of kind %d: %s", name, kind, short(err))
	return err
}

func (w *fixture) delete(name string, grace int64) {
	ctx, cancel := w.ctx()
	defer cancel()
	err := w.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	w.logf("delete %s with grace %d: %s", name, grace, short(err))
}

func short(err error) string {
	if err == nil {
		return "ok"
	}
	if r := apierrors.ReasonForError(err); r != metav1.StatusReasonUnknown {
		return string(r)
	}
	return "no answer"
}

// aPod makes a Pod that runs; or one with an init container and a sidecar; or one that ends well
// and has volumes.
func aPod(name string, kind int) *v1.Pod {
	of := func(name, script string) v1.Container {
		return v1.Container{Name: name, Image: busybox, ImagePullPolicy: v1.PullNever,
			Command: []string{"sh", "-c", script}}
	}
	const runs = "trap 'exit 0' TERM; while true; do sleep 1 & wait $!; done"
	p := wrappers.MakePod().Name(name).TerminationGracePeriodSeconds(1).
		Containers(of("app", runs)).Obj()
	always := v1.ContainerRestartPolicyAlways
	switch kind {
	case 1:
		side := of("side", runs)
		side.RestartPolicy = &always
		p.Spec.InitContainers = []v1.Container{of("init", "true"), side}
	case 2:
		p.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		p.Spec.Containers[0] = of("job", "echo x > /scratch/x")
		p.Spec.Volumes = []v1.Volume{
			{Name: "scratch",
				VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	}
	return p
}

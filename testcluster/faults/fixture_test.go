package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/test/wrappers"
	"github.com/gantry-project/gantry/testcluster"
)

const (
	node  = "node-1"
	stays = 5  // Pods that nobody touches: faults must not affect them
	names = 25 // Pods that come and go
	steps = 24
)

// fixture is a cluster, what was done to it, and the invariants.
type fixture struct {
	t          *testing.T
	c          *testcluster.Cluster
	stay       map[string]string // container ids of the Pods that stay
	baseline   []string          // ConfigMaps whose creation was acknowledged
	lines      []string
	startedAt  time.Time
	down       map[string]bool // parts that are killed now
	duplicates int             // pairs of sandboxes reported as ready at once
	died       bool            // the API server was killed in this schedule: once is enough, see perCluster

	mu      sync.Mutex
	running map[string]string // by namespace/name: uid of whose containers run
	count   map[string]int    // by uid and container
	broken  []string
}

func newFixture(t *testing.T) *fixture {
	w := &fixture{t: t, c: testcluster.Start(t), stay: map[string]string{}, running: map[string]string{},
		count: map[string]int{}, startedAt: time.Now(), down: map[string]bool{}}
	w.c.On(testcluster.Match{}, testcluster.Script{Main: w.main})
	for i := range stays {
		w.create(fmt.Sprintf("stay-%d", i), 0)
	}
	for i := range stays {
		p := w.wait(fmt.Sprintf("stay-%d", i), running)
		w.stay[p.Name] = p.Status.ContainerStatuses[0].ContainerID
	}
	return w
}

// main is what every container does. It checks that one identity runs once.
func (w *fixture) main(p *testcluster.Process) int {
	uid := ""
	for _, e := range p.Env {
		if v, ok := strings.CutPrefix(e, "UID="); ok {
			uid = v
		}
	}
	w.enter(p, uid)
	defer w.leave(p, uid)
	if p.Container == "init" {
		return 0
	}
	var over <-chan time.Time
	code := 0
	switch {
	case strings.HasPrefix(p.Container, "crash"):
		over, code = time.After(5*time.Millisecond), 1
	case strings.HasPrefix(p.Container, "job"):
		over = time.After(20 * time.Millisecond)
	}
	select {
	case <-p.Signal:
		return 0
	case <-p.Context.Done():
		return 137
	case <-over:
		return code
	}
}

func (w *fixture) enter(p *testcluster.Process, uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if other := w.running[p.Pod]; other != "" && other != uid {
		w.broken = append(w.broken, fmt.Sprintf("two Pods of the name %s run: %s and %s", p.Pod, other, uid))
	}
	w.running[p.Pod] = uid
	if w.count[uid+p.Container]++; w.count[uid+p.Container] > 1 {
		w.broken = append(w.broken, fmt.Sprintf("container %s of %s runs twice", p.Container, p.Pod))
	}
	w.count[uid]++
}

func (w *fixture) leave(p *testcluster.Process, uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[uid+p.Container]--
	if w.count[uid]--; w.count[uid] == 0 && w.running[p.Pod] == uid {
		delete(w.running, p.Pod)
	}
}

// logf logs a step.
func (w *fixture) logf(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf("%8s  ", time.Since(w.startedAt).Round(time.Millisecond))+fmt.Sprintf(format,
		args...))
}

func (w *fixture) transcript() string {
	return strings.Join(w.lines[max(0, len(w.lines)-3*steps):], "\n")
}

// runSchedule runs one schedule and checks the invariants.
func (w *fixture) runSchedule(seed uint64, r *rand.Rand) {
	w.logf("--- seed %d", seed)
	w.died = false
	for range steps {
		w.step(r)
		w.checkInvariants()
		<-time.After(time.Duration(r.IntN(25)) * time.Millisecond) // lets operations in flight progress
	}
	w.restore()
	w.settled()
	if w.t.Failed() {
		return
	}
	w.clear()
	w.kinds()
}

// step does one random thing.
func (w *fixture) step(r *rand.Rand) {
	name := fmt.Sprintf("p-%d", r.IntN(names))
	switch r.IntN(16) {
	case 0:
		w.kill("kubelet", func() { w.c.KillNode(node) }, func() { w.c.StartNode(node) })
	case 1:
		w.kill("runtime", func() { w.c.KillRuntime(node) }, func() { w.c.StartRuntime(node) })
	case 2:
		if !w.died || w.down["API server"] {
			w.died = true
			w.kill("API server", w.c.KillAPI, w.c.StartAPI)
		}
	case 3:
		method := []string{"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox",
			"RemovePodSandbox"}[r.IntN(6)]
		fault := []string{"1*drop", "1*error(no luck)", "1*delay(30ms)", "1*late(30ms)"}[r.IntN(4)]
		w.logf("the runtime's next %s: %s", method, fault)
		w.c.Fault(node, method, fault)
	case 4:
		w.delete(name, 0)
		w.create(name, r.IntN(5))
	case 5, 6, 7:
		w.delete(name, 1)
	case 8:
		w.createBaseline()
	default:
		for range 3 {
			w.create(fmt.Sprintf("p-%d", r.IntN(names)), r.IntN(5))
		}
	}
}

// kill kills a component, or starts it if it is down.
func (w *fixture) kill(part string, kill, start func()) {
	switch {
	case w.down[part]:
		w.logf("start %s", part)
		if part == "kubelet" && w.down["API server"] {
			return // its client needs a server
		}
		if part == "kubelet" && w.down["runtime"] {
			return // its Dial needs a server
		}
		start()
	default:
		w.logf("kill %s", part)
		kill()
	}
	w.down[part] = !w.down[part]
}

// restore starts what is down, in an order that works.
func (w *fixture) restore() {
	for _, part := range []struct {
		name  string
		start func()
	}{
		{"API server", w.c.StartAPI}, {"runtime", func() { w.c.StartRuntime(node) }},
		{"kubelet", func() { w.c.StartNode(node) }},
	} {
		if w.down[part.name] {
			w.logf("heal: start %s", part.name)
			part.start()
			w.down[part.name] = false
		}
	}
}

func (w *fixture) ctx() (context.Context, context.CancelFunc) {
	limit := 60 * time.Second
	if w.down["API server"] {
		limit = 50 * time.Millisecond
	}
	return context.WithTimeout(context.Background(), limit)
}

// createBaseline writes an object whose acknowledged creation must persist.
func (w *fixture) createBaseline() {
	ctx, cancel := w.ctx()
	defer cancel()
	name := fmt.Sprintf("kept-%d", len(w.lines))
	if _, err := w.c.Client.CoreV1().ConfigMaps("default").Create(ctx,
		&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err == nil {
		w.baseline = append(w.baseline, name)
	}
}

func (w *fixture) create(name string, kind int) {
	ctx, cancel := w.ctx()
	defer cancel()
	_, err := w.c.Client.CoreV1().Pods("default").Create(ctx, aPod(name, kind), metav1.CreateOptions{})
	w.logf("create %s of kind %d: %v", name, kind, short(err))
}

func (w *fixture) delete(name string, grace int64) {
	ctx, cancel := w.ctx()
	defer cancel()
	err := w.c.Client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	w.logf("delete %s with grace %d: %v", name, grace, short(err))
}

func short(err error) string {
	switch {
	case err == nil:
		return "ok"
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return string(apierrors.ReasonForError(err))
	}
	return "no answer"
}

// aPod makes a Pod: it runs; or it crashes, ends well, has an init container and a sidecar, or
// reads a ConfigMap and writes a volume.
func aPod(name string, kind int) *v1.Pod {
	uid := []v1.EnvVar{
		{Name: "UID", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.uid"}}}}
	of := func(name string) v1.Container { return v1.Container{Name: name, Image: "app", Env: uid} }
	p := wrappers.MakePod().Name(name).TerminationGracePeriodSeconds(1).
		Containers(of("app")).Obj()
	always := v1.ContainerRestartPolicyAlways
	switch kind {
	case 1:
		p.Spec.Containers = append(p.Spec.Containers, of("crash"))
	case 2:
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		p.Spec.Containers[0].Name = "job"
	case 3:
		side := of("side")
		side.RestartPolicy = &always
		p.Spec.InitContainers = []v1.Container{of("init"), side}
	case 4:
		p.Spec.Volumes = []v1.Volume{
			{Name: "config",
				VolumeSource: v1.VolumeSource{
					ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{
						Name: "kube-root-ca.crt"}}}},
			{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "config", MountPath: "/etc/ca"},
			{Name: "scratch", MountPath: "/scratch"}}
	}
	return p
}

package prober

import (
	"math/rand/v2"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/pod"
)

// Recorder takes Kubernetes events; client-go's record.EventRecorder is one.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Deps is what a Manager works with.
type Deps struct {
	Probers  Probers
	Recorder Recorder
	Journal  journal.Sink
	// called after each change of a result, without locks held; must not block
	Changed func(types.UID)
	// called with every answer; may be nil
	Probed func(p *v1.Pod, a Measurement)
	// how long the first question to an adopted container waits, less than period; nil is random
	Jitter func(period time.Duration) time.Duration
	// returns address:port where the Pod's processes listen, after a connection was refused; nil:
	// not known
	Sockets func(p *v1.Pod) []string
	V136    bool // commands in Pods that somebody stops are those of v1.36
}

// Measurement is one answer for those who count.
type Measurement struct {
	Key    probe.Key
	Result string        // success, failure, unknown
	Took   time.Duration // from the question to the answer
	// from when the question was due until it was put; lateness is the node's fault and never held
	// against a container
	Late time.Duration
}

// Probers asks: one Prober for each kind of probe handler.
type Probers struct{ HTTP, TCP, Exec, GRPC probe.Prober }

// Running is a container that runs now.
type Running struct {
	Name      string
	ID        string // without the runtime's prefix; a new one starts the container's probes anew
	StartedAt time.Time
	// Adopted containers ran before this kubelet did: Ready and Started are what the Pod's status
	// said of them, and are the results to begin with. Of one that was started since the Manager
	// was made it is not believed.
	Adopted, Ready, Started bool
}

// End says whether a Pod ends.
type End int

// How a Pod may end.
const (
	NotEnding End = iota
	Ending        // by itself: its work is done, or its deadline over
	Stopped       // somebody stops it
)

// Manager runs the probes of all Pods on the node: one worker for each probe of a running
// container. Its methods may be called from any goroutine. Make one with New, end it with Close.
type Manager struct {
	d         Deps
	createdAt time.Time // containers started later are not adopted

	mu     sync.Mutex
	pods   map[types.UID]map[probe.Key]*worker
	closed bool
}

// New returns a Manager without probes.
func New(d Deps) *Manager {
	if d.Jitter == nil {
		d.Jitter = rand.N[time.Duration]
	}
	if d.Probed == nil {
		d.Probed = func(*v1.Pod, Measurement) {}
	}
	return &Manager{d: d, createdAt: time.Now(), pods: map[types.UID]map[probe.Key]*worker{}}
}

// SyncPod starts the probes of containers that run now and ends all others of the Pod; podIP is
// whom http, tcp and grpc probes ask. Of a Pod that is ending, for whatever cause, the startup and
// liveness probes of regular containers ask no more, and their results stay; sidecars keep all
// their probes (upstream: StopLivenessAndStartup). It is called with each look at the Pod, and does
// nothing when nothing has changed.
func (a *Manager) SyncPod(pod *v1.Pod, podIP string, running []Running, end End) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	wanted := map[probe.Key]bool{}
	for _, r := range running {
		c, sidecar := find(pod, r.Name)
		if c == nil {
			continue
		}
		for _, kind := range []probe.Kind{probe.Startup, probe.Readiness, probe.Liveness} {
			if probe.ProbeOf(c, kind) == nil {
				continue
			}
			key := probe.Key{UID: pod.UID, Container: c.Name, Kind: kind}
			wanted[key] = true
			a.ensureWorker(key, probeTarget{pod, c, podIP, r, end})
			if end != NotEnding && kind != probe.Readiness && !sidecar {
				a.pods[pod.UID][key].stop()
			}
		}
	}
	for key, w := range a.pods[pod.UID] {
		if !wanted[key] {
			w.stop()
			delete(a.pods[pod.UID], key)
		}
	}
	if len(a.pods[pod.UID]) == 0 {
		delete(a.pods, pod.UID)
	}
}

// Health is what the probe's answers add up to; ok is false when there is no such probe.
func (a *Manager) Health(k probe.Key) (v probe.Health, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.pods[k.UID][k]
	if w == nil {
		return probe.Pending, false
	}
	return w.results.Health, true
}

// Forget ends the Pod's probes: it is gone.
func (a *Manager) Forget(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.pods[uid] {
		w.stop()
	}
	delete(a.pods, uid)
}

// Close ends all probes for good. An answer that is still awaited counts for nothing and makes no
// event.
func (a *Manager) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, workers := range a.pods {
		for _, w := range workers {
			w.replaced = true
			w.stop()
		}
	}
	clear(a.pods)
}

// ensureWorker makes the probe's worker, replaces it when the container is a new one, or gives it
// the newest Pod. The caller holds a.mu.
func (a *Manager) ensureWorker(key probe.Key, t probeTarget) {
	w := a.pods[key.UID][key]
	if w != nil && w.running.ID != t.running.ID {
		w.replaced = true
		w.stop()
		w = nil
	}
	if w != nil {
		stops := t.podEnd == Stopped && w.podEnd != Stopped
		w.pod, w.container, w.podIP, w.podEnd = t.pod, t.container, t.podIP, t.podEnd
		if stops && key.Kind == probe.Readiness && w.results.Health != probe.Healthy &&
			probe.ProbeOf(t.container, key.Kind).Exec != nil {
			w.probeNow() // as upstream does with each status of a container that is not ready
		}
		return
	}
	w = a.newWorker(key, t)
	if a.pods[key.UID] == nil {
		a.pods[key.UID] = map[probe.Key]*worker{}
	}
	a.pods[key.UID][key] = w
	w.schedule()
}

// find returns a container that may have probes: a regular one or a sidecar.
func find(p *v1.Pod, name string) (c *v1.Container, sidecar bool) {
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; c.Name == name {
			return c, false
		}
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.Name == name && pod.IsSidecar(c) {
			return c, true
		}
	}
	return nil, false
}

package prober

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
)

// maxProbeRetries is how often one question is put when it could not be put.
const maxProbeRetries = 3

// probeTarget is the container that is asked.
type probeTarget struct {
	pod       *v1.Pod
	container *v1.Container
	podIP     string
	running   Running
	podEnd    End
}

// worker is one probe of one running container. Manager.mu guards it.
type worker struct {
	manager *Manager
	key     probe.Key
	probeTarget

	state   probe.State
	results probe.Results
	// it ended because another container took this one's place, or with the Manager: its last
	// answer is nobody's
	replaced bool

	ctx   context.Context // ends with the worker
	end   context.CancelFunc
	timer *time.Timer
	dueAt time.Time // what the timer is set to
}

func (a *Manager) newWorker(key probe.Key, t probeTarget) *worker {
	w, r := &worker{manager: a, key: key, probeTarget: t, results: probe.NewResults(key.Kind)}, t.running
	w.ctx, w.end = context.WithCancel(context.Background())
	w.state = probe.State{Kind: key.Kind, StartedAt: r.StartedAt}
	if r.Adopted && r.StartedAt.Before(a.createdAt) {
		w.state.Adopted, w.state.Jitter = time.Now(), a.d.Jitter(w.spec().Period)
		if key.Kind == probe.Readiness && r.Ready {
			w.results.Health = probe.Healthy
		}
		if key.Kind == probe.Startup && r.Started {
			w.results.Health, w.state.Finished = probe.Healthy, true
		}
	}
	// SyncPod makes the startup probe's worker before its siblings'.
	if key.Kind != probe.Startup && t.container.StartupProbe != nil {
		s := a.pods[key.UID][probe.Key{UID: key.UID, Container: key.Container, Kind: probe.Startup}]
		w.state.AwaitsStartup = s != nil && s.running.ID == r.ID && s.results.Health != probe.Healthy
	}
	return w
}

func (w *worker) spec() probe.Spec { return probe.SpecOf(probe.ProbeOf(w.container, w.key.Kind)) }

// schedule sets the one timer to the next question, or to none.
func (w *worker) schedule() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if at := probe.Next(w.state, w.spec()); !at.IsZero() {
		w.dueAt = latest(at, time.Now())
		w.timer = time.AfterFunc(time.Until(at), w.doProbe)
	}
}

func (w *worker) stop() {
	w.end()
	if w.timer != nil {
		w.timer.Stop()
	}
}

// probeRun is one question, as it is put.
type probeRun struct {
	probe.Target
	spec   probe.Spec
	late   time.Duration
	podEnd End
}

// doProbe puts the question once: it asks without the Manager's lock, and counts the answer with
// it. It runs on the timer's goroutine; the next timer is set when the answer is in.
func (w *worker) doProbe() {
	q, ok := w.begin()
	if !ok {
		return
	}
	startedAt := time.Now()
	a := probe.Answer{Outcome: w.runProbeWithRetries(q), Late: q.late}
	a.Took = time.Since(startedAt)
	w.manager.report(w.count(q, a))
}

// begin notes that the question is put; false: it is not to be put any longer.
func (w *worker) begin() (q probeRun, ok bool) {
	w.manager.mu.Lock()
	defer w.manager.mu.Unlock()
	if w.ctx.Err() != nil || w.state.AwaitsStartup || w.state.Finished {
		return probeRun{}, false
	}
	now := time.Now()
	w.state.LastProbed = now
	q = probeRun{spec: w.spec(), late: now.Sub(w.dueAt), podEnd: w.podEnd}
	q.Target = probe.Target{
		Probe: probe.ProbeOf(w.container, w.key.Kind), Pod: w.pod, Container: w.container,
		ContainerID: w.running.ID, PodIP: w.podIP, Timeout: q.spec.Timeout,
	}
	return q, true
}

// runProbeWithRetries puts the question, again when it could not be put.
func (w *worker) runProbeWithRetries(q probeRun) (o probe.Outcome) {
	ctx := w.probeContext(q)
	for range maxProbeRetries {
		if o = w.manager.d.Probers.probe(ctx, q.Target); o.Err == nil || probe.ContainerGone(o.Err) ||
			w.ctx.Err() != nil || ctx.Err() != nil {
			break
		}
	}
	return o
}

// count counts an answer, sets the timer of the next question, and returns what is to be reported
// of it.
func (w *worker) count(q probeRun, a probe.Answer) report {
	w.manager.mu.Lock()
	defer w.manager.mu.Unlock()
	r := report{pod: w.pod, key: w.key, answer: a}
	if w.ctx.Err() != nil { // the container or the Pod is gone: the answer counts for nothing
		r.stopped, r.silent = true, w.replaced
		return r
	}
	w.results, r.changed, r.fact = w.results.Add(w.key, a, q.spec)
	if r.changed && w.results.Decided(w.key.Kind) {
		w.state.Finished = true
		if w.key.Kind == probe.Startup && w.results.Health == probe.Healthy {
			w.releaseOtherProbes()
		}
	}
	w.schedule()
	return r
}

// probeContext is how long the question may take to be answered: as long as its own time limit,
// whatever becomes of the container and its Pod, so that readiness is true to the end. In v1.36 a
// command was given up with its worker and never begun in a Pod that somebody stops: readiness
// stayed what it was, and an event said so.
func (w *worker) probeContext(q probeRun) context.Context {
	switch {
	case q.Probe.Exec == nil, !w.manager.d.V136:
		return context.WithoutCancel(w.ctx)
	case q.podEnd == Stopped:
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		return ctx
	}
	return w.ctx
}

// probeNow puts the next question now; one that is being put is enough.
func (w *worker) probeNow() {
	if w.timer != nil && w.timer.Stop() {
		w.dueAt = time.Now()
		w.timer = time.AfterFunc(0, w.doProbe)
	}
}

// latest is the time that comes last: a question that was due in the past is due now.
func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// releaseOtherProbes lets the container's other probes begin.
func (w *worker) releaseOtherProbes() {
	for key, other := range w.manager.pods[w.key.UID] {
		if key.Container == w.key.Container && other.state.AwaitsStartup {
			other.state.AwaitsStartup, other.state.Released = false, time.Now()
			other.schedule()
		}
	}
}

// probe chooses the kind by the probe's handler.
func (k Probers) probe(ctx context.Context, t probe.Target) probe.Outcome {
	switch p := t.Probe; {
	case p.Exec != nil:
		return k.Exec.Probe(ctx, t)
	case p.HTTPGet != nil:
		return k.HTTP.Probe(ctx, t)
	case p.TCPSocket != nil:
		return k.TCP.Probe(ctx, t)
	case p.GRPC != nil:
		return k.GRPC.Probe(ctx, t)
	}
	return probe.Outcome{Err: fmt.Errorf("missing probe handler for %s:%s", t.Pod.Name, t.Container.Name)}
}

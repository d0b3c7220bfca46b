package prober

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/pod"
)

// maxProbeRetries is how often one question is put when it could not be put.
const maxProbeRetries = 3

// probeTarget is the container that is asked.
type probeTarget struct {
	pod       *v1.Pod
	container *v1.Container
	podIP     string
	running   Running
}

// worker is one probe of one running container. Manager.mu guards it.
type worker struct {
	manager *Manager
	key     probe.Key
	probeTarget

	state      probe.State
	streak     probe.Streak
	health     probe.Health
	lastOutput string // last failure's text that became a fact
	// it ended because another container took this one's place, or with the Manager: its last
	// answer is nobody's
	probeAgain bool
	late       bool // the last question was late, and a fact says so

	ctx   context.Context // ends with the worker
	end   context.CancelFunc
	timer *time.Timer
	dueAt time.Time // what the timer is set to
}

func (a *Manager) newWorker(key probe.Key, t probeTarget) *worker {
	w, r := &worker{manager: a, key: key, probeTarget: t, health: probe.InitialHealth(key.Kind)}, t.running
	w.ctx, w.end = context.WithCancel(context.Background())
	w.state = probe.State{Kind: key.Kind, StartedAt: r.StartedAt}
	if r.Adopted && r.StartedAt.Before(a.createdAt) {
		w.state.Adopted, w.state.Jitter = time.Now(), a.d.Jitter(w.spec().Period)
		if key.Kind == probe.Readiness && r.Ready {
			w.health = probe.Healthy
		}
		if key.Kind == probe.Startup && r.Started {
			w.health, w.state.Finished = probe.Healthy, true
		}
	}
	// Sync makes the startup probe's worker before its siblings'.
	if key.Kind != probe.Startup && t.container.StartupProbe != nil {
		s := a.pods[key.UID][probe.Key{UID: key.UID, Container: key.Container, Kind: probe.Startup}]
		w.state.AwaitsStartup = s != nil && s.running.ID == r.ID && s.health != probe.Healthy
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

// doProbe puts the question once. It runs on the timer's goroutine; the next timer is set when the
// answer is in.
func (w *worker) doProbe() {
	w.manager.mu.Lock()
	if w.ctx.Err() != nil || w.state.AwaitsStartup || w.state.Finished {
		w.manager.mu.Unlock()
		return
	}
	startedAt := time.Now()
	w.state.LastProbed = startedAt
	late := startedAt.Sub(w.dueAt)
	spec := w.spec()
	t := probe.Target{
		Probe: probe.ProbeOf(w.container, w.key.Kind), Pod: w.pod, Container: w.container,
		ContainerID: w.running.ID, PodIP: w.podIP, Timeout: spec.Timeout,
	}
	w.manager.mu.Unlock()

	ctx := w.probeContext(t)
	var o probe.Outcome
	for range maxProbeRetries {
		if o = w.manager.d.Probers.probe(ctx, t); o.Err == nil || probe.ContainerGone(o.Err) || w.ctx.Err() != nil ||
			ctx.Err() != nil {
			break
		}
	}

	w.manager.mu.Lock()
	if w.ctx.Err() != nil { // the container or the Pod is gone: the answer counts for nothing
		p, again := w.pod, w.probeAgain
		w.manager.mu.Unlock()
		if !again {
			w.recordEvent(p, o)
		}
		return
	}
	changed := w.recordResult(o, spec)
	took := time.Since(startedAt)
	fact, news := w.probedFact(o, spec, changed, took)
	if w.becameLate(late, spec) {
		fact.Late, news = journal.Took(late), true
	}
	w.schedule()
	p := w.pod
	w.manager.mu.Unlock()
	w.manager.d.Probed(p, Measurement{Key: w.key, Result: o.String(), Took: took, Late: late})

	if probe.ContainerGone(o.Err) {
		return
	}
	w.recordEvent(p, o)
	if news {
		if w.manager.d.Sockets != nil && fact.Result != "success" && strings.Contains(fact.Message,
			"connection refused") {
			fact.Listening = w.manager.d.Sockets(p)
		}
		w.manager.d.Journal.Put(pod.Ref(p), fact)
	}
	if changed {
		w.manager.d.Changed(w.key.UID)
	}
}

// probeContext is how long the question may take to be answered. A command is given up with its
// worker, and is never begun in a container that is being stopped: readiness stays what it was, and
// an event says so in upstream's words. Other kinds have a short time limit, and upstream's are
// answered too.
func (w *worker) probeContext(t probe.Target) context.Context {
	switch {
	case t.Probe.Exec == nil:
		return context.WithoutCancel(w.ctx)
	case t.Pod.DeletionTimestamp != nil:
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

// becameLate tells whether this question was the first late one after punctual ones.
func (w *worker) becameLate(late time.Duration, spec probe.Spec) bool {
	was := w.late
	w.late = probe.IsLate(late, spec)
	return w.late && !was
}

// latest is the time that comes last: a question that was due in the past is due now.
func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// recordEvent tells of an answer as an event.
func (w *worker) recordEvent(p *v1.Pod, o probe.Outcome) {
	if e, ok := probe.EventFor(w.key.Kind, o); ok && !probe.ContainerGone(o.Err) {
		w.manager.d.Recorder.Event(events.RefOf(p, events.FieldPath(p, w.key.Container)), v1.EventTypeWarning, e.Reason,
			e.Message)
	}
}

// recordResult counts the answer and tells whether the verdict changed by it.
func (w *worker) recordResult(o probe.Outcome, spec probe.Spec) (changed bool) {
	count, health := w.streak.Add(o, spec)
	w.streak = count
	if health == probe.Pending || health == w.health {
		return false
	}
	w.health = health
	switch {
	case w.key.Kind == probe.Startup && health == probe.Healthy:
		w.state.Finished = true
		w.releaseOtherProbes()
	case w.key.Kind != probe.Readiness && health == probe.Unhealthy:
		w.state.Finished = true // the container will be restarted, and its successor has a worker of its own
	}
	return true
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

// probedFact words the answer for the journal. What neither changes nor threatens the verdict, nor
// says something new, is no news.
func (w *worker) probedFact(o probe.Outcome, spec probe.Spec, changed bool, took time.Duration) (journal.Probed, bool) {
	text := o.Output
	if o.Err != nil {
		text = o.Err.Error()
	}
	f := journal.Probed{
		Container: w.key.Container, Probe: string(w.key.Kind), Result: o.String(), Message: text,
		Count: w.streak.Length, Threshold: w.streak.Threshold(spec), Took: journal.Took(took),
	}
	if f.Result == "success" {
		w.lastOutput = ""
		if o.Result == probe.Success {
			f.Message = ""
		}
		return f, changed
	}
	fresh := text != w.lastOutput
	w.lastOutput = text
	return f, changed || fresh || o.Err == nil && w.streak.Length <= spec.FailureThreshold
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

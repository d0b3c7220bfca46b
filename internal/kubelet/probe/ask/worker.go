package ask

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

// tries is how often one question is put when it could not be put.
const tries = 3

// whom is the container that is asked.
type whom struct {
	pod       *v1.Pod
	container *v1.Container
	podIP     string
	running   Running
}

// worker is one probe of one running container. Asker.mu guards it.
type worker struct {
	a   *Asker
	key probe.Key
	whom

	state   probe.State
	count   probe.Count
	verdict probe.Verdict
	told    string // last failure's text that became a fact
	another bool   // it ended because another container took this one's place, or with the Asker: its last answer is nobody's
	lagging bool   // the last question was late, and a fact says so

	ctx   context.Context // ends with the worker
	end   context.CancelFunc
	timer *time.Timer
	due   time.Time // what the timer is set to
}

func (a *Asker) newWorker(key probe.Key, t whom) *worker {
	w, r := &worker{a: a, key: key, whom: t, verdict: probe.Initial(key.Kind)}, t.running
	w.ctx, w.end = context.WithCancel(context.Background())
	w.state = probe.State{Kind: key.Kind, StartedAt: r.StartedAt}
	if r.Adopted && r.StartedAt.Before(a.born) {
		w.state.Adopted, w.state.Jitter = time.Now(), a.d.Jitter(w.spec().Period)
		if key.Kind == probe.Readiness && r.Ready {
			w.verdict = probe.Good
		}
		if key.Kind == probe.Startup && r.Started {
			w.verdict, w.state.Over = probe.Good, true
		}
	}
	// Sync makes the startup probe's worker before its siblings'.
	if key.Kind != probe.Startup && t.container.StartupProbe != nil {
		s := a.pods[key.UID][probe.Key{UID: key.UID, Container: key.Container, Kind: probe.Startup}]
		w.state.Held = s != nil && s.running.ID == r.ID && s.verdict != probe.Good
	}
	return w
}

func (w *worker) spec() probe.Spec { return probe.SpecOf(probe.Of(w.container, w.key.Kind)) }

// schedule sets the one timer to the next question, or to none.
func (w *worker) schedule() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if at := probe.Next(w.state, w.spec()); !at.IsZero() {
		w.due = later(at, time.Now())
		w.timer = time.AfterFunc(time.Until(at), w.ask)
	}
}

func (w *worker) stop() {
	w.end()
	if w.timer != nil {
		w.timer.Stop()
	}
}

// ask puts the question once. It runs on the timer's goroutine; the next timer is set when the answer is in.
func (w *worker) ask() {
	w.a.mu.Lock()
	if w.ctx.Err() != nil || w.state.Held || w.state.Over {
		w.a.mu.Unlock()
		return
	}
	begun := time.Now()
	w.state.Asked = begun
	late := begun.Sub(w.due)
	spec := w.spec()
	t := probe.Target{
		Probe: probe.Of(w.container, w.key.Kind), Pod: w.pod, Container: w.container,
		ContainerID: w.running.ID, PodIP: w.podIP, Timeout: spec.Timeout,
	}
	w.a.mu.Unlock()

	ctx := w.reach(t)
	var o probe.Outcome
	for range tries {
		if o = w.a.d.Kinds.put(ctx, t); o.Err == nil || probe.Gone(o.Err) || w.ctx.Err() != nil || ctx.Err() != nil {
			break
		}
	}

	w.a.mu.Lock()
	if w.ctx.Err() != nil { // the container or the Pod is gone: the answer counts for nothing
		p, another := w.pod, w.another
		w.a.mu.Unlock()
		if !another {
			w.say(p, o)
		}
		return
	}
	changed := w.take(o, spec)
	took := time.Since(begun)
	fact, news := w.fact(o, spec, changed, took)
	if w.lags(late, spec) {
		fact.Late, news = journal.Took(late), true
	}
	w.schedule()
	p := w.pod
	w.a.mu.Unlock()
	w.a.d.Answered(p, Answer{Key: w.key, Result: o.String(), Took: took, Late: late})

	if probe.Gone(o.Err) {
		return
	}
	w.say(p, o)
	if news {
		if w.a.d.Sockets != nil && fact.Result != "success" && strings.Contains(fact.Message, "connection refused") {
			fact.Listening = w.a.d.Sockets(p)
		}
		w.a.d.Journal.Put(pod.Ref(p), fact)
	}
	if changed {
		w.a.d.Changed(w.key.UID)
	}
}

// reach is how long the question may take to be answered. A command is given up with its worker, and is never begun in a container that is being stopped: readiness stays
// what it was, and an event says so in upstream's words. Other kinds have a short time limit, and upstream's are answered too.
func (w *worker) reach(t probe.Target) context.Context {
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

// hurry puts the next question now; one that is being put is enough.
func (w *worker) hurry() {
	if w.timer != nil && w.timer.Stop() {
		w.due = time.Now()
		w.timer = time.AfterFunc(0, w.ask)
	}
}

// lags tells whether this question was the first late one after punctual ones.
func (w *worker) lags(late time.Duration, spec probe.Spec) bool {
	was := w.lagging
	w.lagging = probe.Lags(late, spec)
	return w.lagging && !was
}

// later is the time that comes last: a question that was due in the past is due now.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// say tells of an answer as an event.
func (w *worker) say(p *v1.Pod, o probe.Outcome) {
	if e, ok := probe.Say(w.key.Kind, o); ok && !probe.Gone(o.Err) {
		w.a.d.Recorder.Event(events.RefOf(p, events.FieldPath(p, w.key.Container)), v1.EventTypeWarning, e.Reason, e.Message)
	}
}

// take counts the answer and tells whether the verdict changed by it.
func (w *worker) take(o probe.Outcome, spec probe.Spec) (changed bool) {
	count, verdict := w.count.Add(o, spec)
	w.count = count
	if verdict == probe.Pending || verdict == w.verdict {
		return false
	}
	w.verdict = verdict
	switch {
	case w.key.Kind == probe.Startup && verdict == probe.Good:
		w.state.Over = true
		w.release()
	case w.key.Kind != probe.Readiness && verdict == probe.Bad:
		w.state.Over = true // the container will be restarted, and its successor has a worker of its own
	}
	return true
}

// release lets the container's other probes begin.
func (w *worker) release() {
	for key, other := range w.a.pods[w.key.UID] {
		if key.Container == w.key.Container && other.state.Held {
			other.state.Held, other.state.Released = false, time.Now()
			other.schedule()
		}
	}
}

// fact words the answer for the journal. What neither changes nor threatens the verdict, nor says something new, is no news.
func (w *worker) fact(o probe.Outcome, spec probe.Spec, changed bool, took time.Duration) (journal.Probed, bool) {
	text := o.Output
	if o.Err != nil {
		text = o.Err.Error()
	}
	f := journal.Probed{
		Container: w.key.Container, Probe: string(w.key.Kind), Result: o.String(), Message: text,
		Count: w.count.Run, Threshold: w.count.Need(spec), Took: journal.Took(took),
	}
	if f.Result == "success" {
		w.told = ""
		if o.Result == probe.Success {
			f.Message = ""
		}
		return f, changed
	}
	fresh := text != w.told
	w.told = text
	return f, changed || fresh || o.Err == nil && w.count.Run <= spec.FailureThreshold
}

// put chooses the kind by the probe's handler.
func (k Kinds) put(ctx context.Context, t probe.Target) probe.Outcome {
	switch p := t.Probe; {
	case p.Exec != nil:
		return k.Exec.Ask(ctx, t)
	case p.HTTPGet != nil:
		return k.HTTP.Ask(ctx, t)
	case p.TCPSocket != nil:
		return k.TCP.Ask(ctx, t)
	case p.GRPC != nil:
		return k.GRPC.Ask(ctx, t)
	}
	return probe.Outcome{Err: fmt.Errorf("missing probe handler for %s:%s", t.Pod.Name, t.Container.Name)}
}

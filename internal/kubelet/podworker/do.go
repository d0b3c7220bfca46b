package podworker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podexec"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/reason"
)

// do has a plan carried out in a goroutine of its own and listens to the bell meanwhile: a tighter wish interrupts it, anything new is told.
func (w *worker) do(ctx context.Context, wish *Wish, plan podplan.Plan) {
	w.put(plan.Fact())
	w.turn(plan.Do)
	defer func() { w.life.ends.turning = nil }()
	if worked := w.pool.d.Worked; worked != nil {
		begun := time.Now()
		defer func() { worked(operation(wish, plan), time.Since(begun)) }()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, 1)
	hooks := make(chan hook)
	job := podexec.Job{Pod: w.pod(wish), Seen: w.life.seen, Applied: w.life.size.granted.Applied, Hooking: func(c string, runs bool) { hooks <- hook{c, runs} }}
	path := w.path(wish, plan.Do)
	w.ending.Store(false)
	go func() { results <- w.perform(ctx, path, job, plan.Do) }()
	for {
		select {
		case h := <-hooks:
			w.life.hooking[h.container] = h.runs
		case r := <-results:
			w.life.fresh = w.life.fresh && r.touchedNothing()
			clear(w.life.hooking)
			w.account(ctx, r)
			w.backedOff(job.Pod, r.done)
			w.sized(job.Pod, r.done)
			return
		case <-w.bell:
			why, newer := w.heed(w.ending.Load()), w.wish.Load()
			if tighter(newer.End, wish.End) {
				cancel()
				defer w.begin(Terminating, "the end of what was under way", patience)()
				wish = newer
				continue
			}
			if why != 0 {
				w.glance(ctx, newer)
			}
		}
	}
}

// operation is upstream's word for a round of a worker.
func operation(wish *Wish, plan podplan.Plan) string {
	for _, a := range plan.Do {
		switch a.(type) {
		case podplan.CreateSandbox:
			return "create"
		case podplan.Release:
			return "terminated"
		}
	}
	if wish.End != nil {
		return "terminating"
	}
	return "sync"
}

// result is how far a plan went.
type result struct {
	done   []podplan.Action
	failed podplan.Action // nil when all were done
	err    error
	gaveUp podplan.Action // what had been begun beside the one that failed
	doubt  podplan.Doubt  // of a sandbox that the runtime may make although it was given up
}

// note keeps in mind what the failure of an action leaves open.
func (r *result) note(a podplan.Action, err error) {
	if box, ok := a.(podplan.CreateSandbox); ok && errors.Is(err, podexec.ErrGivenUp) {
		r.doubt = podplan.Doubt{Attempt: box.Attempt, GivenUp: time.Now()}
	}
}

// touchedNothing tells whether the runtime has not been asked to do anything.
func (r result) touchedNothing() bool {
	for _, a := range append(r.done, r.failed, r.gaveUp) {
		switch a.(type) {
		case podplan.Furnish, podplan.Release, podplan.Resize, nil:
		default:
			return false
		}
	}
	return true
}

type hook struct {
	container string
	runs      bool
}

// perform carries actions out in order up to the first that fails.
func (w *worker) perform(ctx context.Context, path Path, j podexec.Job, actions []podplan.Action) result {
	var r result
	j.Step = func(what string) func() { return w.begin(path, what, patience) }
	started := false // by an earlier action: the runtime tells of it when this one is under way already
	if box, ok := together(actions); ok {
		w.ending.Store(true)
		return w.both(ctx, path, j, box)
	}
	for i, a := range actions {
		w.ending.Store(i == len(actions)-1 && !started && !hooked(j.Pod, a))
		if err := w.one(ctx, path, j, a); err != nil {
			r.failed, r.err = a, err
			r.note(a, err)
			break
		}
		r.done = append(r.done, a)
		if _, ok := a.(podplan.Start); ok {
			started = true
		}
	}
	return r
}

// one carries out one action.
func (w *worker) one(ctx context.Context, path Path, j podexec.Job, a podplan.Action) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer w.begin(path, a.Line(), patienceFor(a))()
	begun := time.Now()
	err := w.pool.d.Hands.Do(ctx, j, a)
	if _, resize := a.(podplan.Resize); resize {
		w.pool.d.Meter.Resized(time.Since(begun), err)
	}
	return err
}

// together finds in a plan to furnish a Pod the sandbox that may be made beside that.
func together(actions []podplan.Action) (box podplan.CreateSandbox, ok bool) {
	if len(actions) != 2 || actions[0] != (podplan.Furnish{}) {
		return box, false
	}
	box, ok = actions[1].(podplan.CreateSandbox)
	return box, ok && box.Beside
}

// both furnishes a Pod and makes its sandbox beside that, as soon as there is ground for it. When the Pod cannot be furnished the sandbox is given up, and only
// that failure is told. A runtime that made it nevertheless keeps it for the time when the Pod can be.
func (w *worker) both(ctx context.Context, path Path, j podexec.Job, box podplan.CreateSandbox) result {
	calm, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	ground, made := make(chan struct{}), make(chan error, 1)
	j.Ground = sync.OnceFunc(func() { close(ground) })
	go func() {
		select {
		case <-ground:
			made <- w.one(calm, path, j, box)
		case <-calm.Done():
			made <- calm.Err()
		}
	}()
	if err := w.one(ctx, path, j, podplan.Furnish{}); err != nil {
		giveUp(podexec.ErrAtOnce)
		r := result{failed: podplan.Furnish{}, err: err, gaveUp: box}
		r.note(box, <-made)
		return r
	}
	j.Ground()
	r := result{done: []podplan.Action{podplan.Furnish{}}}
	if err := <-made; err != nil {
		r.failed, r.err = box, err
		r.note(box, err)
		return r
	}
	r.done = append(r.done, box)
	return r
}

// hooked tells whether an action goes on after the container runs.
func hooked(p *v1.Pod, a podplan.Action) bool {
	s, ok := a.(podplan.Start)
	if !ok {
		return false
	}
	m, ok := podplan.MemberOf(p, s.Name)
	return ok && m.Lifecycle != nil && m.Lifecycle.PostStart != nil
}

// account turns the result of a plan into facts and failed tries.
func (w *worker) account(ctx context.Context, r result) {
	now := time.Now()
	for _, a := range r.done {
		delete(w.life.tries, tryName(a))
		switch a := a.(type) {
		case podplan.Stop:
			w.stopped(a.Kills)
		case podplan.RemoveContainer:
			delete(w.life.ends.again, a.ID)
		case podplan.Furnish:
			w.life.facts.Furnished = now
		case podplan.Release:
			w.life.facts.Released = now
			if a.Logs {
				w.life.facts.Removed = now
			}
		}
	}
	if !r.doubt.GivenUp.IsZero() {
		w.life.facts.Doubt = r.doubt
	}
	if r.failed == nil || ctx.Err() != nil {
		return
	}
	name := tryName(r.failed)
	t := w.life.tries[name]
	no := refusalOf(r.err, codeOf(r.failed))
	if t.Refusal == nil || t.Refusal.Error() != no.Error() {
		klog.FromContext(ctx).Info("Cannot go on with the Pod", "action", r.failed.Line(), "err", r.err)
		w.put(journal.Waiting{For: r.failed.Line() + ": " + no.Error(), Since: now, Next: "tries again", Fix: no.Fix})
	}
	t.Refusal, t.At, t.Count = no, now, t.Count+1
	w.life.tries[name] = t
}

// sized notes which sizes the actions that were done have put in force.
func (w *worker) sized(p *v1.Pod, done []podplan.Action) {
	var names []string
	for _, a := range done {
		switch a := a.(type) {
		case podplan.Start:
			if a.Kind != podplan.Ephemeral {
				names = append(names, a.Name)
			}
		case podplan.Resize:
			for _, c := range a.Containers {
				names = append(names, c.Name)
			}
			if a.Settle {
				names = append(names, podplan.PodSize)
			}
		}
	}
	if len(names) > 0 {
		w.applied(p, names...)
	}
}

// turn notes which running containers a plan stops to start them again. Their end is not shown: the API takes no container of a Pod with restartPolicy OnFailure
// back that it was shown to have ended with 0.
func (w *worker) turn(actions []podplan.Action) {
	w.life.ends.turning = map[string]podplan.Container{}
	for _, a := range actions {
		stop, ok := a.(podplan.Stop)
		if !ok {
			continue
		}
		for _, k := range stop.Kills {
			for _, c := range w.life.seen.Containers {
				if k.Again && c.ID == k.ID && c.State == podplan.Running {
					w.life.ends.turning[c.ID] = c
				}
			}
		}
	}
}

// asTheyRan is what was seen, with containers that are being started again as they ran.
func (w *worker) asTheyRan(in podplan.In) podplan.In {
	if len(w.life.ends.turning) == 0 {
		return in
	}
	in.Seen.Containers, in.Health = slices.Clone(in.Seen.Containers), maps.Clone(in.Health)
	for i, c := range in.Seen.Containers {
		next := in.Seen.Latest(c.Name)
		followed := next.ID != c.ID && next.State != podplan.Created && !w.life.hooking[c.Name]
		if ran, ok := w.life.ends.turning[c.ID]; ok && c.State == podplan.Exited && !followed {
			in.Seen.Containers[i] = ran
			in.Health[c.Name] = w.life.ends.health[c.Name]
		}
	}
	return in
}

// backedOff tells of containers that were stopped and whose successors have to wait.
func (w *worker) backedOff(p *v1.Pod, done []podplan.Action) {
	for _, a := range done {
		stop, ok := a.(podplan.Stop)
		if !ok {
			continue
		}
		for _, k := range stop.Kills {
			if k.Held {
				w.life.ends.held[k.ID] = true
				w.pool.d.Events.BackOff(p, k.Name, podplan.FullName(p))
			}
		}
	}
}

// stopped notes what the next looks have to know of containers that a plan has stopped.
func (w *worker) stopped(kills []podplan.Kill) {
	w.life.ends.last = slices.ContainsFunc(kills, func(k podplan.Kill) bool { return k.Last })
	for _, k := range kills {
		if k.Again {
			w.life.ends.again[k.ID] = true
		}
	}
}

// marked is what was seen, with the containers marked that are to be started again however they ended.
func (w *worker) marked(seen podplan.Observed) podplan.Observed {
	if len(w.life.ends.again) == 0 {
		return seen
	}
	seen.Containers = slices.Clone(seen.Containers)
	for i := range seen.Containers {
		seen.Containers[i].Again = w.life.ends.again[seen.Containers[i].ID]
	}
	return seen
}

// tryName is under which name failures of an action are counted.
func tryName(a podplan.Action) string {
	switch a := a.(type) {
	case podplan.Start:
		return a.Name
	case podplan.Furnish:
		return podplan.FurnishTry
	case podplan.CreateSandbox:
		return podplan.SandboxTry
	case podplan.Stop, podplan.StopSandbox:
		return podplan.StopTry
	case podplan.Resize:
		return podplan.ResizeTry
	}
	return podplan.ReleaseTry
}

func codeOf(a podplan.Action) reason.Code {
	switch a.(type) {
	case podplan.Start:
		return reason.CreateContainerError
	case podplan.Furnish:
		return reason.FailedMount
	case podplan.CreateSandbox:
		return reason.FailedCreatePodSandBox
	case podplan.Stop, podplan.StopSandbox:
		return reason.FailedStop
	case podplan.Resize:
		return reason.ResizeError
	}
	return reason.FailedRelease
}

// glance tells the API what happens while something is being done: nothing is decided.
func (w *worker) glance(ctx context.Context, wish *Wish) {
	if err := w.look(ctx); err != nil {
		return
	}
	in := w.asTheyRan(w.in(wish, time.Now()))
	w.life.ends.self = false
	if podplan.Ending(in) != nil && !in.Seen.Alive() {
		return // the last status follows at once
	}
	for name := range w.life.waits {
		if c := in.Seen.Latest(name); c != nil && c.ID != w.life.waitOf[name] && c.State != podplan.Created && !w.life.hooking[name] {
			delete(w.life.waits, name) // that was said of the container before
		}
	}
	w.tellStatus(in, wish)
}

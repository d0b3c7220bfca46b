package podactions

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/reason"
)

// minGrace is what a container gets between TERM and KILL even when preStop has used the whole
// grace period up (docs: pod termination, one-off extension).
const minGrace = 2 * time.Second

// killContainers stops containers side by side. Every preStop hook begins at once; a container of a
// higher wave gets its TERM when all lower waves have ended, or when its grace period is used up.
func (c *operation) killContainers(ctx context.Context, a podplan.Stop) error {
	startedAt := time.Now()
	ended := newTerminationOrdering(a.Kills)
	errs := make([]error, len(a.Kills))
	var wg sync.WaitGroup
	for i, k := range a.Kills {
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer ended.terminated(k.Order)
			errs[i] = c.killContainer(ctx, k, startedAt.Add(k.Grace), ended)
		}()
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return newRefusal(reason.FailedStop, err)
	}
	return nil
}

// killContainer ends one container: its hook, its turn, TERM, and KILL when the deadline has
// passed.
func (c *operation) killContainer(ctx context.Context, k podplan.Kill, deadline time.Time,
	turns *terminationOrdering) error {
	// who is stopped for a probe and then with its Pod is told of twice
	if c.state.markOnce(c.state.killing, k.ID+" "+k.Event) {
		c.executor.d.Events.Killing(c.pod, k.Name, k.Event)
		c.put(journal.Killing{Container: k.Name, Cause: k.Cause, Grace: int64(k.Grace / time.Second)})
	}
	defer c.preStop(ctx, k, deadline)()
	if err := turns.wait(ctx, k.Order, deadline); err != nil {
		return err
	}
	remaining := max(time.Until(deadline), minGrace)
	seconds := int64(math.Ceil(remaining.Seconds() - 0.05)) // the moments since the plan do not lengthen the grace
	startedAt := time.Now()
	stop := c.stopContainer
	if k.Immediate && c.executor.d.Processes != nil {
		stop = c.stopPastRuntime
	}
	if err := ignoreNotFound(stop(ctx, k, seconds)); err != nil {
		return fmt.Errorf("stop container %s: %w", k.Name, err)
	}
	c.put(journal.StopStep{Container: k.Name, Step: "stopped", Took: journal.Took(time.Since(startedAt))})
	return nil
}

// stopContainer has the runtime send the container's stop signal, and KILL when it has not ended
// after so many seconds.
func (c *operation) stopContainer(ctx context.Context, k podplan.Kill, seconds int64) error {
	c.put(journal.StopStep{Container: k.Name, Step: "TERM", Message: fmt.Sprintf("KILL after %d s", seconds)})
	return c.executor.d.Runtime.StopContainer(ctx, k.ID, seconds)
}

// preStop runs the container's hook once, and waits for its end until the deadline at most
// (upstream: executePreStopHook). A hook that is not over then runs on until what is returned is
// called, as that of a container that is stopped meanwhile: it has failed if it does so by itself;
// one that only sleeps does not.
func (c *operation) preStop(ctx context.Context, k podplan.Kill, deadline time.Time) (end func()) {
	m, known := podplan.MemberOf(c.pod, k.Name)
	if !k.RunPreStop || !known || m.Lifecycle == nil || m.Lifecycle.PreStop == nil || time.Until(deadline) <= 0 ||
		!c.state.markOnce(c.state.preStopped, k.ID) {
		return func() {}
	}
	startedAt := time.Now()
	hookCtx, cancel := context.WithCancel(ctx)
	log := klog.FromContext(ctx).WithValues("container", k.Name)
	log.Info("Waiting for the preStop hook", "atMost", time.Until(deadline).Round(time.Millisecond))
	over, failed := make(chan struct{}), ""
	go func() {
		defer close(over)
		err := c.runHook(hookCtx, m, k.ID, m.Lifecycle.PreStop)
		if err == nil || ctx.Err() != nil || hookCtx.Err() != nil && m.Lifecycle.PreStop.Sleep != nil {
			return
		}
		failed = err.Error()
		c.executor.d.Events.Hook(c.pod, k.Name, "FailedPreStopHook", "PreStopHook failed")
	}()
	step := journal.StopStep{Container: k.Name, Step: "preStop"}
	limit := time.NewTimer(time.Until(deadline))
	defer limit.Stop()
	select {
	case <-over:
		step.Message = failed
	case <-limit.C:
		step.Message = "not over when the grace period is"
	}
	step.Took = journal.Took(time.Since(startedAt))
	log.Info("The preStop hook is over", "took", time.Since(startedAt).Round(time.Millisecond),
		"failed", step.Message)
	c.put(step)
	return func() { cancel(); <-over }
}

// markOnce tells whether an id is new to a set, and puts it there.
func (b *podState) markOnce(set map[string]bool, id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if set[id] {
		return false
	}
	set[id] = true
	return true
}

// terminationOrdering lets waves pass one after another.
type terminationOrdering struct {
	mu        sync.Mutex
	remaining map[int]int           // containers of each wave that have not ended
	done      map[int]chan struct{} // closed when a wave has ended
}

func newTerminationOrdering(kills []podplan.Kill) *terminationOrdering {
	t := &terminationOrdering{remaining: map[int]int{}, done: map[int]chan struct{}{}}
	for _, k := range kills {
		t.remaining[k.Order]++
		if t.done[k.Order] == nil {
			t.done[k.Order] = make(chan struct{})
		}
	}
	return t
}

func (t *terminationOrdering) terminated(wave int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.remaining[wave]--; t.remaining[wave] == 0 {
		close(t.done[wave])
	}
}

// wait returns when all lower waves have ended, or at the deadline.
func (t *terminationOrdering) wait(ctx context.Context, wave int, deadline time.Time) error {
	deadlineTimer := time.NewTimer(time.Until(deadline))
	defer deadlineTimer.Stop()
	for w, done := range t.done {
		if w >= wave {
			continue
		}
		select {
		case <-done:
		case <-deadlineTimer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

package podexec

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

// minGrace is what a container gets between TERM and KILL even when preStop has used the whole grace period up (docs: pod termination, one-off extension).
const minGrace = 2 * time.Second

// stop stops containers side by side. Every preStop hook begins at once; a container of a higher wave gets its TERM when all lower waves have ended, or when
// its grace period is used up.
func (c *call) stop(ctx context.Context, a podplan.Stop) error {
	begin := time.Now()
	ended := waves(a.Kills)
	errs := make([]error, len(a.Kills))
	var wg sync.WaitGroup
	for i, k := range a.Kills {
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer ended.leave(k.Wave)
			errs[i] = c.stopOne(ctx, k, begin.Add(k.Grace), ended)
		}()
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return refuse(reason.FailedStop, err)
	}
	return nil
}

// stopOne ends one container: its hook, its turn, TERM, and KILL when the deadline has passed.
func (c *call) stopOne(ctx context.Context, k podplan.Kill, deadline time.Time, turns *turns) error {
	if c.bench.first(c.bench.killing, k.ID+" "+k.Event) { // who is stopped for a probe and then with its Pod is told of twice
		c.h.d.Events.Killing(c.pod, k.Name, k.Event)
		c.put(journal.Killing{Container: k.Name, Cause: k.Cause, Grace: int64(k.Grace / time.Second)})
	}
	c.preStop(ctx, k, deadline)
	if err := turns.wait(ctx, k.Wave, deadline); err != nil {
		return err
	}
	left := max(time.Until(deadline), minGrace)
	seconds := int64(math.Ceil(left.Seconds() - 0.05)) // the moments since the plan do not lengthen the grace
	c.put(journal.StopStep{Container: k.Name, Step: "TERM", Message: fmt.Sprintf("KILL after %d s", seconds)})
	begin := time.Now()
	if err := gone(c.h.d.Runtime.StopContainer(ctx, k.ID, seconds)); err != nil {
		return fmt.Errorf("stop container %s: %w", k.Name, err)
	}
	c.put(journal.StopStep{Container: k.Name, Step: "stopped", Took: journal.Took(time.Since(begin))})
	return nil
}

// preStop runs the container's hook once, until the deadline at most.
func (c *call) preStop(ctx context.Context, k podplan.Kill, deadline time.Time) {
	m, known := podplan.MemberOf(c.pod, k.Name)
	if !k.Hook || !known || m.Lifecycle == nil || m.Lifecycle.PreStop == nil || time.Until(deadline) <= 0 || !c.bench.first(c.bench.hooked, k.ID) {
		return
	}
	begin := time.Now()
	limited, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	log := klog.FromContext(ctx).WithValues("container", k.Name)
	log.Info("Waiting for the preStop hook", "atMost", time.Until(deadline).Round(time.Millisecond))
	step := journal.StopStep{Container: k.Name, Step: "preStop"}
	if err := c.lifecycle(limited, m, k.ID, m.Lifecycle.PreStop); err != nil && ctx.Err() == nil {
		step.Message = err.Error()
		c.h.d.Events.Hook(c.pod, k.Name, "FailedPreStopHook", "PreStopHook failed")
	}
	step.Took = journal.Took(time.Since(begin))
	log.Info("The preStop hook is over", "took", time.Since(begin).Round(time.Millisecond), "failed", step.Message)
	c.put(step)
}

// first tells whether an id is new to a set, and puts it there.
func (b *bench) first(set map[string]bool, id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if set[id] {
		return false
	}
	set[id] = true
	return true
}

// turns lets waves pass one after another.
type turns struct {
	mu   sync.Mutex
	left map[int]int           // containers of each wave that have not ended
	over map[int]chan struct{} // closed when a wave has ended
}

func waves(kills []podplan.Kill) *turns {
	t := &turns{left: map[int]int{}, over: map[int]chan struct{}{}}
	for _, k := range kills {
		t.left[k.Wave]++
		if t.over[k.Wave] == nil {
			t.over[k.Wave] = make(chan struct{})
		}
	}
	return t
}

func (t *turns) leave(wave int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left[wave]--; t.left[wave] == 0 {
		close(t.over[wave])
	}
}

// wait returns when all lower waves have ended, or at the deadline.
func (t *turns) wait(ctx context.Context, wave int, deadline time.Time) error {
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	for w, over := range t.over {
		if w >= wave {
			continue
		}
		select {
		case <-over:
		case <-late.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
